"""Attention is identified from the weights of its values."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Attention, Llama3Scaling, RoPE, T5Bias, YaRN
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance import identify
from posenc_ref.conformance.harness.signatures import SURFACES

TABLE = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
ENCODINGS = {
    "RoPE": RoPE(16, layout="half"),
    "partial": RoPE(32, layout="half", rotary_dim=16, base=1e6),
    "YaRN": RoPE(32, layout="half", scaling=YaRN(4.0, 4096)),
    "Llama 3": RoPE(64, layout="interleaved", base=5e5, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
    "ALiBi": ALiBi(12),
    "T5": T5Bias(TABLE),
}


def attention(encoding, dtype="float32", **fields):
    return SURFACES["attention"].own(Attention(encoding, **fields), dtype)


def card_of(fn, encoding):
    return identify(fn, "attention", head_dim=getattr(encoding, "head_dim", 16))


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_attention_is_identified(name):
    e = ENCODINGS[name]
    card = card_of(attention(e, causal=name != "T5"), e)
    assert card.exact, str(card)
    assert card.encoding == e if name != "T5" else isinstance(card.encoding, T5Bias), str(card)
    assert card.softmax_scale == e.own_scale(getattr(e, "head_dim", 16))
    assert ("mask" in card.facts) == (name != "T5")


def test_the_table_of_a_bias_is_read_up_to_a_constant_of_each_head():
    card = card_of(attention(ENCODINGS["T5"], causal=False), ENCODINGS["T5"])
    unused = card.encoding.num_buckets // 2  # no distance uses this row
    used = np.delete(card.encoding.table - TABLE, unused, 0)
    unit = ROUNDOFF["float32"] * np.abs(TABLE).max()
    assert (np.abs(used - used[:1]) <= BUDGET["float32"] * unit).all()
    assert any("constant" in text for text in card.relations)


def test_another_scale_is_read():
    card = card_of(attention(ENCODINGS["RoPE"], softmax_scale=0.3), ENCODINGS["RoPE"])
    assert card.exact, str(card)
    assert card.softmax_scale == 0.3


def test_a_wrong_frequency_is_not_exact():
    e = ENCODINGS["RoPE"]
    right = attention(e)

    def wrong(q, k, v, q_at, k_at):
        return right(q, k, v, np.asarray(q_at) * 1.001, np.asarray(k_at) * 1.001)

    card = card_of(wrong, e)
    assert not (card.exact and card.encoding == e), str(card)


def test_values_of_as_many_channels_as_keys_are_enough():
    e, right = ENCODINGS["RoPE"], attention(ENCODINGS["RoPE"])

    def narrow(q, k, v, q_at, k_at):
        if v.shape[-1] != 16:
            raise ValueError("as many channels of values as of keys")
        return right(q, k, v, q_at, k_at)

    card = card_of(narrow, e)
    assert card.encoding == e, str(card)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (attention(RoPE(16, layout="half"), values="rotated"), "are values rotated"),
        (attention(None), "positions make no difference"),
        (lambda q, k, v, q_at, k_at: q, "no means of the values"),
        (lambda q, k, v, q_at, k_at: v[:, :, : q.shape[2]] * np.nan, "NaN"),
    ],
    ids=["rotated", "none", "shape", "NaN"],
)
def test_what_is_not_identified_says_why(fn, words):
    card = card_of(fn, None)
    assert card.encoding is None, str(card)
    assert not card.broken
    assert any(words in text for text in card.unknown), str(card)
