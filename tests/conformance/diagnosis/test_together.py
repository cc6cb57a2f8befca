"""Two mistakes that are made at once are both named, and only if they predict every result."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.surfaces import SURFACES

RNG = np.random.default_rng(7)
SHAW = RNG.normal(size=(17, 16))
SWIN = RNG.normal(size=(49, 3))
R1, R2 = np.abs(RNG.normal(size=(2, 4))) + 0.3


def shaw(q, k, *, clip=8, of_keys=False):
    n_q, n_k = q.shape[2], k.shape[2]
    r = np.arange(n_k) - np.arange(n_k - n_q, n_k)[:, None]
    a = SHAW[np.clip(r, -clip, clip) + 8]
    term = np.einsum("bhkc,qkc->bhqk", k, a) if of_keys else np.einsum("bhqc,qkc->bhqk", q, a)
    return (q @ np.swapaxes(k, -1, -2) + term) / 4


def alibi(q, k, *, most=10**6, sign=-1):
    n_q, n_k = q.shape[2], k.shape[2]
    distance = np.abs(np.arange(n_k) - np.arange(n_k - n_q, n_k)[:, None])
    bias = sign * pr.ALiBi(6).slopes()[:, None, None] * np.minimum(distance, most)
    return q @ np.swapaxes(k, -1, -2) * q.shape[3] ** -0.5 + bias


def rope(q, k, *, base=1e4, layout="half"):
    e = pr.RoPE(16, layout=layout, base=base)
    n_q, n_k = q.shape[2], k.shape[2]
    q, k = e.apply(q, np.arange(n_k - n_q, n_k)), e.apply(k, np.arange(n_k))
    return q @ np.swapaxes(k, -1, -2) / 4


def swin(q_len, k_len, *, sign=1, heads=slice(None)):
    y, x = np.arange(16) // 4, np.arange(16) % 4
    dy, dx = (sign * (a[:, None] - a) for a in (y, x))
    return np.moveaxis(SWIN[(dy + 3) * 7 + dx + 3][..., heads], -1, 0)[:, k_len - q_len :, :k_len]


def kerple(q_len, k_len, *, r1=R1, r2=R2, aligned=True):
    q = np.arange(q_len) + (k_len - q_len) * aligned
    d = np.abs(q[:, None] - np.arange(k_len))
    return -r1[:, None, None] * np.log1p(r2[:, None, None] * d)


def attention(
    q, k, v, q_at, k_at, *, base=1e4, scale=0.25, restart=False, own=True, first=False, tiled=False
):
    heads = np.arange(q.shape[1])
    heads = heads % k.shape[1] if tiled else heads // (q.shape[1] // k.shape[1])
    e = pr.RoPE(16, layout="half", base=base)
    q, k = e.apply(q, q_at - restart * q_at[..., :1]), e.apply(k, k_at)[:, heads]
    n_q, n_k = q.shape[2], k.shape[2]
    i, j = np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)
    seen = (j <= i) if own else (j < i) | (first & (i == 0) & (j == 0))
    logits = np.where(seen, q @ np.swapaxes(k, -1, -2) * scale, -np.inf)
    top = np.max(logits, axis=-1, keepdims=True, initial=-1e30)
    weights = np.exp(logits - top)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total > 0, total, 1) @ v[:, heads]


def in_float16(q, k, v, q_at, k_at):
    heads = np.arange(q.shape[1]) // (q.shape[1] // k.shape[1])
    e = pr.RoPE(16, layout="half")
    n_q, n_k = q.shape[2], k.shape[2]
    logits = e.apply(q, q_at) @ np.swapaxes(e.apply(k, k_at)[:, heads], -1, -2) / 4
    logits = np.where(np.arange(n_k) <= np.arange(n_k - n_q, n_k)[:, None], logits, -np.inf)
    weights = np.exp((logits - logits.max(axis=-1, keepdims=True)).astype(np.float16))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32) @ v[:, heads]


SHAW_OF = pr.Shaw(SHAW, before=8), "scores", shaw
ALIBI = pr.ALiBi(6, causal=False), "scores", alibi
ROPE = pr.RoPE(16, layout="half"), "scores", rope
SWIN_OF = pr.SwinBias(SWIN, window=(4, 4)), "bias", swin
KERPLE = pr.Kerple(R1, R2), "bias", kerple
ATTENTION = pr.Attention(pr.RoPE(16, layout="half")), "attention", attention
CASES = {
    "a bound and another operand": (
        SHAW_OF, {"clip": 7, "of_keys": True},
        "clamped to -7 .. 7, not to -8 .. 8", "is k . a, not q . a",
    ),
    "a measured bound and a sign": (
        ALIBI, {"most": 64, "sign": 1},
        "the slope has the opposite sign", "the offset query - key is clamped to -64 .. 64",
    ),
    "two fields": (
        ROPE, {"base": 1e3, "layout": "interleaved"},
        "pairs are interleaved, declared half", "the base is 1000, declared 10000",
    ),
    "an order of heads": (
        SWIN_OF, {"sign": -1, "heads": slice(None, None, -1)},
        "the relative positions have the opposite sign", "the heads are in reverse order",
    ),
    "a factor": (
        KERPLE, {"r1": 0.5 * R1, "r2": np.ones(4)},
        "r2 is left out", "the bias is multiplied by 0.5",
    ),
    "two steps": (
        KERPLE, {"aligned": False, "r1": np.ones(4)},
        "query i has the position of key i", "r1 is left out",
    ),
    "a mask and a scale": (
        ATTENTION, {"own": False, "scale": 1 / 16},
        "queries do not see their own key", "the scale is applied twice",
    ),
    "a mask and key heads": (
        ATTENTION, {"own": False, "tiled": True},
        "queries do not see their own key", "key heads are tiled, not repeated",
    ),
    "positions and a base": (
        ATTENTION, {"restart": True, "base": 1e3},
        "the positions of queries start at 0 in every call", "the base is 1000, declared 10000",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_mistakes_are_named(name):
    (encoding, surface, function), changes, *words = CASES[name]
    assert check(function, encoding, surface, max_position=130).verdict == "conforms"
    found = check(lambda *a: function(*a, **changes), encoding, surface, max_position=130).findings
    text = "; ".join(one.message for one in found)
    assert all(word in text for word in words), text
    assert "consistent" not in text
    assert all("together with the other finding" in one.evidence for one in found)


def test_a_third_mistake_leaves_both_unnamed():
    encoding, surface, function = SHAW_OF

    def wrong(q, k):
        return np.cbrt(function(q, k, clip=7, of_keys=True))

    text = "; ".join(
        one.message for one in check(wrong, encoding, surface, max_position=130).findings
    )
    assert "clamped" not in text
    assert "k . a" not in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"own": False, "first": True}, "queries do not see their own key, but query 0 sees it"),
        ({"restart": True}, "the positions of queries start at 0 in every call"),
    ],
)
def test_one_mistake_of_attention_is_named_alone(changes, words):
    encoding, surface, function = ATTENTION
    (found,) = check(lambda *a: function(*a, **changes), encoding, surface).findings
    assert found.message == words


LEARNED = RNG.normal(size=(64, 16)).astype(np.float32)
LOOKED_UP = {
    "rows and columns": (
        lambda p: LEARNED[p // 2][:, (np.arange(16) + 8) % 16],
        "the columns are permuted", "the row used is that of the declared position // 2",
    ),
    "rows and a sign": (
        lambda p: -LEARNED[np.minimum(p + 1, 50)],
        "every row has the opposite sign",
        "the row used is that of the declared position + 1, clamped to at most 50",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKED_UP)
def test_rows_of_a_learned_table_and_what_is_done_to_them_are_named(name):
    function, *words = LOOKED_UP[name]
    found = check(function, pr.Learned(LEARNED), "table").findings
    text = "; ".join(one.message for one in found)
    assert all(word in text for word in words), text
    assert not any("agrees in every call" in one.remedy for one in found)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (lambda n: 2 * pr.Sinusoidal(16).table(np.arange(n)[::-1]),
         ["the rows come in the reverse order", "the encoding is multiplied by 2"]),
        (lambda n: pr.Sinusoidal(16, base=1e3).table(np.arange(n)),
         ["x is multiplied by 4 = sqrt(16)", "the base is 1000, declared 10000"]),
    ],
)  # fmt: skip
def test_rows_that_are_added_and_a_factor_are_named(rows, words):
    by = 4 if "x is" in words[0] else 1
    own = SURFACES["add"].own(pr.Sinusoidal(16), "float32")
    assert check(own, pr.Sinusoidal(16), "add", max_position=300).verdict == "conforms"

    def wrong(x):
        return by * x + np.asarray(rows(x.shape[1]), x.dtype)

    found = check(wrong, pr.Sinusoidal(16), "add", max_position=300).findings
    assert [any(word in one.message for one in found) for word in words] == [True, True], found


def test_a_softmax_in_float16_is_called_consistent_with_it():
    (found,) = check(in_float16, *ATTENTION[:2]).findings
    assert found.code == "table-precision"
    assert found.message.endswith("consistent with a softmax in float16")
