"""Docstrings as Markdown, with their formulas as mathematics."""

import inspect
import re
import textwrap

from .formula import NotAFormula, mathml

#: Sections whose literals are formulas, if they can be read as such.
MATHEMATICAL = ("Formula", "Error unit", "Properties")
ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
ROLE = re.compile(r":(\w+):`~?([^`]+)`")
LITERAL = re.compile(r"``([^`]+)``")
#: Separates a formula from the punctuation that stays on its line.
TAIL = "\u2063"


def sections(cls):
    """Return the parts of a docstring before its parameters: heading -> text; "" is the summary."""
    text = (inspect.getdoc(cls) or "").split("\nParameters\n---")[0]
    text = re.split(r"\n[A-Z][a-z]+\n---", text)[0]
    found, heading = {"": []}, ""
    for line in text.splitlines():
        if re.match(r"[A-Z].*", line) and not line.endswith(".") and found[""]:
            heading = re.split(r" \(see ", line)[0]
            found[heading] = []
        else:
            found[heading].append(line)
    return {
        head: textwrap.dedent("\n".join(lines)).strip("\n")
        for head, lines in found.items()
        if lines
    }


def markdown(text, links, *, formulas):
    """Return the text of a docstring as Markdown.

    Parameters
    ----------
    text : str
        A section, in reStructuredText.
    links : mapping of str to str
        The pages of names: those in roles are linked.
    formulas : bool
        Whether literals that can be read as formulas are set as mathematics.
    """

    def role(found):
        name = found[2].rpartition(".")[2]
        return f"[`{name}`]({links[name]})" if name in links else f"`{name}`"

    def literal(found):
        if not formulas:
            return f"`{found[1]}`{found[2]}"
        return formula(found[1], "{formula}", found[2])

    text = re.sub("::$", ":", text, flags=re.MULTILINE)  # the indented lines are code in both
    text = re.sub(LITERAL.pattern + r"([.,;:]?)", literal, ROLE.sub(role, text))
    return ARXIV.sub(r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def formula(text, role, tail=""):
    """Return a formula for the role of the site, or code if the text is code."""
    text = " ".join(text.split())
    if is_formula(text):
        return f"{role}`{text}{TAIL}{tail}`"
    return f"`{text}`{tail}" if role == "{formula}" else f"``{text}``{tail}"


def is_formula(text):
    """Return whether the text can be set as mathematics."""
    try:
        mathml(text)
    except NotAFormula:
        return False
    return True
