"""identify of logits: which terms there are, the scale, the sign of offsets, the encoding."""

import ml_dtypes
import numpy as np
import pytest

from posenc_ref import (
    ALiBi,
    CoPE,
    DynamicNTK,
    Learned,
    LinearScaling,
    RoPE,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerXL,
    XPos,
    YaRN,
    scores,
)
from posenc_ref.conformance import identify
from tests.conformance.handwritten import rope
from tests.night import by_day

DIM = 16
RANDOM = np.random.default_rng(11)
TERMS = ("content-content", "content-position", "position-content", "position-position")
TABLE = RANDOM.normal(size=(32, 3)).astype(np.float32)


def logits(encoding, scale=None):
    def fn(q, k):
        n = k.shape[2]
        return scores(encoding, q, k, np.arange(n - q.shape[2], n), np.arange(n), scale=scale)

    return fn


def card_of(fn, dtype="float32", **options):
    return identify(fn, "scores", head_dim=DIM, dtype=dtype, **options)


CASES = [
    (RoPE(DIM, layout="half"), None, "float32"),
    (RoPE(DIM, layout="half"), None, "bfloat16"),
    (RoPE(DIM, layout="interleaved", base=500000.0), None, "float64"),
    (RoPE(DIM, layout="half", sign=-1), None, "float32"),
    (RoPE(DIM, layout="half", rotary_dim=8, rotary_start=4), 0.2, "float32"),
    (RoPE(DIM, layout="half", scaling=LinearScaling(4.0)), 1.0, "float32"),
    (RoPE(DIM, layout="half", scaling=YaRN(16.0, 2048)), None, "float32"),
    (RoPE(DIM, layout="half", scaling=YaRN(16.0, 2048, attention_factor=1.0)), None, "float32"),
    (RoPE(DIM, layout="half", scaling=DynamicNTK(2.0, 512)), None, "float32"),
    (XPos(DIM, layout="half", scale_base=256.0), None, "float32"),
    (ALiBi(3, causal=False), None, "float32"),
    (ALiBi(2, causal=False), 1.0, "bfloat16"),
    (ALiBi(2, causal=False, bias_inside_scale=True), None, "float32"),
    (T5Bias(TABLE, bidirectional=False), None, "float32"),
    (Sinusoidal(DIM), None, "float32"),
    (Sinusoidal(DIM, layout="concat", offset=1), None, "float64"),
]


@pytest.mark.parametrize("case", by_day(CASES, CASES[::3]), ids=lambda c: "-".join(map(str, c)))
def test_the_encoding_behind_logits(case):
    encoding, scale, dtype = case
    card = card_of(logits(encoding, scale), dtype)
    assert card.encoding == encoding, str(card)
    assert card.exact, str(card)
    own = 1.0 if isinstance(encoding, T5Bias) else DIM**-0.5
    assert card.softmax_scale == (own if scale is None else scale)
    terms = {"rotary": (), "bias": ("position-position",)}.get(encoding.family, TERMS[1:])
    assert [name for name in TERMS if name in card.facts["terms"]] == ["content-content", *terms]


def test_the_scale_and_m_squared_are_a_relation():
    card = card_of(logits(RoPE(DIM, layout="half", scaling=YaRN(16.0, 2048))))
    assert any("scale * m**2" in text for text in card.relations), str(card)


def test_partial_rotation_shows_m_beside_the_scale():
    """Channels that pass through have the scale alone."""
    e = RoPE(DIM, layout="half", rotary_dim=8, scaling=YaRN(4.0, 2048, attention_factor=1.5))
    card = card_of(logits(e, 0.5))
    assert card.encoding == e, str(card)
    assert card.softmax_scale == 0.5
    assert card.facts["scale"] == "0.5 = 1/2"


def test_a_scale_that_nobody_chose_is_held_against_the_usual_one():
    card = card_of(logits(RoPE(DIM, layout="half"), 0.3))
    assert card.facts["scale"] == "0.3, where 1/sqrt(16) would be 0.25"


def test_a_learned_table_is_read_through_products():
    rows = np.random.default_rng(12).normal(size=(40, DIM)).astype(np.float32)
    card = card_of(logits(Learned(rows)))
    assert isinstance(card.encoding, Learned), str(card)
    assert np.array_equal(
        card.encoding.weight.astype(ml_dtypes.bfloat16), rows.astype(ml_dtypes.bfloat16)
    )


def test_without_positions_there_is_no_encoding():
    card = card_of(lambda q, k: q @ k.swapaxes(2, 3) * np.float32(0.25))
    assert card.encoding is None
    assert card.softmax_scale == 0.25
    assert any("positions make no difference" in text for text in card.unknown)


def masked(fn):
    def later(q, k):
        y = fn(q, k)
        hidden = np.triu(np.ones(y.shape[2:], bool), k.shape[2] - q.shape[2] + 1)
        return np.where(hidden, -np.inf, y).astype(y.dtype)

    return later


@pytest.mark.parametrize("encoding", [RoPE(DIM, layout="half"), ALiBi(2)], ids=str)
def test_later_keys_may_be_masked(encoding):
    card = card_of(masked(logits(encoding)))
    assert card.encoding == encoding, str(card)
    assert card.facts["mask"] == "later keys are masked"


def turned_alike(q, k):
    """Queries counted from 0, not from the end of the keys."""
    turn = rope()
    left, right = turn(q, np.arange(q.shape[2])), turn(k, np.arange(k.shape[2]))
    return left @ right.swapaxes(2, 3) * np.float32(DIM**-0.5)


def test_queries_counted_from_the_beginning_are_said():
    card = card_of(turned_alike)
    assert card.encoding is None
    assert "a single query does not have the position of the last key" in card.facts["queries"]


def bent(q, k):
    """Each query counts from what it holds."""
    gate = q.sum(axis=-1, keepdims=True)
    return q @ k.swapaxes(2, 3) + np.tanh(gate * np.arange(k.shape[2], dtype=q.dtype))


def offsets(q, k, shared):
    """Vectors for each offset that meet queries, and keys where they are shared."""
    n_q, n_k = q.shape[2], k.shape[2]
    vectors = np.random.default_rng(2).normal(size=(4200, DIM)).astype(q.dtype)
    r = np.arange(n_k) - np.arange(n_k - n_q, n_k)[:, None] + 2100
    found = q @ k.swapaxes(2, 3) + np.einsum("bhid,ijd->bhij", q, vectors[r])
    return found + np.einsum("bhjd,ijd->bhij", k, vectors[r] / 2) if shared else found


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (bent, "content (CoPE)"),
        (lambda q, k: offsets(q, k, False), "Shaw"),
        (lambda q, k: offsets(q, k, True), "DeBERTa"),
        (lambda q, k: 0 * q @ k.swapaxes(2, 3), "no q.k term"),
        (
            lambda q, k: q @ np.diag(np.arange(DIM) + 1.0).astype("f4") @ k.swapaxes(2, 3),
            "projects",
        ),
        (lambda q, k: turned_alike(q, k) + 1, "no single encoding"),
        (lambda q, k: q, "a call failed"),
    ],
    ids=["bent", "keys", "both", "no content", "projected", "biased", "shape"],
)
def test_what_is_no_encoding_is_none_and_says_why(fn, words):
    card = card_of(fn)
    assert card.encoding is None, str(card)
    assert any(words in text for text in card.unknown), str(card)


NUMBERS = [RANDOM.normal(size=s).astype(np.float32) for s in ((2, DIM, 8), (2, DIM), (9, DIM))]
FAMILIES = {
    "Shaw": (Shaw(NUMBERS[2], before=4), "Shaw: a vector for each offset"),
    "TransformerXL": (
        TransformerXL(*NUMBERS[:2], NUMBERS[1], sinusoid=Sinusoidal(8, layout="concat")),
        "Transformer-XL: offsets and two biases",
    ),
    "CoPE": (CoPE(NUMBERS[2]), "content (CoPE)"),
}


@pytest.mark.parametrize(("encoding", "words"), FAMILIES.values(), ids=list(FAMILIES))
def test_families_without_a_value_are_named_by_their_terms(encoding, words):
    card = card_of(logits(encoding))
    assert card.encoding is None
    assert any(words in text for text in card.unknown), str(card)


def test_square_calls_alone_are_a_limit():
    inner = logits(RoPE(DIM, layout="half", base=500000.0))

    def square(q, k):
        if q.shape != k.shape:
            raise ValueError("as many queries as keys")
        return inner(q, k)

    card = card_of(square)
    assert card.encoding == RoPE(DIM, layout="half", base=500000.0), str(card)
    assert any("fewer queries than keys are refused" in text for text in card.limits)


def test_a_missing_head_dim_is_asked_for():
    with pytest.raises(ValueError, match="the last axis of q and k"):
        identify(logits(RoPE(DIM, layout="half")), "scores")
