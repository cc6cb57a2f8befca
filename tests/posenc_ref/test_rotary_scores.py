"""Dual chunks, Self-Extend and ReRoPE: plain loops in complex numbers, and the released codes."""

import cmath
import math

import numpy as np
import pytest

from posenc_ref import (
    DualChunk,
    DynamicNTK,
    ReRoPE,
    RoPE,
    SelfExtend,
    YaRN,
    from_config,
    from_dict,
    preset,
    scores,
)
from posenc_ref.accuracy import Truth, budget

B, H, D, N = 2, 2, 8, 23
RNG = np.random.default_rng(162)
Q, K = RNG.standard_normal((2, B, H, N, D))
AT = np.arange(N)
ROPE = RoPE(D, layout="half", base=100.0)


def turned(q, k, distance):
    """One logit by complex numbers: half-split pairs, turned by the distance query - key."""
    half, found = D // 2, 0.0
    for c in range(half):
        one, two = complex(q[c], q[c + half]), complex(k[c], k[c + half])
        found += (one.conjugate() * two * cmath.exp(-1j * distance * 100.0 ** (-2 * c / D))).real
    return found / math.sqrt(D)


def by_pairs(distance, factor=1.0):
    """All logits of earlier keys, one pair at a time."""
    logits = np.zeros((B, H, N, N))
    for b, h, i, j in np.ndindex(logits.shape):
        if j <= i:
            logits[b, h, i, j] = turned(Q[b, h, i], K[b, h, j], distance(i, j)) * factor
    return logits


def worst(encoding, logits, actual=None):
    """The worst score of logits of earlier keys, by default the class's own."""
    (terms,) = encoding.truths(Q, K, AT[:, None], AT[None, :], encoding.own_scale(D)).values()
    score = Truth(logits, terms.terms, terms.angle).score(
        scores(encoding, Q, K, AT, AT) if actual is None else actual
    )
    return np.where(AT[:, None] >= AT, score, 0.0)


def chunks(i, j, c=5, largest=7):
    """The paper's three cases, for chunks of c tokens."""
    if i // c == j // c:
        return i - j
    if i // c == j // c + 1:
        return min(i % c + c, largest) - j % c
    return min(2 * c - 1, largest) - j % c


def grouped(i, j, g=3, w=4):
    """LongLM's rule with integer division, as in the paper."""
    return i - j if i - j < w else (i // g + (w - w // g)) - j // g


CASES = {
    "dual chunk": (DualChunk(ROPE, chunk_size=7, local_size=2), chunks),
    "dual chunk, short chunks": (
        DualChunk(ROPE, chunk_size=9, local_size=6),
        lambda i, j: chunks(i, j, 3, 9),
    ),
    "the paper's dual chunk, c = 8, s = 5": (
        DualChunk(ROPE, chunk_size=7, local_size=2),
        lambda i, j: (
            i - j if i // 5 == j // 5
            else (min(5 + i % 5, 8 - 1) if i // 5 == j // 5 + 1 else 8 - 1) - j % 5
        ),
    ),
    "self-extend": (SelfExtend(ROPE, group=3, window=4), grouped),
    "rerope": (ReRoPE(ROPE, window=6), lambda i, j: min(i - j, 6)),
    "leaky rerope": (
        ReRoPE(ROPE, window=6, factor=4.0),
        lambda i, j: i - j if i - j < 6 else 6 + (i - j - 6) / 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_against_a_loop_over_pairs(name):
    encoding, distance = CASES[name]
    assert worst(encoding, by_pairs(distance)).max() <= budget("float64")
    for other, wrong in CASES.values():  # every other rule is told apart
        if other != encoding:
            assert worst(encoding, by_pairs(wrong)).max() > 1e6


@pytest.mark.parametrize("name", CASES)
def test_offsets_and_the_farthest_of_them(name):
    encoding, distance = CASES[name]
    offsets = np.asarray(encoding.offsets(AT, AT))
    expected = [[-distance(i, j) for j in AT] for i in AT]
    seen = AT[:, None] >= AT
    assert (offsets == np.array(expected))[seen].all()
    for length in range(1, N + 1):
        part = -offsets[:length, :length][seen[:length, :length]]
        assert encoding.farthest(length) == part.max()


@pytest.mark.parametrize("name", CASES)
def test_the_first_tokens_have_plain_rope(name):
    encoding, distance = CASES[name]
    near = max(n for n in range(N) if all(distance(i, 0) == i for i in range(n)))
    assert 3 <= near < N
    plain = worst(encoding, encoding.scores(Q, K, AT, AT), ROPE.scores(Q, K, AT, AT))
    assert plain[..., :near, :near].max() <= budget("float64")
    assert plain[..., near:, :].max() > 1e6


def test_the_trained_length_bounds_every_distance():
    """Qwen2.5-1M was trained on 262144 tokens, and serves a million."""
    model = preset("Qwen/Qwen2.5-7B-Instruct-1M").only
    assert model.farthest(1_010_000) == 262144
    assert model.rope.base == 1e7
    assert (model.chunk_length, model.original_max_position) == (253952, 262144)
    far = np.array([253951, 253952, 600000, 1009999])
    assert np.asarray(model.offsets(far[2:3], far[:1])).tolist() == [[253951 - 262144]]
    assert np.asarray(model.offsets(far, [0]))[:, 0].tolist() == [
        -253951,
        -253952,
        -262144,
        -262144,
    ]


def test_temperature():
    """vLLM: keys times t, and the softmax scale times t, with t = 0.1 ln(L / L0) + 1 >= 1."""
    encoding = DualChunk(ROPE, chunk_size=7, local_size=2, original_max_position=10)
    t = 0.1 * math.log(N / 10) + 1
    assert worst(encoding, by_pairs(chunks, t * t)).max() <= budget("float64")
    assert worst(encoding, by_pairs(chunks, t)).max() > 1e6
    short = slice(None), slice(None), slice(10)
    plain = encoding.replace(original_max_position=None)
    one, two = (e.scores(Q[short], K[short], AT[:10], AT[:10]) for e in (encoding, plain))
    assert np.array_equal(one, two)
    assert plain.properties == {"prefix"}
    assert encoding.properties == set()
    assert encoding.scores(Q[..., :0, :], K, [], AT).shape == (B, H, 0, N)


def test_rows_of_a_batch_have_their_own_length():
    encoding = DualChunk(ROPE, chunk_size=7, local_size=2, original_max_position=10)
    at = np.stack([AT, AT + 40])
    both = encoding.scores(Q, K, at, at)
    for b in range(B):
        assert np.array_equal(both[b], encoding.scores(Q, K, at[b], at[b])[b])


def test_part_of_the_channels_and_the_factor_of_a_scaling():
    """Channels that are not rotated add q k; the rotated ones are multiplied by m twice."""
    yarn = YaRN(8.0, 64)
    rope = RoPE(D, layout="interleaved", rotary_dim=4, rotary_start=2, scaling=yarn, sign=-1)
    encoding = DualChunk(rope, chunk_size=30, local_size=2)  # one chunk: RoPE itself
    for other in (encoding, SelfExtend(rope, group=1, window=3), ReRoPE(rope, window=40)):
        plain = worst(other, other.scores(Q, K, AT, AT), rope.scores(Q, K, AT, AT))
        assert plain.max() <= budget("float64")


def test_values():
    for encoding, _ in CASES.values():
        assert from_dict(encoding.to_dict()) == encoding
    assert repr(ReRoPE(ROPE, window=6)) == "ReRoPE(RoPE(8, layout='half', base=100.0), window=6)"
    dynamic = RoPE(D, layout="half", scaling=DynamicNTK(2.0, 64))
    for bad, error, message in (
        (lambda: DualChunk(8, chunk_size=4, local_size=1), TypeError, "rope must be a RoPE such"),
        (lambda: ReRoPE(dynamic, window=4), ValueError, "rope must have frequencies that do not"),
        (
            lambda: DualChunk(ROPE, chunk_size=4, local_size=4),
            ValueError,
            "local_size must be below chunk_size = 4",
        ),
        (
            lambda: DualChunk(ROPE, chunk_size=4, local_size=1, original_max_position=0),
            ValueError,
            "original_max_position must be at least 1",
        ),
        (lambda: SelfExtend(ROPE, group=0, window=4), ValueError, "group must be at least 1"),
        (lambda: ReRoPE(ROPE, window=4, factor=0.5), ValueError, "factor must be at least 1"),
        (lambda: ReRoPE(ROPE, window=4).farthest(0), ValueError, "length must be at least 1"),
        (lambda: ReRoPE(ROPE, window=4).offsets([[0]], [[0]]), ValueError, r"shape \(Q,\)"),
    ):
        with pytest.raises(error, match=message):
            bad()


# --- configurations ------------------------------------------------------------------------------

CHUNKS = {"chunk_size": 64, "local_size": 8}
CONFIG = {"model_type": "qwen3_moe", "head_dim": 64, "rope_theta": 1e7}


def read(**chunks):
    return from_config({**CONFIG, "dual_chunk_attention_config": {**CHUNKS, **chunks}}).only


def test_a_configuration_with_dual_chunks():
    rope = RoPE(64, layout="half", base=1e7)
    assert read() == DualChunk(rope, **CHUNKS)
    assert read(original_max_position_embeddings=0) == read()
    trained = read(original_max_position_embeddings=32, sparse_attention_enabled=True)
    assert trained == DualChunk(rope, **CHUNKS, original_max_position=32)
    assert from_config({**CONFIG, "dual_chunk_attention_config": None}).only == rope


@pytest.mark.parametrize(("chunks", "message"), [
    ({"local_size": None}, "needs 'local_size', a number of tokens"),
    ({"local_size": 64}, "dual_chunk_attention_config: local_size must be below chunk_size = 64"),
    ({"chunk_size": "64"}, "dual_chunk_attention_config: chunk_size must be an integer"),
    ({"chunk_sise": 64}, "unknown entry 'chunk_sise'; did you mean 'chunk_size'"),
    ({"beta": 1}, "unknown entry 'beta'; it has chunk_size, local_size, original"),
])  # fmt: skip
def test_a_configuration_with_wrong_dual_chunks(chunks, message):
    with pytest.raises(ValueError, match=message):
        read(**chunks)


def test_dual_chunks_that_vllm_would_read_otherwise():
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    both = {**CONFIG, "dual_chunk_attention_config": CHUNKS, "rope_scaling": yarn}
    with pytest.raises(ValueError, match="vLLM would ignore the scaling"):
        from_config(both)
    with pytest.raises(ValueError, match="must be a mapping, got 3"):
        from_config({**CONFIG, "dual_chunk_attention_config": 3})
