"""Shaw's relative positions: a double loop in 50 digits, and the models that have them."""

import numpy as np
import pytest

from posenc_ref import Shaw, from_dict
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

from .naive import K_AT, Q_AT, D, H, check_terms, dot, k, numbers, q, worst_logits

mp = mpmath().mp
RNG = np.random.default_rng(104)
SHARED, OWN, VALUES = numbers(RNG, 9, D), numbers(RNG, H, 9, D), numbers(RNG, 9, D)


@pytest.mark.parametrize("counted", ["key-query", "query-key"])
@pytest.mark.parametrize("before", [4, 6, 8, 0])
@pytest.mark.parametrize("table", [SHARED, OWN], ids=["shared", "per head"])
def test_terms_against_a_double_loop(table, before, counted):
    def row(h, i, j):
        r = int(K_AT[j]) - int(Q_AT[i])
        r = r if counted == "key-query" else -r
        rows = table if table.ndim == 2 else table[h]
        return rows[min(max(r + before, 0), 8)]

    with mp.workdps(DIGITS):
        check_terms(
            Shaw(table, before=before, counted=counted),
            {
                "content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j]),
                "content-position": lambda b, h, i, j: dot(q[b, h, i], row(h, i, j)),
            },
            1 / mp.sqrt(D),
        )


def test_context_adds_a_vector_to_every_value(rng):
    encoding = Shaw(SHARED, before=4, values=VALUES)
    weights = np.abs(numbers(rng, 1, H, 4, 5)).astype(np.float64)
    want, size = np.zeros((1, H, 4, D)), np.zeros((1, H, 4, D))
    for h, i, j in np.ndindex(H, 4, 5):
        b = VALUES[min(max(int(K_AT[j]) - int(Q_AT[i]) + 4, 0), 8)]
        want[0, h, i] += weights[0, h, i, j] * (k[0, h, j] + b)
        size[0, h, i] += weights[0, h, i, j] * (np.abs(k[0, h, j]) + np.abs(b))
    found = encoding.context(weights, k, Q_AT, K_AT)
    assert Truth(want, size, 0 * size).score(found).max() <= budget("float64")
    with pytest.raises(ValueError, match="values must be given for context"):
        Shaw(SHARED, before=4).context(weights, k, Q_AT, K_AT)


def test_the_skew_of_music_transformer_up_to_the_query(rng):
    """Pad a column on the left, reshape, drop the first row: a table for each head, L rows."""
    n = 7
    table, q_ = numbers(rng, H, n, D), numbers(rng, 2, H, n, D).astype(np.float64)
    by_row = q_ @ table.astype(np.float64).swapaxes(1, 2) * D**-0.5
    padded = np.concatenate([np.zeros((2, H, n, 1)), by_row], axis=-1)
    skewed = padded.reshape(2, H, n + 1, n)[:, :, 1:]
    at = np.arange(n)
    encoding = Shaw(table, before=n - 1)
    truth = encoding.truths(q_, q_, at[:, None], at[None, :], D**-0.5)["content-position"]
    score, visible = truth.score(skewed), at[:, None] >= at
    assert score[..., visible].max() <= budget("float64")
    assert score[..., ~visible].max() > budget("float64")


def wav2vec2_bert():
    from transformers.models.wav2vec2_bert.configuration_wav2vec2_bert import Wav2Vec2BertConfig
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention

    from .attention import filled, heads, host, softmax_inputs, tokens

    config = Wav2Vec2BertConfig(
        hidden_size=24,
        num_attention_heads=3,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=6,
        right_max_position_embeddings=2,
    )
    module, x = filled(Wav2Vec2BertSelfAttention(config)), tokens(2, 11, 24)
    with softmax_inputs() as seen:
        module(x)
    encoding = Shaw(host(module.distance_embedding.weight), before=6)
    return encoding, heads(module.linear_q(x), 3), heads(module.linear_k(x), 3), seen[0]


def speecht5():
    import torch
    from transformers.models.speecht5.modeling_speecht5 import (
        SpeechT5Attention,
        SpeechT5RelativePositionalEncoding,
    )

    from .attention import filled, heads, host, softmax_inputs, tokens

    module, x = filled(SpeechT5Attention(24, 3)), tokens(2, 11, 24)
    relative = filled(SpeechT5RelativePositionalEncoding(8, 4))
    with softmax_inputs() as seen:
        module(x, position_bias=relative(x))
    encoding = Shaw(host(relative.pe_k.weight), before=4, counted="query-key")
    shape = torch.Size((2, 3, 11, 11))
    return encoding, heads(module.q_proj(x), 3), heads(module.k_proj(x), 3), seen[0].reshape(shape)


@pytest.mark.parametrize("made", [wav2vec2_bert, speecht5])
def test_logits_of_the_real_module(made):
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    encoding, q_, k_, logits = made()
    assert worst_logits(encoding, q_, k_, logits) <= budget("float64")
    other = {"key-query": "query-key", "query-key": "key-query"}[encoding.counted]
    for wrong in (encoding.replace(counted=other), encoding.replace(before=encoding.before - 1)):
        assert worst_logits(wrong, q_, k_, logits) > budget("float64")


def test_values_and_refusals():
    encoding = Shaw(OWN, before=4, values=OWN)
    assert from_dict(encoding.to_dict()) == encoding
    refused = "before must be the index of a row of keys, 0 .. 8, got 9"
    with pytest.raises(ValueError, match=refused):
        Shaw(SHARED, before=9)
    with pytest.raises(ValueError, match=r"values must have shape \(9, 6\), got \(8, 6\)"):
        Shaw(SHARED, before=4, values=VALUES[:8])
    with pytest.raises(ValueError, match="counted must be one of 'key-query', 'query-key'"):
        Shaw(SHARED, before=4, counted="j-i")
