"""The attention of DeepSeek-V4 in transformers, beside ours: outputs, positions, padding."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance import check
from posenc_ref.conformance.oracle.attention import attended

torch = pytest.importorskip("torch", reason="the released module runs on PyTorch")
pytest.importorskip("transformers.models.deepseek_v4", reason="transformers has the module")

from tests.conformance.adapters import deepseek_v4 as released  # noqa: E402


def declared(kind):
    """The attention of this layer type, from the module's own configuration."""
    label = "main" if kind == "sliding_attention" else "compress"
    return pr.from_config(released.config(3, kind=kind).to_dict()).attention(label)


@pytest.mark.parametrize("kind", ["sliding_attention", "compressed_sparse_attention"])
def test_the_released_attention_conforms(kind):
    of = declared(kind)
    assert of.values == "shared"
    assert of.sinks
    report = check(released.attention(kind), of, "attention", backend="torch")
    assert report.passed, report
    assert report.accuracy.worst < 8


def test_a_released_module_with_another_base_deviates():
    """The check of the module can fail: the tables of the other layers are found."""
    wrong = declared("compressed_sparse_attention")
    report = check(released.attention("sliding_attention"), wrong, "attention", backend="torch")
    assert not report.passed


@pytest.mark.parametrize("kind", [*released.RATES])
@pytest.mark.parametrize("last", [False, True])
def test_a_compressed_key_has_the_position_of_the_first_token_of_its_window(kind, last):
    rate, n = released.RATES[kind], 37
    seen = released.run_whole(kind, n)
    window = np.arange(n // rate)
    k_at = np.concatenate([np.arange(n), window * rate + (rate - 1) * last])
    at = np.arange(n)
    mask = np.concatenate([np.tri(n, dtype=bool), (window + 1) * rate <= at[:, None] + 1], axis=1)
    q, out = (seen[name].double().numpy() for name in ("q", "out"))
    kv = torch.cat([seen["k"], seen["compressed"][:, None]], dim=2).double().numpy()
    sinks = seen["sinks"].double().numpy()
    of = declared(kind).replace(causal=False)
    ours = of.output(q, kv, kv, at, k_at, sinks=sinks, mask=mask)
    truth = attended(of, q, kv, kv, at, k_at, sinks).replace(seen=mask).truth()
    assert truth.score(ours).max() < 4
    worst = truth.score(out.astype(np.float32)).max()
    assert worst > 1e4 if last else worst < 8


@pytest.mark.parametrize("kind", ["sliding_attention", *released.RATES])
def test_left_padding_and_later_positions_change_compressed_layers(kind):
    """docs/attention.md states it: compressed keys count columns, queries have position_ids."""
    model, ids = released.model(kind), torch.arange(1, 25)[None]
    with torch.no_grad():
        alone = model(ids).last_hidden_state
        left = torch.cat([torch.zeros(1, 8, dtype=torch.long), ids], dim=1)
        mask = (left > 0).long()
        at = (mask.cumsum(-1) - 1).clamp(min=0)
        padded = model(left, attention_mask=mask, position_ids=at).last_hidden_state[:, 8:]
        later = model(ids, position_ids=torch.arange(8, 32)[None]).last_hidden_state
    for other in (padded, later):
        # The reference is the model itself: units of the largest number.
        units = float((other - alone).abs().max() / alone.abs().max()) / ROUNDOFF["float32"]
        assert (units < BUDGET["float32"]) == (kind == "sliding_attention")
