"""identify of logits: which terms there are, the scale, the sign of offsets, the encoding."""

import ml_dtypes
import numpy as np
import pytest

from posenc_ref import (
    ALiBi,
    CoPE,
    DeBERTa,
    DecomposedRelative,
    DynamicNTK,
    ESPnetLegacy,
    Learned,
    LinearScaling,
    RoPE,
    Shaw,
    Sinusoidal,
    SwinBias,
    T5Bias,
    TransformerXL,
    XPos,
    YaRN,
    scores,
)
from posenc_ref.conformance import identify
from posenc_ref.conformance.identify.relative_terms import Vectors, relative_sinusoids
from tests.conformance.handwritten import rope
from tests.conformance.identify.near import near
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


def square(fn):
    def inner(q, k):
        if q.shape != k.shape:
            raise ValueError("as many queries as keys")
        return fn(q, k)

    return inner


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


def test_positions_that_depend_on_content_are_said():
    card = card_of(logits(CoPE(NUMBERS[2])))
    assert card.encoding is None
    assert any("content (CoPE)" in text for text in card.unknown), str(card)


BY_HEAD = RANDOM.normal(size=(2, 24, DIM)).astype(np.float32)
RELATIVE = {
    "Shaw": Shaw(NUMBERS[2], before=4),
    "Shaw by head": Shaw(BY_HEAD, before=17, counted="query-key"),
    "TransformerXL": TransformerXL(*NUMBERS[:2], NUMBERS[1], sinusoid=Sinusoidal(8)),
    "no biases": TransformerXL(NUMBERS[0], sinusoid=Sinusoidal(8)),
    "ESPnetLegacy": ESPnetLegacy(*NUMBERS[:2], NUMBERS[1], sinusoid=Sinusoidal(8)),
    "DeBERTa": DeBERTa(BY_HEAD, BY_HEAD[::-1]),
    "c2p": DeBERTa(BY_HEAD, None),
}
FEW = {"Shaw", "ESPnetLegacy", "DeBERTa"}


@pytest.mark.parametrize("name", by_day(list(RELATIVE), sorted(FEW)))
def test_terms_by_offset_are_read_with_their_values(name):
    """The tables, or a projection with the same logits: columns may be in another order."""
    encoding = RELATIVE[name]
    fn = logits(encoding)
    card = card_of(square(fn) if isinstance(encoding, ESPnetLegacy) else fn)
    assert card.exact, str(card)
    assert type(card.encoding) is type(encoding), str(card)
    if name == "Shaw":
        assert card.encoding == encoding
    if isinstance(encoding, DeBERTa):  # measured times the scale, so exact only to rounding
        for table in ("relative_keys", "relative_queries"):
            mine, theirs = getattr(card.encoding, table), getattr(encoding, table)
            assert (mine is None) == (theirs is None)
            assert mine is None or near(mine, theirs)
    if name == "Shaw by head":  # its rows are counted the other way
        assert np.array_equal(card.encoding.keys, encoding.keys[:, ::-1])
        assert card.encoding.before == 6
    assert near(card.softmax_scale, encoding.own_scale(DIM))


IN_BUCKETS = RANDOM.normal(size=(1, 16, 8)).astype(np.float32)


@pytest.mark.parametrize("terms", by_day(["both", "c2p", "p2c"], ["p2c"]))
def test_log_buckets_of_deberta(terms):
    """Rows of distant keys are shared, and the last ones are seen in a longer call."""
    given = terms in ("both", "c2p"), terms in ("both", "p2c")
    tables = [IN_BUCKETS if one else None for one in given]
    encoding = DeBERTa(*tables, buckets=8, max_position=23)
    card = identify(logits(encoding), "scores", head_dim=8)
    assert card.exact, str(card)
    assert (card.encoding.buckets, card.encoding.max_position) == (8, 23)
    for name, table in zip(("relative_keys", "relative_queries"), tables, strict=True):
        mine = getattr(card.encoding, name)
        assert mine is None if table is None else near(mine, table)


def test_the_size_of_a_head_is_tried_without_a_surface():
    card = identify(logits(DeBERTa(IN_BUCKETS, None, buckets=8, max_position=23)))
    assert card.exact, str(card)
    assert card.surface == "scores"


def test_relative_sinusoids_without_a_sign_are_those_of_earlier_keys(rng):
    """SpeechBrain's layer gives later keys the sinusoids of earlier ones."""
    r = np.arange(-64, 65)
    query = np.einsum("hcd,rd->hrc", NUMBERS[0], Sinusoidal(8).table(abs(r)))
    seen = Vectors(r, query, 0 * query, 0 * query[..., 0], later=True)
    found = relative_sinusoids(seen, "float32")
    assert type(found) is TransformerXL
    wanted = TransformerXL(NUMBERS[0], sinusoid=Sinusoidal(8))
    q, k = rng.normal(size=(2, 1, 2, 9, DIM))
    at = np.arange(9)
    assert near(scores(found, q, k, at, at), scores(wanted, q, k, at, at))


@pytest.mark.nightly
def test_relative_positions_without_a_sign_are_described():
    encoding = RELATIVE["no biases"]

    def fn(q, k):
        n = k.shape[2]
        earlier = logits(encoding)(q, k)
        later = logits(encoding)(q[:, :, ::-1], k[:, :, ::-1])[:, :, ::-1, ::-1]
        return np.where(np.arange(n) > np.arange(n)[:, None], later, earlier)

    card = card_of(square(fn))
    assert isinstance(card.encoding, TransformerXL), str(card)
    assert [f.code for f in card.deviations] == ["relative-symmetric"]


def of_grid(encoding, tokens, scale=None):
    """Return logits that exist for the whole grid only."""
    inner = logits(encoding, scale)

    def fn(q, k):
        if q.shape[2] != tokens or k.shape[2] != tokens:
            raise ValueError(f"q and k must have {tokens} tokens")
        return inner(q, k)

    return fn


def test_logits_of_whole_grids_show_the_tables_of_both_axes(rng):
    """MViTv2, SAM and BotNet take the tokens of one grid, and no other number of tokens."""
    tables = (rng.normal(size=(n, 8)).astype(np.float32) for n in (7, 11))
    encoding = DecomposedRelative(*tables, grid=(4, 6))
    card = identify(of_grid(encoding, 24), "scores", head_dim=8)
    assert isinstance(card.encoding, DecomposedRelative), str(card)
    assert card.exact, str(card)
    assert card.encoding.grid == (4, 6)
    assert card.facts["grid"] == "4 x 6 patches, row by row"
    # Logits show the tables up to a vector that one has more and the other less.
    apart = card.encoding.height_table - encoding.height_table
    moved = apart[0]
    assert near(card.encoding.height_table, encoding.height_table + moved)
    assert near(card.encoding.width_table, encoding.width_table - moved)


def test_logits_of_whole_grids_show_the_bias_of_a_window(rng):
    encoding = SwinBias(rng.normal(size=(77, 3)).astype(np.float32), window=(4, 6))
    card = identify(of_grid(encoding, 24), "scores", head_dim=8)
    assert card.encoding == encoding, str(card)
    assert card.softmax_scale == 8**-0.5


def test_vectors_of_row_and_column_offsets_that_are_no_sum_are_no_encoding(rng):
    vectors = rng.normal(size=(24, 24, 8)).astype(np.float32)

    def fn(q, k):
        if q.shape[2] != 24 or k.shape[2] != 24:
            raise ValueError("q and k must have 24 tokens")
        return q @ k.swapaxes(2, 3) + np.einsum("bhid,ijd->bhij", q, vectors)

    card = identify(fn, "scores", head_dim=8)
    assert card.encoding is None
    assert any("no tables of rows and columns" in text for text in card.unknown), str(card)


@pytest.mark.parametrize(
    ("ahead", "words"),
    [(lambda n: 2, "2 positions"), (lambda n: n, "as many positions as the call has tokens")],
    ids=["2", "S"],
)
def test_queries_ahead_of_their_keys_are_said(ahead, words):
    """local-attention rotates the queries of a window one window too far."""
    encoding = RoPE(DIM, layout="half")

    def fn(q, k):
        n = k.shape[2]
        at = np.arange(n - q.shape[2], n) + ahead(n)
        return scores(encoding, q, k, at, np.arange(n))

    card = card_of(square(fn))
    assert card.facts["queries"] == (
        f"queries are rotated {words} further than keys of the same token"
    )
    assert card.encoding == encoding
    assert card.softmax_scale == 0.25
    assert not card.exact


def test_square_calls_alone_are_a_limit():
    card = card_of(square(logits(RoPE(DIM, layout="half", base=500000.0))))
    assert card.encoding == RoPE(DIM, layout="half", base=500000.0), str(card)
    assert any("fewer queries than keys are refused" in text for text in card.limits)


def test_a_missing_head_dim_is_asked_for():
    with pytest.raises(ValueError, match="the last axis of q and k"):
        identify(logits(RoPE(DIM, layout="half")), "scores")
