"""Where BLOOM, MPT and Falcon put their ALiBi bias: after the scale, or inside it."""

import numpy as np
import pytest

from posenc_ref import ALiBi
from posenc_ref.accuracy import budget
from posenc_ref.conformance.oracle.scores import Scored

from .attention import filled, softmax_inputs, tokens

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
pytest.importorskip("transformers", reason="transformers is what is compared with")

B, S, D = 2, 7, 16


def worst(encoding, q, k, logits):
    call = Scored(encoding, q, k, encoding.own_scale(D))
    logits = logits.astype(np.float64)
    call = call.replace(constant=call.own(logits))
    score = call.truth().score(call.seen(logits), dtype="float32")
    return np.where(call.visible, score, 0.0).max()


def bloom(heads):
    from transformers.models.bloom.configuration_bloom import BloomConfig
    from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor

    module = filled(BloomAttention(BloomConfig(hidden_size=heads * D, n_head=heads), layer_idx=0))
    x = tokens(B, S, heads * D)
    alibi = build_alibi_tensor(torch.ones(B, S, dtype=torch.int64), heads, torch.float64)
    with softmax_inputs() as seen:
        module(x, x, alibi, None)
    q, k, _ = module._reshape(module.query_key_value(x))
    return q, k, seen[0]


def mpt(heads, max_bias=8):
    from transformers.models.mpt.configuration_mpt import MptConfig
    from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor

    module = filled(MptAttention(MptConfig(d_model=heads * D, n_heads=heads), layer_idx=0))
    x = tokens(B, S, heads * D)
    bias = build_mpt_alibi_tensor(heads, S, max_bias).double()
    with softmax_inputs() as seen:
        module(x, bias)
    q, k, _ = module.Wqkv(x).reshape(B, S, 3, heads, D).permute(2, 0, 3, 1, 4)
    return q, k, seen[0]


def falcon(heads):
    from transformers.models.falcon.configuration_falcon import FalconConfig
    from transformers.models.falcon.modeling_falcon import FalconAttention, build_alibi_tensor

    config = FalconConfig(
        hidden_size=heads * D,
        num_attention_heads=heads,
        alibi=True,
        multi_query=False,
        new_decoder_architecture=False,
    )
    config._attn_implementation = "eager"
    module = filled(FalconAttention(config, layer_idx=0))
    x = tokens(B, S, heads * D)
    alibi = build_alibi_tensor(torch.ones(B, S, dtype=torch.int64), heads, torch.float64)
    mask = torch.zeros(B, 1, S, S, dtype=torch.float64)
    with softmax_inputs() as seen:
        module(x, alibi, mask)
    q, k, _ = (t.transpose(1, 2) for t in module._split_heads(module.query_key_value(x)))
    return q, k, seen[0]


CASES = [
    (lambda: bloom(4), ALiBi(4)),
    (lambda: bloom(6), ALiBi(6)),
    (lambda: mpt(4), ALiBi(4)),
    (lambda: mpt(6), ALiBi(6)),
    (lambda: mpt(6, 4), ALiBi(6, max_bias=4.0)),
    # Falcon rounds its slopes to bfloat16, which keeps powers of two.
    (lambda: falcon(4), ALiBi(4, bias_inside_scale=True)),
    (lambda: falcon(8), ALiBi(8, bias_inside_scale=True)),
]
IDS = ["bloom-4", "bloom-6", "mpt-4", "mpt-6", "mpt-6-max-4", "falcon-4", "falcon-8"]


@pytest.mark.parametrize(("made", "encoding"), CASES, ids=IDS)
def test_logits_of_a_real_module(made, encoding):
    q, k, logits = made()
    q, k = (t.detach().numpy().reshape(B, encoding.num_heads, S, D) for t in (q, k))
    assert worst(encoding, q, k, logits) <= budget("float32")
    other = encoding.replace(bias_inside_scale=not encoding.bias_inside_scale)
    assert worst(other, q, k, logits) > budget("float32")
