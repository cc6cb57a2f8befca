"""What calls keep is named, and with it undone the other mistakes of a function are named too."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

HALF = RoPE(64, layout="half")
LAYOUT, BASE = HALF.replace(layout="interleaved"), HALF.replace(base=500000.0)
EARLIER = "a call at other positions returns the result of an earlier call of the same length"
BY_TOKENS = "every call moves the positions of the calls after it by the number of its tokens"


def tokens(x):
    return x.shape[2]


class Moving:
    """Adds to the positions what earlier calls have counted."""

    def __init__(self, encoding=HALF, count=None, factor=1.0, given=1, least=None, then=None):
        self.encoding, self.factor, self.given, self.least = encoding, factor, given, least
        self.count, self.then, self.seen = count or tokens, then or (lambda seen, p: seen), 0

    def __call__(self, x, p):
        if self.least is not None and np.min(p) < self.least:
            raise ValueError(f"positions have to be at least {self.least}")
        p = np.asarray(p) if self.given else np.arange(x.shape[2])
        y = self.encoding.apply(x, p + self.seen)
        self.seen = self.then(self.seen + self.count(x), p)
        return (y * self.factor).astype(np.float32)


class Scaling:
    """Multiplies the frequencies once more in every call."""

    def __init__(self, by, interleaved=False, least=1):
        self.w, self.by, self.interleaved = HALF.frequencies(), by, interleaved
        self.least = least  # the fewest tokens of calls that multiply

    def __call__(self, x, p):  # trials of conventions make some 200 calls
        self.w = self.w * (self.by if x.shape[2] >= self.least else 1)
        angle = np.asarray(p)[..., None] if np.ndim(p) < 2 else np.asarray(p)[:, None, :, None]
        angle = angle * self.w
        c, s, y = np.cos(angle), np.sin(angle), np.array(x, np.float64)
        a, b = slice(0, 32), slice(32, 64)
        if self.interleaved:
            a, b = slice(0, None, 2), slice(1, None, 2)
        y[..., a], y[..., b] = x[..., a] * c - x[..., b] * s, x[..., b] * c + x[..., a] * s
        return y.astype(np.float32)


class Kept:
    """Keeps positions, and so tables, for each number of tokens and rows.

    Calls of ``many`` tokens and more have another encoding, or are refused.
    """

    def __init__(self, encoding, bits=None, many=300, other=None, refuses=False):
        self.encoding, self.bits, self.positions = encoding, bits, {}
        self.many, self.other, self.refuses = many, other or encoding, refuses

    def __call__(self, x, p):
        p = np.asarray(p)
        if self.refuses and x.shape[2] >= self.many:
            raise ValueError(f"less than {self.many} tokens are allowed")
        p = self.positions.setdefault((x.shape[2], p.shape), p)
        if self.bits is None:
            encoding = self.encoding if x.shape[2] < self.many else self.other
            return encoding.apply(x, p).astype(np.float32)
        angle = self.bits(np.multiply.outer(p, self.bits(HALF.frequencies())))
        angle = angle if angle.ndim < 3 else angle[:, None]
        c, s = np.cos(angle), np.sin(angle)
        a, b = x[..., :32], x[..., 32:]
        return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(np.float32)


def half(values):
    return np.asarray(values).astype(np.float16).astype(np.float64)


CASES = {
    "tokens": (lambda: Moving(), [BY_TOKENS]),
    "calls": (lambda: Moving(count=lambda x: 1), ["of the calls after it by 1"]),
    "all rows": (
        lambda: Moving(count=lambda x: x.shape[0] * x.shape[2]), ["tokens in all its rows"],
    ),
    "rows": (lambda: Moving(count=lambda x: x.shape[0]), ["by the number of its rows"]),
    "all but one token": (
        lambda: Moving(count=lambda x: x.shape[2] - 1), ["the number of its tokens minus 1"],
    ),
    "ignored": (lambda: Moving(given=0), ["continues those of the call before"]),
    "tokens, base": (lambda: Moving(BASE), [BY_TOKENS, "the base is 500000"]),
    "tokens, layout": (lambda: Moving(LAYOUT), [BY_TOKENS, "pairs are interleaved"]),
    "tokens, size": (lambda: Moving(factor=1.25), [BY_TOKENS, "multiplied by 1.25"]),
    "smaller": (lambda: Scaling(0.9), ["frequencies that the next calls use by 0.9"]),
    "larger": (lambda: Scaling(1.01), ["frequencies that the next calls use by 1.01"]),
    "smaller, layout": (
        lambda: Scaling(0.95, interleaved=True), ["calls use by 0.95", "pairs are interleaved"],
    ),
    "kept": (lambda: Kept(HALF), [EARLIER]),
    "kept, base": (lambda: Kept(BASE), [EARLIER, "the base is 500000"]),
    "kept, layout": (lambda: Kept(LAYOUT), [EARLIER, "pairs are interleaved"]),
    "kept, float16": (lambda: Kept(HALF, half), [EARLIER, "angles in float16"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept_and_other_mistakes_are_named(name):
    made, words = CASES[name]
    errors = [f for f in check(made(), HALF).findings if f.severity == "error"]
    assert len(errors) == len(words)
    said = " ".join(f.message for f in errors)
    assert all(text in said for text in words)
    assert "consistent with" not in said


def test_a_fresh_instance_for_every_call_shows_the_other_mistake():
    report = check(Kept(BASE), HALF, factory=lambda: Kept(BASE))
    assert {f.code for f in report.findings if f.severity == "error"} >= {"state", "base"}


def test_frequencies_of_zero_are_not_multiplied():
    """Pairs of another layout show no angles, which any factor would give."""
    report = check(Scaling(0.25, interleaved=True), HALF)
    assert not any("use by" in f.message for f in report.findings)


ONLY_KEPT = {
    "positions below 0 are refused": (lambda: Moving(least=0), BY_TOKENS),
    "many tokens are refused": (lambda: Kept(HALF, refuses=True), EARLIER),
    "many tokens have another base": (lambda: Kept(HALF, other=BASE), EARLIER),
    "many tokens have another layout": (lambda: Kept(HALF, many=257, other=LAYOUT), EARLIER),
}


@pytest.mark.parametrize("name", ONLY_KEPT)
def test_calls_that_undo_what_is_kept_are_not_blamed_for_themselves(name):
    made, words = ONLY_KEPT[name]
    errors = [f for f in check(made(), HALF).findings if f.severity == "error"]
    assert [words in f.message for f in errors] == [True]


class BaseOfShort(Moving):
    """Has another base in calls of few tokens."""

    def __call__(self, x, p):
        self.encoding = BASE if x.shape[2] < 8 else HALF
        return super().__call__(x, p)


NOT_EVERY_CALL = {
    "one token is not counted": lambda: Moving(count=lambda x: tokens(x) * (tokens(x) > 1)),
    "few tokens are not counted": lambda: Moving(count=lambda x: tokens(x) * (tokens(x) > 15)),
    "many tokens are not counted": lambda: Moving(count=lambda x: tokens(x) * (tokens(x) < 200)),
    "modulo 4096": lambda: Moving(then=lambda seen, p: seen % 4096),
    "at most 4096": lambda: Moving(then=lambda seen, p: min(seen, 4096)),
    "anew after far positions": lambda: Moving(then=lambda seen, p: seen * (np.max(p) < 1001)),
    "base of short calls": BaseOfShort,
    "one token does not multiply": lambda: Scaling(0.9, least=2),
    "few tokens do not multiply": lambda: Scaling(1.01, least=16),
}


@pytest.mark.parametrize("name", NOT_EVERY_CALL)
def test_what_some_calls_change_is_not_said_of_every_call(name):
    errors = [f for f in check(NOT_EVERY_CALL[name](), HALF).findings if f.severity == "error"]
    assert "state" in {f.code for f in errors}
    assert not any("every call" in f.message or f.code != "state" for f in errors)
