"""Where MPNet and LayoutLMv3 put T5's bias: beside scaled scores, and inside the scale."""

import numpy as np
import pytest

from posenc_ref import T5Bias
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.oracle.scores import Scored

from .attention import filled, heads, host, softmax_inputs, tokens

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
pytest.importorskip("transformers", reason="transformers is what is compared with")

N = 40


def mpnet():
    from transformers.models.mpnet.configuration_mpnet import MPNetConfig
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    config = MPNetConfig(hidden_size=24, num_attention_heads=3, num_hidden_layers=1)
    encoder, x = filled(MPNetEncoder(config)), tokens(2, N, 24)
    module = encoder.layer[0].attention.attn
    with softmax_inputs() as seen:
        module(x, position_bias=encoder.compute_position_bias(x))
    encoding = T5Bias(host(encoder.relative_attention_bias.weight), scaled=True)
    return encoding, heads(module.q(x), 3), heads(module.k(x), 3), seen[0]


def layoutlmv3():
    from transformers.models.layoutlmv3.configuration_layoutlmv3 import LayoutLMv3Config
    from transformers.models.layoutlmv3.modeling_layoutlmv3 import LayoutLMv3Encoder

    config = LayoutLMv3Config(
        hidden_size=24,
        num_attention_heads=3,
        num_hidden_layers=1,
        has_spatial_attention_bias=False,
    )
    encoder, x = filled(LayoutLMv3Encoder(config)), tokens(2, N, 24)
    module = encoder.layer[0].attention.self
    with softmax_inputs() as seen:
        module(x, rel_pos=encoder._cal_1d_pos_emb(torch.arange(N)[None]))
    encoding = T5Bias(host(encoder.rel_pos_bias.weight).T, scaled=True, bias_inside_scale=True)
    return encoding, heads(module.query(x), 3), heads(module.key(x), 3), seen[0]


def worst(encoding, q, k, logits):
    """Up to a constant for each row: LayoutLMv3 takes the largest logit off."""
    truth = Scored(encoding, q, k, encoding.own_scale(8)).truth()
    own = np.arange(N)
    value, actual = (a - a[..., own, own][..., None] for a in (truth.value, logits))
    terms = truth.terms + truth.terms[..., own, own][..., None] + np.abs(logits)
    return Truth(value, terms, truth.angle).score(actual, dtype="float32").max()


@pytest.mark.parametrize("made", [mpnet, layoutlmv3])
def test_logits_of_the_real_module(made):
    encoding, q, k, logits = made()
    assert worst(encoding, q, k, logits) <= budget("float32")
    inside = encoding.replace(bias_inside_scale=not encoding.bias_inside_scale)
    for wrong in (inside, encoding.replace(scaled=False, bias_inside_scale=False)):
        assert worst(wrong, q, k, logits) > budget("float32")


def test_bias_inside_or_outside_the_scale():
    with pytest.raises(ValueError, match="bias_inside_scale=True needs scaled=True"):
        T5Bias(np.ones((32, 2)), bias_inside_scale=True)
