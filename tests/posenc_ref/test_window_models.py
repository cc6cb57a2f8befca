"""The biases of Swin, Swin v2, BEiT and LeViT against the real modules."""

import numpy as np
import pytest

from posenc_ref import BEiTBias, LeViTBias, LogCPB, SwinBias
from posenc_ref.accuracy import budget
from posenc_ref.conformance.oracle.scores import Scored

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
pytest.importorskip("transformers", reason="transformers is what is compared with")

from .attention import filled, heads, host, softmax_inputs, tokens  # noqa: E402


def worst(encoding, q, k, logits, scale, dtype="float32"):
    score = (
        Scored(encoding, q, k, scale).truth().score(logits.reshape(*q.shape[:3], -1), dtype=dtype)
    )
    return score.max()


def eager(config):
    config._attn_implementation = "eager"
    return config


def swin():
    from transformers.models.swin.configuration_swin import SwinConfig
    from transformers.models.swin.modeling_swin import SwinAttention

    module, x = filled(SwinAttention(eager(SwinConfig()), 24, 3, 4)), tokens(2, 16, 24)
    with softmax_inputs() as seen:
        module(x)
    sides = (heads(getattr(module, n)(x), 3) for n in ("q_proj", "k_proj"))
    table = host(module.relative_position_bias.relative_position_bias_table)
    return SwinBias(table, window=(4, 4)), *sides, seen[0], 8**-0.5


def swin_v2():
    from transformers.models.swinv2.configuration_swinv2 import Swinv2Config
    from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

    made = Swinv2SelfAttention(Swinv2Config(), 24, 3, (4, 4), pretrained_window_size=(6, 6))
    module, x = filled(made), tokens(2, 16, 24)
    with softmax_inputs() as seen:
        module(x)
    q, k = (heads(getattr(module, n)(x), 3) for n in ("query", "key"))
    q, k = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (q, k))
    q = q * np.exp(np.minimum(host(module.logit_scale), np.log(100.0)))
    first, _, last = module.continuous_position_bias_mlp
    encoding = LogCPB(
        host(first.weight), host(first.bias), host(last.weight), window=(4, 4),
        pretrained_window=(6, 6),
    )  # fmt: skip
    return encoding, q, k, seen[0], 1.0


def beit():
    from transformers.models.beit.configuration_beit import BeitConfig
    from transformers.models.beit.modeling_beit import BeitAttention, BeitRelativePositionBias

    config = BeitConfig(hidden_size=24, num_attention_heads=3, image_size=48, patch_size=16)
    module, bias = filled(BeitAttention(eager(config))), filled(BeitRelativePositionBias(config))
    x = tokens(2, 10, 24)
    with softmax_inputs() as seen:
        module(x, bias((3, 3)))
    sides = (heads(getattr(module, n)(x), 3) for n in ("q_proj", "k_proj"))
    encoding = BEiTBias(host(bias.relative_position_bias_table), window=(3, 3))
    return encoding, *sides, seen[0], 8**-0.5


def levit():
    from transformers.models.levit.modeling_levit import LevitAttention

    module = filled(LevitAttention(24, 8, 3, 2, resolution=3))
    x = tokens(2, 9, 24)
    with softmax_inputs() as seen, pytest.MonkeyPatch.context() as patch:
        inside = torch.Tensor.softmax
        patch.setattr(
            torch.Tensor, "softmax", lambda t, dim: (seen.append(host(t)), inside(t, dim))[1]
        )
        module(x)
    whole = module.queries_keys_values(x).view(2, 9, 3, -1)
    q, k = (host(t.transpose(1, 2)) for t in whole.split([8, 8, 16], dim=3)[:2])
    return LeViTBias(host(module.attention_biases).T, window=(3, 3)), q, k, seen[0], 8**-0.5


@pytest.mark.parametrize("made", [swin, swin_v2, beit, levit])
def test_logits_of_the_real_module(made):
    encoding, q, k, logits, scale = made()
    assert worst(encoding, q, k, logits, scale) <= budget("float32")
    wrong = encoding.bias(range(q.shape[2]), range(q.shape[2]))
    assert worst(encoding, q, k, logits - wrong, scale) > budget("float32")
    if isinstance(encoding, SwinBias | BEiTBias):
        rows = np.arange(len(encoding.table))
        offsets = len(rows) - 3 * isinstance(encoding, BEiTBias)
        rows[:offsets] = rows[:offsets][::-1]
        mirrored = encoding.replace(table=encoding.table[rows])
        assert worst(mirrored, q, k, logits, scale) > budget("float32")
    if isinstance(encoding, LogCPB):
        own = encoding.replace(pretrained_window=None)
        assert worst(own, q, k, logits, scale) > budget("float32")
