"""Decomposed relative positions: a double loop in 50 digits, and SAM's attention."""

import numpy as np
import pytest

from posenc_ref import DecomposedRelative, from_dict
from posenc_ref.accuracy import budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

from .naive import D, check_terms, dot, k, numbers, q, worst_logits

mp = mpmath().mp
GRID = (3, 5)
RNG = np.random.default_rng(101)
TALL, WIDE = numbers(RNG, 5, D), numbers(RNG, 9, D)
Q_AT, K_AT = np.array([7, 3, 14, 0]), np.array([0, 9, 2, 14, 12])


def test_terms_against_a_double_loop():
    def along(table, of, size):
        def parts(b, h, i, j):
            return dot(q[b, h, i], table[of(int(Q_AT[i])) - of(int(K_AT[j])) + size - 1])

        return parts

    with mp.workdps(DIGITS):
        check_terms(
            DecomposedRelative(TALL, WIDE, grid=GRID),
            {
                "content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j]),
                "content-height": along(TALL, lambda p: p // 5, 3),
                "content-width": along(WIDE, lambda p: p % 5, 5),
            },
            {"content-content": 1 / mp.sqrt(D), "content-height": 1, "content-width": 1},
            Q_AT,
            K_AT,
        )


def sam():
    from transformers.models.sam.configuration_sam import SamVisionConfig
    from transformers.models.sam.modeling_sam import SamVisionAttention

    from .attention import filled, host, softmax_inputs, tokens

    config = SamVisionConfig(hidden_size=24, num_attention_heads=3, image_size=16, patch_size=4)
    module, x = filled(SamVisionAttention(config, window_size=0)), tokens(2, 4, 4, 24)
    with softmax_inputs() as seen:
        module(x)
    q_, k_, _ = host(module.qkv(x)).reshape(2, 16, 3, 3, 8).transpose(2, 0, 3, 1, 4)
    encoding = DecomposedRelative(host(module.rel_pos_h), host(module.rel_pos_w), grid=(4, 4))
    return encoding, q_, k_, seen[0].reshape(2, 3, 16, 16)


def test_logits_of_the_real_module():
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    encoding, q_, k_, logits = sam()
    assert worst_logits(encoding, q_, k_, logits) <= budget("float64")
    swapped = encoding.replace(height_table=encoding.width_table, width_table=encoding.height_table)
    assert worst_logits(swapped, q_, k_, logits) > budget("float64")


def test_values_and_refusals():
    encoding = DecomposedRelative(TALL, WIDE, grid=GRID)
    assert from_dict(encoding.to_dict()) == encoding
    with pytest.raises(ValueError, match=r"height_table must have shape \(9, d\), got \(5, 6\)"):
        DecomposedRelative(TALL, WIDE, grid=(5, 3))
    with pytest.raises(TypeError, match=r"grid must be \(height, width\), got 3"):
        DecomposedRelative(TALL, WIDE, grid=3)
