"""Elements of MathML, as text."""

import re
from html import escape

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eps": "ε", "zeta": "ζ", "theta": "θ",
    "lambda": "λ", "omega": "ω", "phi": "φ", "psi": "ψ", "pi": "π",
}  # fmt: skip

#: A product without a sign: readers see a small space, screen readers say "times".
TIMES = "\u2062"
_TIMES = f'<mo lspace="0.08em" rspace="0.08em">{TIMES}</mo>'


def math(body, source, *, block):
    """Return a whole formula; ``source`` is its text for those who cannot draw it."""
    shown = ' display="block"' if block else ' displaystyle="true"'
    label = f'<annotation encoding="text/plain">{escape(source)}</annotation>'
    return f"<math{shown}><semantics>{body or '<mrow></mrow>'}{label}</semantics></math>"


def mi(name, kind=""):
    """Return an identifier."""
    return f"<mi{kind}>{escape(name)}</mi>"


def mn(number):
    """Return a number."""
    return f"<mn>{number}</mn>"


def mo(sign):
    """Return an operator."""
    return f"<mo>{escape(sign)}</mo>" if sign != TIMES else _TIMES


def row(*parts):
    """Return parts side by side."""
    parts = [part for part in parts if part]
    return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"


def fenced(opening, inside, closing):
    """Return parts between signs that grow with them."""
    before = f"<mo fence='true'>{escape(opening)}</mo>" if opening else ""
    after = f"<mo fence='true'>{escape(closing)}</mo>" if closing else ""
    return f'<mrow class="fenced">{before}{inside}{after}</mrow>'


def unfenced(made):
    """Return what round parentheses hold: an exponent, a root or a fraction needs none."""
    found = re.fullmatch(
        r"""<mrow class="fenced"><mo fence='true'>\(</mo>(.*)<mo fence='true'>\)</mo></mrow>""",
        made,
    )
    if found is None or not _balanced(found[1]):
        return made
    return found[1]


def _balanced(text):
    """Return whether no element ends that did not begin in the text."""
    depth = 0
    for tag in re.findall(r"<(/?)mrow", text):
        depth += -1 if tag else 1
        if depth < 0:
            return False
    return depth == 0


def fraction(above, below):
    """Return a fraction."""
    return f"<mfrac>{_one(unfenced(above))}{_one(unfenced(below))}</mfrac>"


def power(base, exponent):
    """Return a power."""
    return f"<msup>{_one(base)}{_one(exponent)}</msup>"


def subscript(base, index):
    """Return a base with an index."""
    return f"<msub>{_one(base)}{_one(index)}</msub>"


def root(inside):
    """Return a square root."""
    return f"<msqrt>{inside}</msqrt>"


def series(under, over, body):
    """Return a sum over a range."""
    sign = "<mo>∑</mo>"
    if over:
        return row(f"<munderover>{sign}{_one(under)}{_one(over)}</munderover>", body)
    return row(f"<munder>{sign}{_one(under)}</munder>" if under else sign, body)


def table(rows):
    """Return a matrix, from rows of cells."""
    cells = ("".join(f"<mtd>{cell}</mtd>" for cell in one) for one in rows)
    return f"<mtable>{''.join(f'<mtr>{one}</mtr>' for one in cells)}</mtable>"


def _one(part):
    """Return one element, as scripts and fractions count their parts."""
    return f"<mrow>{part}</mrow>"


def identifier(name):
    """Return a name: Greek letters, digits as subscripts, a short last part as indices.

    ``theta_k`` and ``A_ij`` have indices; ``max_position`` and ``beta_fast`` are fields.
    """
    head, _, index = name.rpartition("_")
    bare = index.replace("'", "")
    if head and (len(bare) <= 2 or "," in bare):
        return _indexed(head, bare, "'" * index.count("'"))
    plain = name.rstrip("'")
    return _primed(_word(plain), name[len(plain) :])


def _indexed(head, index, primes):
    word = re.fullmatch(r"([A-Za-z])(\d+)", head)
    letters = [mn(one) if one.isdigit() else mo(one) if one == "," else mi(one) for one in index]
    if word:  # r1_h has two indices
        head, letters = word[1], [mn(word[2]), mo(","), *letters]
    plain = head.rstrip("'")
    base, primes = _word(plain), head[len(plain) :] + primes
    if primes:
        return f"<msubsup>{_one(base)}{_one(row(*letters))}<mo>{'′' * len(primes)}</mo></msubsup>"
    return subscript(base, row(*letters))


def _primed(base, primes):
    return f"<msup>{_one(base)}<mo>{'′' * len(primes)}</mo></msup>" if primes else base


def _word(name):
    if name in GREEK:
        return mi(GREEK[name])
    numbered = re.fullmatch(r"([A-Za-z]|log)(\d+)", name)
    if numbered:
        return subscript(mi(numbered[1]), mn(numbered[2]))
    if "_" in name:
        return mi(name, ' class="field"')
    return mi(name)
