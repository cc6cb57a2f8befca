"""Formulas of docstrings, which are ASCII, as MathML.

Products are written side by side, with ``*``, or with a dot between vectors; powers with ``**`` or
``^``; subscripts with ``_``. Browsers draw MathML without a script, in the colours of the page, and
screen readers read it aloud.
"""

import re

from . import mathml as m
from .mathml import identifier

#: Functions whose argument may stand without parentheses.
FUNCTIONS = {"sin", "cos", "exp", "log", "ln"}
TOKENS = re.compile(
    r"""(?P<space>\s*)(?:
    (?P<number>\d+(?:\.\d+)?)
    | (?P<name>[A-Za-z][A-Za-z0-9]*'*(?:_[A-Za-z0-9]+)*(?:(?<=[_,]\w),[a-z](?!\w))*'*)
    | (?P<op>_[({]|\*\*|//|\.\.\.|\.\.|<=|>=|[-+*/%^=<>()\[\]{}|,.;])
    )""",
    re.VERBOSE,
)
RELATIONS = {"=": "=", "<": "<", ">": ">", "<=": "≤", ">=": "≥"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
ENDS = {")", "]", "}", ",", ";", "..", "+", "-", "for", "from", "to", "of", "over", "", *RELATIONS}


class NotAFormula(ValueError):
    """The text is code, or not in the grammar of this module."""


def mathml(text, *, block=False):
    """Return a formula as a ``math`` element.

    Raises
    ------
    NotAFormula
        If the text is a name, a call with keywords or a string, or not in the grammar.
    """
    if re.search(r"\w=\S|[\"':](?!\w?\b|')", re.sub(r"\w'+", "x", text)) or '"' in text:
        raise NotAFormula(f"{text!r} is code")
    if re.fullmatch(r"[A-Za-z]{2,}[A-Za-z0-9]*|\w*_\w{3,}|[A-Z][a-z]+\w*\(.*|\.\w+.*", text):
        raise NotAFormula(f"{text!r} is a name or a call")
    return m.math(_Parser(text).whole(), text, block=block)


class _Parser:
    """Recursive descent; every method returns the MathML of the part it has read."""

    def __init__(self, text):
        self.text, self.at, self.bars, self.small = text, 0, 0, 0
        self.tokens, place = [], 0
        text = text.rstrip()
        while place < len(text):
            found = TOKENS.match(text, place)
            if found is None:
                raise NotAFormula(f"{text!r} has {text[place:]!r}")
            self.tokens.append((found[0].strip(), found.lastgroup, not found["space"]))
            place = found.end()

    def peek(self, ahead=0):
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else ("", "end", False)

    def take(self, *expected):
        word, kind, _ = self.peek()
        if kind == "end" or (expected and word not in expected):
            raise NotAFormula(f"{self.text!r}: {word!r}, expected {expected or 'more'}")
        self.at += 1
        return word

    def whole(self):
        made = self.listed()
        if self.at < len(self.tokens):
            raise NotAFormula(f"{self.text!r}: {self.peek()[0]!r} is left")
        return made

    def listed(self):
        parts = [self.relation()]
        while self.peek()[0] == ",":
            self.take(",")
            parts += [m.mo(","), self.relation()]
        return m.row(*parts)

    def relation(self):
        parts = [self.sum()]
        while self.peek()[0] in {*RELATIONS, ".."}:
            sign = self.take()
            parts += [m.mo(RELATIONS.get(sign, "…")), self.sum()]
        return m.row(*parts)

    def sum(self):
        parts = [self.product()]
        while self.peek()[0] in {"+", "-"}:
            parts += [m.mo("−" if self.take() == "-" else "+"), self.product()]
        return m.row(*parts)

    def product(self):
        parts = [self.factor()]
        while not self.ends():
            word = self.peek()[0]
            if word in {"/", "//"}:
                parts = [self.quotient(parts)]
            elif word == "*":
                self.take()
                parts += [m.mo("·" if self.peek()[1] == "number" else m.TIMES), self.factor()]
            elif word == ".":
                self.take()
                parts += [m.mo("·"), self.factor()]
            elif word in {"mod", "%"}:
                self.take()
                parts += [m.mo("mod"), self.factor()]
            else:
                parts += [m.mo(m.TIMES), self.factor()]
        return m.row(*parts)

    def ends(self):
        word = self.peek()[0]
        return word in ENDS or (word == "|" and self.bars > 0)

    def quotient(self, parts):
        whole = self.take() == "//"
        above, below = m.row(*parts), self.factor()
        if whole:
            return m.fenced("⌊", m.row(above, m.mo("/"), below), "⌋")
        if self.small:
            return m.row(above, m.mo("/"), below)
        return m.fraction(above, below)

    def factor(self):
        if self.peek()[0] in {"-", "+"}:
            return m.row(m.mo("−" if self.take() == "-" else "+"), self.factor())
        word = self.peek()[0]
        if word == "sum" or word.startswith("sum_"):
            return self.series()
        made = self.postfixed(self.atom())
        while self.peek()[0] in {"**", "^"}:
            self.take()
            self.small += 1
            made = m.power(made, self.exponent())
            self.small -= 1
        return made

    def exponent(self):
        if self.peek()[0] == "-":
            self.take()
            return m.row(m.mo("−"), self.exponent())
        return m.unfenced(self.postfixed(self.atom()))

    def series(self):
        """Read ``sum_k x``, ``sum over axes a of x``, or ``sum of x for t = a .. b``."""
        index = self.take().partition("_")[2]
        if index:
            return m.series(identifier(index), "", self.product())
        if self.peek()[0] == "over":
            self.take("over")
            names = [identifier(self.take())]
            while self.peek()[0] != "of":
                names.append(identifier(self.take()))
            self.take("of")
            return m.series(m.row(*names), "", self.product())
        if self.peek()[0] == "of":
            self.take("of")
        body = self.product()
        if self.peek()[0] == "over":
            self.take("over")
            return m.series(self.relation(), "", body)
        if self.peek()[0] != "for":
            return m.series("", "", body)
        self.take("for")
        index = identifier(self.take())
        self.take("=", "from")
        first = self.sum()
        self.take("..", "to")
        return m.series(m.row(index, m.mo("="), first), self.sum(), body)

    def atom(self):
        word, kind, _ = self.peek()
        if kind == "number":
            return m.mn(self.take())
        if word == "...":
            self.take()
            return m.mi("…")
        if word == "|":
            return self.absolute()
        if word in CLOSING:
            return self.group()
        if kind != "name" or word in ENDS:
            raise NotAFormula(f"{self.text!r}: {word!r}, expected a name or a number")
        name = self.take()
        if name in {"sqrt", "floor", "ceil"} and self.peek()[0] == "(":
            inside = m.unfenced(self.group())
            if name == "sqrt":
                return m.root(inside)
            return m.fenced("⌊", inside, "⌋") if name == "floor" else m.fenced("⌈", inside, "⌉")
        made = identifier(name)
        if self.peek()[0] in {"_(", "_{"}:
            closing = {"_(": ")", "_{": "}"}[self.take()]
            self.small += 1
            made = m.subscript(made, self.sum())
            self.small -= 1
            self.take(closing)
        if self.peek()[0] == "of":  # "mean of x"
            self.take("of")
            return m.row(made, m.mo("of"), self.product())
        if name in FUNCTIONS and not self.ends() and self.peek()[0] != "(":
            return m.row(made, m.mo(m.TIMES), self.postfixed(self.atom()))
        return made

    def postfixed(self, made):
        """Read the arguments of a call, or indices: they follow without a space."""
        while self.peek()[0] in {"(", "["} and self.peek()[2]:
            call = self.peek()[0] == "("
            made = m.row(made, m.mo("\u2061") if call else "", self.group())
        return made

    def absolute(self):
        self.take("|")
        outside, self.bars = self.bars, 1
        inside = self.sum()
        self.bars = outside
        self.take("|")
        return m.fenced("|", inside, "|")

    def group(self):
        opening = self.take(*CLOSING)
        outside, self.bars = self.bars, 0
        inside = self.matrix() if opening == "[" and self.has_rows() else self.listed()
        self.bars = outside
        self.take(CLOSING[opening])
        return (
            m.fenced("", inside, "")
            if opening == "{"
            else m.fenced(opening, inside, CLOSING[opening])
        )

    def has_rows(self):
        for word, *_ in self.tokens[self.at :]:
            if word in {";", "]"}:
                return word == ";"
        return False

    def matrix(self):
        rows = [[]]
        while self.peek()[0] != "]":
            if self.peek()[0] == ";":
                self.take(";")
                rows.append([])
            else:
                rows[-1].append(self.atom())
        return m.table(rows)
