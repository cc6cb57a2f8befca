"""ESPnet's legacy encoding: 50 digits, its own table and shift, and the latest beside it."""

from functools import partial

import numpy as np
import pytest

from posenc_ref import ESPnetLegacy, Sinusoidal, TransformerXL, from_dict, relative_shift
from posenc_ref.accuracy import budget
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

from .naive import D, H, check_terms, dot, k, numbers, q, worst_logits
from .test_transformer_xl import WIDE, wave

mp = mpmath().mp
RNG = np.random.default_rng(107)
W, U, V = numbers(RNG, H, D, WIDE), numbers(RNG, H, D), numbers(RNG, H, D)
ENCODING = ESPnetLegacy(W, U, V, sinusoid=Sinusoidal(WIDE), max_len=40)
Q_AT, K_AT = np.arange(1, 5), np.arange(5)


def test_terms_against_a_double_loop():
    def position(x):
        def of(b, h, i, j):
            d, after = int(Q_AT[i] - K_AT[j]), max(int(K_AT[j] - Q_AT[i]) - 1, 0)
            if d == -1:
                return [mp.mpf(0)]
            a = x[h] if x is not None else q[b, h, i + 1] if after else q[b, h, i]
            r = wave(41 + d if after else 35 + d, "interleaved")
            return [mp.mpf(float(a[c])) * mp.mpf(float(W[h, c, m])) * r[m]
                    for c in range(D) for m in range(WIDE)]  # fmt: skip

        return of

    summands = {
        "content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j]),
        "content-position": position(None),
        "position-content": lambda b, h, i, j: dot(U[h], k[b, h, j]),
        "position-position": position(V),
    }
    with mp.workdps(DIGITS):
        check_terms(ENCODING, summands, 1 / mp.sqrt(D), Q_AT, K_AT)
        plain = {name: summands[name] for name in list(summands)[:2]}
        bare = ENCODING.replace(content_bias=None, position_bias=None)
        check_terms(bare, plain, 1 / mp.sqrt(D), Q_AT, K_AT)


def legacy(q, k, max_len=40, dtype=np.float32, masked=False):
    """A table that counts down from its end, cut to K rows, and the causal shift."""
    n_q, n_k = q.shape[2], k.shape[2]
    down = np.arange(max(max_len, n_k) - 1, -1, -1)[:n_k, None]
    angle = down * 10000.0 ** (-np.arange(WIDE // 2) * 2 / WIDE)
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(n_k, WIDE).astype(dtype)
    projected = np.einsum("cm,hdm->hcd", table, W.astype(dtype))
    by_column = (q + V[:, None].astype(dtype)) @ projected.swapaxes(-1, -2)
    padded = np.concatenate([np.zeros_like(by_column[..., :1]), by_column], axis=-1)
    flat = padded.reshape(*q.shape[:2], n_k + 1, n_q)[:, :, 1:]
    shifted = flat.reshape(by_column.shape)
    if masked:
        shifted = relative_shift(by_column)
    content = (q + U[:, None].astype(dtype)) @ k.swapaxes(-1, -2)
    return (content + shifted) / np.sqrt(dtype(D))


def tokens(n_q, n_k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((2, H, n_q, D)), rng.standard_normal((2, H, n_k, D))


def test_the_shift_of_its_code():
    """All keys, the later ones too, of utterances shorter and longer than the table."""
    for n in (1, 2, 7, 40, 60):
        q_, k_ = tokens(n, n)
        logits = legacy(q_, k_, dtype=np.float64)
        assert worst_logits(ENCODING, q_, k_, logits) <= budget("float64")
        if n > 2:  # later keys are no rubbish that could be anything
            assert worst_logits(ENCODING, q_, k_, legacy(q_, k_, 40, np.float64, True)) > budget(
                "float64"
            )
    latest = TransformerXL(W, U, V, sinusoid=Sinusoidal(WIDE))
    q_, k_ = tokens(7, 7)
    assert worst_logits(latest, q_, k_, legacy(q_, k_, dtype=np.float64)) > budget("float64")


def shift(x):
    """A column of zeros before it, read as (K + 1, Q), without the first row: (Q, K)."""
    padded = np.concatenate([np.zeros((x.shape[0], 1), x.dtype), x], axis=1)
    return padded.reshape(x.shape[1] + 1, x.shape[0])[1:].reshape(x.shape)


def test_its_shift_alone_is_transformer_xls():
    """Right up to the query, which is all that `relative_shift` judges."""
    assert check(shift, None, "relative_shift").passed
    wrong = check(lambda x: shift(np.roll(x, 1, axis=1)), None, "relative_shift")
    assert not wrong.passed
    x = np.arange(35.0).reshape(5, 7)
    up_to = np.arange(7) <= np.arange(2, 7)[:, None]
    assert (shift(x) == relative_shift(x))[up_to].all()
    assert (shift(x) != relative_shift(x))[~up_to].any()


def test_up_to_the_query_it_is_the_latest_from_another_origin():
    n, at = 7, np.arange(7)
    q_, k_ = tokens(n, n)
    latest = TransformerXL(W, U, V, sinusoid=Sinusoidal(WIDE, offset=40 - n))
    logits = latest.scores(q_, k_, at, at)
    visible = at[:, None] >= at
    assert worst_logits(ENCODING, q_, k_, logits, judged=visible) <= budget("float64")
    assert worst_logits(ENCODING, q_, k_, logits) > budget("float64")


def test_a_longer_utterance_before_changes_the_logits():
    """ESPnet keeps the longest table: here one of 60 rows, after an utterance of 60."""
    q_, k_ = tokens(7, 7)
    after = legacy(q_, k_, 60, np.float64)
    assert worst_logits(ENCODING, q_, k_, after) > budget("float64")
    assert worst_logits(ENCODING.replace(max_len=60), q_, k_, after) <= budget("float64")


def fastspeech():
    """The latest encoding, as FastSpeech 2 with Conformer has it from ESPnet."""
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as module
    from transformers.models.fastspeech2_conformer.configuration_fastspeech2_conformer import (
        FastSpeech2ConformerConfig,
    )

    from .attention import filled, heads, host, softmax_inputs, tokens

    config = FastSpeech2ConformerConfig(hidden_size=24)
    settings = {
        "num_attention_heads": 3, "attention_dropout_rate": 0.0, "positional_dropout_rate": 0.0,
    }  # fmt: skip
    attention = filled(module.FastSpeech2ConformerAttention(config, settings))
    x = tokens(2, 11, 24)
    _, rows = module.FastSpeech2ConformerRelPositionalEncoding(config, settings)(x)
    with softmax_inputs() as seen:
        attention(x, pos_emb=rows.double())
    encoding = TransformerXL(
        host(attention.linear_pos.weight).reshape(3, 8, 24), host(attention.pos_bias_u),
        host(attention.pos_bias_v), sinusoid=Sinusoidal(24),
    )  # fmt: skip
    sides = (heads(f(x), 3) for f in (attention.linear_q, attention.linear_k))
    return encoding, *sides, seen[0]


def test_fastspeech_has_the_latest():
    encoding, q_, k_, logits = fastspeech()
    assert worst_logits(encoding, q_, k_, logits, "float32") <= budget("float32")
    parts = (encoding.projection, encoding.content_bias, encoding.position_bias)
    old = ESPnetLegacy(*parts, sinusoid=encoding.sinusoid)
    assert worst_logits(old, q_, k_, logits, "float32") > budget("float32")


LATEST = TransformerXL(W, U, V, sinusoid=Sinusoidal(WIDE))


def latest(q, k):
    """The declared latest encoding, in float32."""
    n_q, n_k = q.shape[2], k.shape[2]
    return LATEST.scores(q, k, np.arange(n_k - n_q, n_k), np.arange(n_k)).astype(np.float32)


@pytest.mark.parametrize(
    ("fn", "declared", "code"),
    [
        (legacy, ENCODING, None),
        (partial(legacy, max_len=41), ENCODING, "position-origin"),
        (partial(legacy, masked=True), ENCODING, "score-term"),
        (partial(legacy, max_len=5000), ENCODING, "position-origin"),
        (latest, ENCODING, "relative-shift"),
        (partial(legacy, max_len=5000), LATEST, "relative-shift"),
        (latest, LATEST, None),
    ],
)
def test_the_suite_names_what_it_is(fn, declared, code):
    report = check(fn, declared, "scores")
    assert report.passed == (code is None)
    assert report.codes == ([code] if code else [])


def test_values_and_refusals():
    assert from_dict(ENCODING.to_dict()) == ENCODING
    with pytest.raises(ValueError, match="clamp must be None"):
        ENCODING.replace(clamp=3)
    with pytest.raises(ValueError, match="max_len must be at least 1"):
        ENCODING.replace(max_len=0)
