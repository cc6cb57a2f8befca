"""What the known mistakes of xPos predict, by xPos with other fields or by hand."""

import numpy as np
import pytest

from posenc_ref import RoPE, XPos
from posenc_ref.accuracy import budget
from posenc_ref.conformance import check
from posenc_ref.conformance.sequences.cases_qk import Side
from posenc_ref.conformance.sequences.xpos_mistakes import xpos_mistakes

DECLARED = XPos(4, layout="half", centre=3.0)
LENGTH = 13
#: Positions of the queries, whose last one is odd, and of the keys, whose last one is even.
AT = {False: np.array([3, 5, 6, 1, 7]), True: np.array([0, 1, 2, 5, 8])}
X = np.random.default_rng(3).normal(size=(2, 1, 5, 4))


def side(keys):
    return Side(DECLARED, X, AT[keys], AT[not keys], keys=keys, length=LENGTH)


def applied(encoding, keys, x=X, at=None):
    at = AT[keys] if at is None else at
    return encoding.apply_keys(x, at) if keys else encoding.apply_queries(x, at)


def agrees(message, keys, expected):
    """The one mistake of this message predicts this result."""
    (found,) = [one for one in xpos_mistakes(DECLARED) if one.message == message]
    assert found.predict(side(keys)).score(expected).max() <= budget("float64")


CENTRES = {
    "position 0": (0, 0),
    "half the length of the call": (6, 6),
    "half the length of the call, rounded up": (7, 7),
    "(last position + 1) / 2 for each of q and k": (4, 4),
    "(last position + 1) / 2, rounded up, for each of q and k": (4, 5),
    "half the number of tokens in each of q and k": (2, 2),
    "position 1": (1, 1),
    "position -1": (-1, -1),
}


@pytest.mark.parametrize("name", CENTRES)
def test_other_centres_of_the_decay(name):
    for keys, centre in zip((False, True), CENTRES[name], strict=True):
        expected = applied(DECLARED.replace(centre=float(centre)), keys)
        agrees(f"the centre of the decay is {name}", keys, expected)


@pytest.mark.parametrize("keys", [False, True])
def test_other_fields(keys):
    agrees(
        "pairs are interleaved, declared half", keys,
        applied(DECLARED.replace(layout="interleaved"), keys),
    )  # fmt: skip
    for value in (512.0, 256.0, 1024.0, 2048.0, 128.0, 64.0, 4096.0, 1.0):
        expected = applied(DECLARED.replace(scale_base=value), keys)
        agrees(f"scale_base is {value:g}, declared 512", keys, expected)
    for value in (0.4, 0.0001, 0.2, 0.3, 0.5, 0.6, 0.8, 1.0):
        expected = applied(DECLARED.replace(gamma=value), keys)
        agrees(f"gamma is {value:g}, declared 0.4", keys, expected)
    plain = RoPE(4, layout="half").apply(X, AT[keys])
    agrees("the decay is missing: a plain rotation", keys, plain)


@pytest.mark.parametrize("keys", [False, True])
def test_the_decay_and_the_rotation(keys):
    exchanged = applied(DECLARED, not keys, at=AT[keys])
    right = applied(DECLARED, keys)
    agrees("queries and keys have each other's decay", keys, exchanged)
    agrees("keys have the decay of queries", keys, exchanged if keys else right)
    agrees("queries have the decay of keys", keys, right if keys else exchanged)
    n = (AT[keys] - 3.0)[:, None] / 512 * (-1 if keys else 1)
    size = np.tile(DECLARED.decays() ** n, 2)
    back = RoPE(4, layout="half", sign=-1).apply(X, AT[keys])
    agrees("the rotation turns the other way", keys, back * size)
    n = (np.arange(5) - 3.0)[:, None] / 512 * (-1 if keys else 1)
    by_index = RoPE(4, layout="half").apply(X, AT[keys]) * np.tile(DECLARED.decays() ** n, 2)
    agrees("the decay follows the index in the call, not the position", keys, by_index)


def test_keys_beyond_float32_are_infinite():
    """A small scale_base lets keys overflow within the positions that are judged."""
    declared = XPos(8, layout="half", scale_base=64.0)

    def side(x, at, keys):
        n, w = np.asarray(at, np.float64)[..., None], declared.frequencies()
        z = np.exp(n * ((-1 if keys else 1) * np.log(declared.decays()) / 64 + 1j * w))
        z = z if z.ndim == 2 else z[:, None]
        v = (x[..., :4] + 1j * x[..., 4:].astype(np.float64)) * z
        with np.errstate(over="ignore"):
            return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    def right(q, k, q_at, k_at):
        return side(q, q_at, False), side(k, k_at, True)

    report = check(right, declared, "apply_qk")
    assert report.passed, report
    # Changed formulas that overflow in float64 end no judging.
    report = check(lambda q, k, a, b: right(q, k, a, np.asarray(b) + 1), declared, "apply_qk")
    assert report.verdict == "deviates"
    assert not any("broke off" in limit for limit in report.limits)


@pytest.mark.parametrize(
    ("zeta", "words"),
    [
        (lambda k: (2 * k + 0.4) / (8 * 1.4), "(2k/d + gamma/d) / (1 + gamma)"),
        (lambda k: ((2 * k + 1) / 8 + 0.4) / 1.4, "((2k + 1)/d + gamma) / (1 + gamma)"),
        (lambda k: (2 * k / 8 + 0.4) / 1.8, "(2k/d + gamma) / (1 + 2 gamma)"),
    ],
    ids=["gamma over d", "odd", "twice gamma"],
)
def test_another_formula_of_the_decay(zeta, words):
    declared = XPos(8, layout="half")
    decay = np.tile(np.log(zeta(np.arange(4))), 2)

    def side(x, at, sign):
        size = np.exp(sign * np.asarray(at)[..., None] / 512 * decay)
        turned = RoPE(8, layout="half").apply(np.asarray(x, np.float64), at)
        return (turned * (size if size.ndim == 2 else size[:, None])).astype(x.dtype)

    def fn(q, k, q_at, k_at):
        return side(q, q_at, 1), side(k, k_at, -1)

    found = check(fn, declared, "apply_qk").findings[0]
    assert found.message == f"the decay of a pair is {words}"
