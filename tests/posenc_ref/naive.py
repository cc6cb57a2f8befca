"""Terms of scores one number at a time, in 50-digit arithmetic."""

import numpy as np

from posenc_ref import scores
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp

B, H, Q, K, D = 1, 2, 4, 5, 6
RNG = np.random.default_rng(5)
q, k = RNG.standard_normal((B, H, Q, D)), RNG.standard_normal((B, H, K, D))
Q_AT, K_AT = np.array([7, 3, 41, 0]), np.array([0, 9, 2, 41, 12])


def numbers(rng, *shape):
    """Numbers a float32 table can hold."""
    return rng.standard_normal(shape).astype(np.float32)


def dot(a, b):
    """The products that a dot product adds up."""
    return [mp.mpf(float(x)) * mp.mpf(float(y)) for x, y in zip(a, b, strict=True)]


def check_terms(encoding, summands, scale, q_at=Q_AT, k_at=K_AT, judged=True, sizes=True):
    """Each term is the sum of its ``summands(b, h, i, j)``, times the scale; A is that of sizes.

    ``scale`` may be one for each term.  ``sizes=False``: A has more in it, and is taken as it is.

    Returns the worst score over terms and logits.
    """
    terms = encoding.terms(q, k, q_at, k_at)
    assert list(terms) == list(summands)
    declared = encoding.truths(q, k, q_at[:, None], k_at[None, :], encoding.own_scale(D))
    logits, size, worst = np.zeros((B, H, Q, K)), np.zeros((B, H, Q, K)), 0.0
    angle = np.zeros((B, H, Q, K))
    with mp.workdps(DIGITS):
        for name, of in summands.items():
            value, a = np.zeros((B, H, Q, K)), np.zeros((B, H, Q, K))
            for b, h, i, j in np.ndindex(B, H, Q, K):
                factor = scale[name] if isinstance(scale, dict) else scale
                parts = [x * mp.mpf(factor) for x in of(b, h, i, j)]
                value[b, h, i, j], a[b, h, i, j] = mp.fsum(parts), mp.fsum(map(abs, parts))
            a = a if sizes else declared[name].terms
            truth = Truth(value, a, declared[name].angle)
            assert terms[name].shape == value.shape
            worst = max(worst, np.where(judged, truth.score(terms[name]), 0.0).max())
            assert Truth(a, a, declared[name].angle).score(declared[name].terms).max() <= budget(
                "float64"
            )
            logits, size, angle = logits + value, size + a, angle + declared[name].angle
    score = Truth(logits, size, angle).score(scores(encoding, q, k, q_at, k_at))
    worst = max(worst, np.where(judged, score, 0.0).max())
    assert worst <= budget("float64")
    return worst


def worst_logits(encoding, q, k, actual, dtype="float64", judged=True):
    """The worst score of a module's logits (B, H, S, S) against the encoding's."""
    n = np.arange(q.shape[2])
    parts = encoding.truths(q, k, n[:, None], n[None, :], encoding.own_scale(q.shape[-1]))
    value, terms, angle = (sum(getattr(t, a) for t in parts.values())
                           for a in ("value", "terms", "angle"))  # fmt: skip
    return np.where(judged, Truth(value, terms, angle).score(actual, dtype=dtype), 0.0).max()
