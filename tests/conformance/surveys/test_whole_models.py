"""The attention of whole models: the reference, the judge, wrong models, controls and claims."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.accuracy import budget
from posenc_ref.conformance.surveys.expected import expected
from posenc_ref.conformance.surveys.transformers.sweep import JUDGED
from posenc_ref.conformance.surveys.whole_models import document, judge
from posenc_ref.conformance.surveys.whole_models.calls import batch, packed
from posenc_ref.conformance.surveys.whole_models.case import ModelCase
from posenc_ref.conformance.surveys.whole_models.drive import Driver, Unlike
from posenc_ref.conformance.surveys.whole_models.mistakes import causes, controls
from posenc_ref.conformance.surveys.whole_models.record import Recorder
from posenc_ref.conformance.surveys.whole_models.reference import Layer, attention, visible
from posenc_ref.conformance.surveys.whole_models.sweep import EXPECTED, sweep_models
from posenc_ref.models.query_scale import QueryTemperature

transformers = pytest.importorskip("transformers", reason="transformers is what is judged")
torch = pytest.importorskip("torch", reason="PyTorch runs the models that are judged")

DOCS = Path(__file__).parents[3] / "docs/generated"
SCRIPTS = sorted((DOCS / document.SCRIPTS).glob("*.py"))


def judged(model_type, monkeypatch, causal=True):
    monkeypatch.setattr(judge, "PARTS", (("eager", "float32"),))
    return list(judge.judge_model(ModelCase(model_type, causal)))


def by_hand(q, k, v, visible_keys, scale, base=None, positions=None, cap=None, sinks=None):
    """Return one query's attention output, key by key, from the formula."""
    if base is not None:

        def turned(x, position):
            pairs = len(x) // 2
            z = x[:pairs] + 1j * x[pairs:]
            z = z * np.exp(1j * position * base ** (-np.arange(pairs) / pairs))
            return np.concatenate([z.real, z.imag])

        q = turned(q, positions[-1])
        k = [turned(row, p) for row, p in zip(k, positions, strict=False)]
    logits = [scale * float(np.dot(q, k[j])) for j in visible_keys]
    if cap is not None:
        logits = [cap * np.tanh(x / cap) for x in logits]
    weights = [np.exp(x) for x in logits]
    total = sum(weights) + (0.0 if sinks is None else np.exp(sinks))
    return sum(w / total * v[j] for w, j in zip(weights, visible_keys, strict=True))


@pytest.mark.parametrize(
    ("changes", "keys", "options"),
    [
        ({}, range(9), {}),
        ({"window": 4}, range(5, 9), {}),
        ({"chunk": 5}, range(5, 9), {}),
        ({"causal": False}, range(12), {}),
        ({"causal": False, "window": 3}, range(6, 11), {}),
        ({"scale": 0.7}, range(9), {"scale": 0.7}),
        ({"softcap": 1.5}, range(9), {"cap": 1.5}),
        ({"sinks": np.array([0.5, -1.0])}, range(9), {"sinks": -1.0}),
        (
            {"query_scale": QueryTemperature(0.1, 4)},
            range(9),
            {"scale": 0.5 * (1 + 0.1 * np.log(3))},
        ),
    ],
)
def test_the_reference_is_the_formula(changes, keys, options):
    random = np.random.default_rng(0)
    q, k, v = random.normal(size=(3, 3, 2, 12, 4))
    given = batch("none", 99, 5)
    found = attention(Layer(**changes), q, k, v, given)
    right = found.value.copy()
    right[1, 8, 1] = by_hand(q[1, 1, 8], k[1, 1], v[1, 1], keys, **{"scale": 0.5, **options})
    assert found.score(right, dtype="float64").max() <= budget("float64")


def test_a_small_number_has_the_rounding_of_its_vector():
    q, k, v = np.ones((3, 1, 1, 12, 4))
    v[..., 0] = 1e-6  # a sum of numbers near 1, which another kernel adds in another order
    found = attention(Layer(), q, k, v, batch("none", 99, 5))
    assert found.score(found.value + 2**-22, dtype="float32").max() < budget("float32")
    assert found.score(found.value + 2**-14, dtype="float32").max() > budget("float32")


def test_the_reference_rotates_by_the_positions_of_the_tokens():
    random = np.random.default_rng(0)
    q, k, v = random.normal(size=(3, 1, 1, 18, 8))
    given = packed(99, 5)
    found = attention(Layer(RoPE(8, layout="half")), q, k, v, given)
    own = slice(5, 9)  # the second sequence, whose positions begin at 0
    right = found.value.copy()
    right[0, 8, 0] = by_hand(
        q[0, 0, 8], k[0, 0][own], v[0, 0][own], range(4), 8**-0.5, 10000.0, range(4)
    )
    assert found.score(right, dtype="float64").max() <= budget("float64")


def test_padding_is_invisible_on_both_sides():
    for side in ("left", "right"):
        given = batch(side, 99, 5)
        seen = visible(Layer(), given)
        columns = np.broadcast_to(given.real[:, None], seen.shape)[given.real]
        assert not seen[given.real][~columns].any()
        assert seen[2].sum() - (~given.real[2]).sum() == 6 * 7 // 2


ALL = (
    "calls judged: one call, padding right, padding left, cache, cache, padding left, "
    "generate, padding left, packed, second call"
)


@pytest.mark.parametrize(
    ("model_type", "causal", "calls"),
    [
        ("llama", True, ALL),
        pytest.param("gemma3_text", True, ALL, marks=pytest.mark.nightly),
        ("eurobert", False, "calls judged: one call, padding right, padding left, second call"),
    ],
)
def test_a_model_agrees_in_every_call(model_type, causal, calls, monkeypatch):
    (line,) = judged(model_type, monkeypatch, causal)
    assert (line.verdict, line.limits, line.notes) == ("conforms", (), (calls,))
    assert line.worst < budget("float32")


def late_queries(module, monkeypatch):
    rotate = module.apply_rotary_pos_emb

    def wrong(q, k, cos, sin, **more):
        if q.shape[2] < 2:
            return rotate(q, k, cos, sin, **more)
        turned, _ = rotate(q.roll(-1, 2), k, cos, sin, **more)
        return turned.roll(1, 2), rotate(q, k, cos, sin, **more)[1]

    monkeypatch.setattr(module, "apply_rotary_pos_emb", wrong)


def not_rotated(module, monkeypatch):
    plain = module.apply_rotary_pos_emb

    def wrong(q, k, cos, sin, **more):
        return plain(q, k, torch.ones_like(cos), torch.zeros_like(sin), **more)

    monkeypatch.setattr(module, "apply_rotary_pos_emb", wrong)


def visible_padding(module, monkeypatch):
    plain = module.create_causal_mask
    monkeypatch.setattr(
        module, "create_causal_mask", lambda **given: plain(**{**given, "attention_mask": None})
    )


def packed_together(module, monkeypatch):
    plain = module.create_causal_mask
    monkeypatch.setattr(
        module, "create_causal_mask", lambda **given: plain(**{**given, "position_ids": None})
    )


def scaled_wrong(module, monkeypatch):
    plain = module.LlamaAttention.__init__

    def wrong(self, *args, **given):
        plain(self, *args, **given)
        self.scaling = 1.0

    monkeypatch.setattr(module.LlamaAttention, "__init__", wrong)


def factor_wrong(module, monkeypatch):
    plain = module.LlamaRotaryEmbedding.forward

    def wrong(*args, **given):
        return tuple(1.5 * t for t in plain(*args, **given))

    monkeypatch.setattr(module.LlamaRotaryEmbedding, "forward", wrong)


def late_raise(module, monkeypatch):
    plain = module.LlamaModel.forward

    def wrong(self, *args, past_key_values=None, **given):
        if past_key_values is not None:
            raise RuntimeError("no cache, please")
        return plain(self, *args, **given)

    monkeypatch.setattr(module.LlamaModel, "forward", wrong)


@pytest.mark.parametrize(
    ("break_it", "code", "said"),
    [
        (late_queries, "inaccurate", "one call: layer 0"),
        (not_rotated, "rotation", "q and k are not rotated"),
        (visible_padding, "mask", "padding left: layer 0 (full_attention)"),
        (packed_together, "mask", "packed sequences see each other"),
        (factor_wrong, "attention-factor", "cos and sin are multiplied by 1.5, not by 1"),
        (late_raise, "raises", "cache: RuntimeError: no cache, please"),
        pytest.param(scaled_wrong, "scale", "the scale is 1", marks=pytest.mark.nightly),
    ],
)
def test_a_wrong_model_is_rejected_and_its_cause_named(break_it, code, said, monkeypatch):
    from transformers.models.llama import modeling_llama

    break_it(modeling_llama, monkeypatch)
    (line,) = judged("llama", monkeypatch)
    assert line.verdict == "deviates"
    assert line.codes[0] == code
    assert said in line.messages[0]


def test_rows_of_tables_are_those_of_the_tokens(monkeypatch):
    (line,) = judged("bart", monkeypatch)
    assert line.codes == ("positions",)
    said = "padding left: position 0 of row 1 has row 5 of model.decoder.embed_positions.weight"
    assert line.messages == (f"{said}, not 2",)
    (line,) = judged("gpt2", monkeypatch)
    assert line.verdict == "conforms"


@pytest.mark.parametrize("model_type", ["biogpt", "opt"])
def test_models_with_a_table_of_positions_run_packed_sequences(model_type, monkeypatch):
    (line,) = judged(model_type, monkeypatch)
    assert line.codes == ("mask",)
    assert line.messages[0].startswith("packed: layer 0, ")
    assert line.messages[0].endswith("packed sequences see each other")


def test_a_pass_counts_only_if_controls_are_rejected(monkeypatch):
    monkeypatch.setattr(judge, "controls", lambda layer, given: [("nothing", (layer, given))])
    (line,) = judged("llama", monkeypatch)
    assert line.verdict == "gap"
    assert "a control was accepted: cache, padding left: layer 0 (full_attention)" in line.reason


def test_a_call_that_cannot_be_put_together_is_no_pass(monkeypatch):
    def unlike(*_):
        raise Unlike("its passes differ")

    monkeypatch.setattr(Driver, "_packed", unlike)
    (line,) = judged("llama", monkeypatch)
    assert (line.verdict, line.reason) == ("gap", "not driven: packed: its passes differ")


def test_an_attention_factor_that_is_not_seen_is_no_pass(monkeypatch):
    monkeypatch.setattr(Recorder, "_unturned", lambda *_: None)
    (line,) = judged("llama", monkeypatch)
    assert line.verdict == "gap"
    assert "its attention factor is unknown" in line.reason


def test_controls_and_causes_change_the_output():
    random = np.random.default_rng(0)
    full = Layer(RoPE(8, layout="half"), 0.2, QueryTemperature(0.1, 4), window=6, softcap=2.0)
    for layer, given in (
        (full, batch("left", 99, 5)),
        (full, packed(99, 5)),
        (Layer(causal=False, window=4), batch("left", 99, 5)),
    ):
        q, k, v = random.normal(size=(3, len(given.ids), 2, given.ids.shape[1], 8))
        right = attention(layer, q, k, v, given)
        every = list(controls(layer, given))
        if layer is full:  # in a layer without positions, counting padding has no effect
            every += [entry[1:] for entry in causes(layer, given, [1.2])]
        for name, (changed, tokens) in every:
            wrong = attention(changed, q, k, v, tokens).value
            score = right.score(wrong, dtype="float32")[given.real]
            assert score.max() > budget("float32"), name


def test_a_model_that_cannot_be_run_says_why(monkeypatch):
    (line,) = judged("mamba", monkeypatch)
    assert (line.verdict, line.reason) == ("undrivable", "it does not call the attention interface")
    (line,) = judged("gemma3", monkeypatch)
    assert line.reason == "it consists of other models: gemma3_text, siglip_vision_model"


def test_every_deviation_on_record_has_its_script():
    assert {path.name for path in SCRIPTS} == {entry.script for entry in expected(EXPECTED)}


@pytest.mark.nightly
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_deviation_shows_without_this_project(path, capsys):
    assert "posenc" not in path.read_text(encoding="utf-8")
    runpy.run_path(str(path), run_name="__main__")
    right, *wrong = (float(line.split()[-1]) for line in capsys.readouterr().out.splitlines())
    assert wrong
    assert all(1000 * right < value for value in wrong)  # the first model or setting is right


def test_the_document_of_this_repository_has_these_scripts_and_claims():
    text = (DOCS / "whole-models.md").read_text(encoding="utf-8")
    for entry in expected(EXPECTED):
        assert entry.reason in text
    for path in SCRIPTS:
        assert path.read_text(encoding="utf-8").strip() in text
    assert "Unexplained" not in text


@pytest.mark.nightly
def test_every_model_agrees_or_is_explained():
    found = sweep_models(processes=2)
    assert [line.name for line in found.unexplained] == []
    assert found.stale == []
    models = {line.group for line in found.outcomes if line.verdict in JUDGED}
    assert len(models) >= 161  # of 240: fewer means that a model is no longer run
    assert found.counts["gap"] <= 6
    assert [line.name for line in found.outcomes if line.limits] == []
