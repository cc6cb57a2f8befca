"""Formulas of docstrings are translated to MathML without losing or adding anything."""

import inspect
import re
from collections import Counter
from xml.etree import ElementTree

import pytest

from posenc_ref import Attention, ConvPositions, MRoPEPositions
from posenc_ref.conformance.guide.names import encodings, scalings
from tools.website.formula import NotAFormula, mathml

#: Literals in formulas that are code: names of fields, and calls with a keyword.
CODE = re.compile(r"""[A-Za-z]\w+|[A-Z]\w+\([\w, ]*\)|\w+=("\w+"|\w+)""")
SPELT = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "eps", "ζ": "zeta", "θ": "theta",
    "λ": "lambda", "ω": "omega", "φ": "phi", "ψ": "psi", "π": "pi", "∑": "sum", "⌊": "floor",
    "⌈": "ceil", "√": "sqrt", "≤": "<=", "≥": ">=", "−": "-",
}  # fmt: skip


def literals():
    """Return every literal in a section about a formula, with the class of its docstring."""
    found = []
    for cls in [*encodings(), *scalings(), Attention, ConvPositions, MRoPEPositions]:
        doc = inspect.getdoc(cls)
        for heading in ("Formula", "Error unit"):
            section = re.search(rf"^{heading}.*\n((?: +.*\n?)+)", doc, re.MULTILINE)
            if section:
                text = " ".join(section[1].split())
                found += [(cls.__name__, one) for one in re.findall(r"``([^`]+)``", text)]
    return found


def words(text):
    """Return the letters and digits of a formula, however it is written."""
    for word in ("floor", "ceil", "of", "over", "from", "for", "to", "mod"):
        text = re.sub(rf"\b{word}\b", " ", text)
    return Counter(re.sub(r"[^A-Za-z0-9]", "", text))


def read(element):
    """Return MathML as ASCII; written apart from the module that makes it."""
    tag = element.tag
    inner = [read(child) for child in element if child.tag != "annotation"]
    if tag == "msqrt":
        return f" sqrt {' '.join(inner)} "
    text = "".join(SPELT.get(sign, sign) for sign in element.text or "")
    return f"{' ' if len(text) > 1 else ''}{text}{' '.join(inner)}"


@pytest.mark.parametrize("name", sorted({name for name, _ in literals()}))
def test_every_formula_of_a_docstring_is_set_as_mathematics(name):
    for own, text in literals():
        if own != name or CODE.fullmatch(text):
            continue
        made = mathml(text)  # NotAFormula says where
        assert words(read(ElementTree.fromstring(made))) == words(text), text


def math(body):
    return re.sub(r"\s*\n\s*", "", body)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("theta_k", "<msub><mrow><mi>θ</mi></mrow><mrow><mi>k</mi></mrow></msub>"),
        ("max_position + 1", '<mi class="field">max_position</mi><mo>+</mo><mn>1</mn>'),
        ("x^2", "<msup><mrow><mi>x</mi></mrow><mrow><mn>2</mn></mrow></msup>"),
        ("a / (b + c)", "<mfrac><mrow><mi>a</mi></mrow><mrow><mrow><mi>b</mi><mo>+</mo>"),
        ("i // C", "<mo fence='true'>⌊</mo><mrow><mi>i</mi><mo>/</mo><mi>C</mi></mrow>"),
        ("sqrt(d)", "<msqrt><mi>d</mi></msqrt>"),
        ("|i - j|", "<mo fence='true'>|</mo><mrow><mi>i</mi><mo>−</mo><mi>j</mi></mrow>"),
        ("sum of x_t for t = 0 .. i", "<munderover><mo>∑</mo><mrow><mrow><mi>t</mi><mo>=</mo>"),
        ("L0", "<msub><mrow><mi>L</mi></mrow><mrow><mn>0</mn></mrow></msub>"),
        ("[K 0; 0 1]", "<mtable><mtr><mtd><mi>K</mi></mtd><mtd><mn>0</mn></mtd></mtr>"),
    ],
)
def test_a_form_is_set_as_in_a_paper(text, expected):
    assert expected in mathml(text)


def test_an_exponent_has_no_parentheses_of_its_own():
    made = mathml("base ** (-(a + b) (c + d))")
    assert read(ElementTree.fromstring(made)).count("(") == 2


def test_a_fraction_takes_the_whole_product_and_no_more():
    fraction = ElementTree.fromstring(mathml("q . k / sqrt(d) + b")).find(".//mfrac")
    assert words(read(fraction[0])) == Counter("qk")
    assert words(read(fraction[1])) == words("sqrt(d)")


@pytest.mark.parametrize("text", ["a +", "(a", "a)", "a b)", 'form="log"', "f(x", "sum of", "§"])
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(NotAFormula):
        mathml(text)
