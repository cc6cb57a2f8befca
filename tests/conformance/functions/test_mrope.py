"""Position ids of text, images, videos and audio: the two versions agree, mistakes are named."""

import json

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.functions.function import PlainCall
from posenc_ref.conformance.functions.judge import ROWS
from posenc_ref.conformance.functions.mrope_layouts import Text, Video, batch, layouts
from posenc_ref.conformance.functions.position_rules import kind_of

NAME = "mrope_position_ids"
MODELS = ["qwen2_vl", "qwen2_5_vl", "ernie4_5_vl_moe", "qwen3_vl", "paddleocr_vl",
          "qwen2_5_omni", "qwen3_omni_moe"]  # fmt: skip
OTHERS = ["hunyuan_vl", "minicpmv4_7", "glm_image"]
OMNI = pr.mrope_rule("qwen2_5_omni")


def judged(given):
    """Where a batch is judged, (1, B, S + n)."""
    real = given.attention_mask == 1
    return np.pad(real, ((0, 0), (0, given.n_steps)), constant_values=True)[None]


@pytest.mark.parametrize("model", MODELS + OTHERS)
def test_the_specification_agrees_with_the_loop(model):
    rule = pr.mrope_rule(model)
    kind = kind_of(rule)
    for name, rows, side, _ in kind.layouts(rule):
        given = kind.batch(rule, rows, side=side)
        mine, loop = rule.with_decoding(*given), kind.numbered(rule, given)
        at = np.broadcast_to(judged(given), mine.shape)
        assert (mine[at] == loop[at]).all(), name


def by_name(rule, name, side="left"):
    """The positions of one layout, (3, B, S + n)."""
    rows = next(rows for found, rows, _, _ in layouts(rule) if found == name)
    return rule.with_decoding(*batch(rule, rows, side=side))


def test_what_text_after_a_video_starts_at():
    """Six frames of 2 x 1 at 1: times 1 .. 6, so text goes on at 7; two seconds apart at 12."""
    plain = by_name(pr.mrope_rule("qwen2_vl"), "a video of many frames")
    assert plain[:, 0, -5:].tolist() == [[7, 8, 9, 10, 11]] * 3
    timed = by_name(pr.mrope_rule("qwen2_5_vl"), "a video of many frames")
    assert timed[:, 0, -5:].tolist() == [[12, 13, 14, 15, 16]] * 3


def test_a_video_with_its_sound_by_hand():
    """Qwen2.5-Omni, half a second a frame: frame 1 is at 12; 31 audio tokens at 2 .. 32."""
    ids = by_name(OMNI, "a video with its sound")[:, 0]
    assert ids[:, :4].tolist() == [[0, 1, 2, 2]] * 3  # the two start tokens share a position
    assert ids[:, 4:10].tolist() == [[3, 3, 15, 15, 28, 28], [3, 4] * 3, [3] * 6]
    assert ids[:, 10:41].tolist() == [list(range(3, 34))] * 3
    assert ids[:, 41:45].tolist() == [[34, 34, 35, 36]] * 3  # so do the two end tokens
    assert ids[:, 45:].tolist() == [[37, 38]] * 3


def test_fractions_are_kept_and_truncated():
    omni3 = pr.mrope_rule("qwen3_omni_moe")
    rows = [[Text(1), Video(2, 1, 1, 0.5), Text(1)]]
    assert omni3.with_decoding(*batch(omni3, rows))[0, 0].tolist() == [0, 1, 7.5, 8.5, 9.5, 10.5]
    assert OMNI.with_decoding(*batch(OMNI, rows))[0, 0].tolist() == [0, 1, 13, 14, 15, 16]


def test_every_mistake_differs_from_the_rule_and_from_the_others():
    """A mistake that equals another one in all calls of all rules could not be told from it."""
    row, results = ROWS[NAME], {}
    for model in ("qwen2_5_vl", "qwen2_5_omni", "qwen3_vl", "qwen3_omni_moe"):
        rule = pr.mrope_rule(model)
        calls = [tuple(batch(rule, rows, side=side)) for _, rows, side, _ in layouts(rule)]
        right = b"".join(rule.with_decoding(*c).astype(float).tobytes() for c in calls)
        same = {}
        for mistake in row.mistakes(rule):
            made = [mistake.predict(PlainCall(row, rule, c)) for c in calls]
            key = b"".join(b"" if m is None else m.value.tobytes() for m in made)
            results.setdefault(mistake.message, {})[model] = None if key == right else key
            if key != right:  # the first of the same results is reported: it has the same code
                assert same.setdefault(key, mistake.code) == mistake.code, mistake.message
    assert [m for m, found in results.items() if set(found.values()) == {None}] == []
    kept = {frozenset(found.items()) for found in results.values()}
    assert len(kept) == len(results) >= 50


@pytest.mark.parametrize("model", ["hunyuan_vl", "minicpmv4_7"])
def test_every_mistake_of_other_rules_differs(model):
    """From the rule, and in its results from the others of another code."""
    row, rule = ROWS[NAME], pr.mrope_rule(model)
    kind = kind_of(rule)
    calls = [tuple(kind.batch(rule, rows, side=side)) for _, rows, side, _ in kind.layouts(rule)]
    right = b"".join(rule.with_decoding(*c).astype(float).tobytes() for c in calls)
    seen = {}
    for mistake in row.mistakes(rule):
        made = [mistake.predict(PlainCall(row, rule, c)) for c in calls]
        key = b"".join(b"" if m is None else m.value.tobytes() for m in made)
        assert key not in (right, b""), mistake.message
        assert seen.setdefault(key, mistake.code) == mistake.code, mistake.message
    assert len(seen) >= 35


@pytest.mark.nightly
@pytest.mark.parametrize("model", MODELS + OTHERS)
def test_every_mistake_is_named(model):
    row, rule = ROWS[NAME], pr.mrope_rule(model)
    named = 0
    for mistake in row.mistakes(rule):

        def fn(*arguments, mistake=mistake):
            expected = rule.with_decoding(*arguments)
            truth = mistake.predict(PlainCall(row, rule, arguments))
            return expected if truth is None else truth.value.astype(expected.dtype)

        report = check(fn, rule, NAME)
        if not report.passed:
            named += 1
            assert report.codes == [mistake.code], (mistake.message, str(report))
    assert named >= 30


def test_floats_only_where_the_rule_keeps_fractions():
    rule, omni3 = pr.mrope_rule("qwen2_vl"), pr.mrope_rule("qwen3_omni_moe")
    report = check(lambda *a: rule.with_decoding(*a).astype(np.float32), rule, NAME)
    assert report.codes == ["dtype"]
    report = check(lambda *a: omni3.with_decoding(*a).astype(np.float32), omni3, NAME)
    assert report.passed


def test_other_merge_sizes():
    rule = pr.MRoPEPositions(spatial_merge_size=3, temporal_merge_size=4)
    assert check(rule.with_decoding, rule, NAME).passed
    assert check(pr.mrope_rule("qwen2_vl").with_decoding, rule, NAME).codes == ["raises"]


def test_an_encoding_is_refused():
    with pytest.raises(ValueError, match=r"rules of position ids.*got RoPE"):
        check(lambda *a: None, pr.RoPE(8, layout="half"), NAME)
    with pytest.raises(ValueError, match="encoding must be given"):
        check(pr.mrope_rule("qwen2_vl").with_decoding, None, NAME)


def test_rules_by_model_and_configuration():
    assert pr.mrope_rule("qwen2_5_vl").tokens_per_second == 2
    config = {"model_type": "qwen2_5_vl", "vision_config": {"tokens_per_second": 4,
                                                            "spatial_merge_size": 1}}  # fmt: skip
    rule = pr.mrope_rule(config)
    assert (rule.tokens_per_second, rule.spatial_merge_size) == (4, 1)
    nested = {"model_type": "qwen3_omni_moe", "thinker_config": {"position_id_per_seconds": 25}}
    assert pr.mrope_rule(nested).tokens_per_second == 25
    # Qwen2-VL reads no seconds, whatever a configuration says.
    config = {"model_type": "qwen2_vl", "vision_config": {"tokens_per_second": 4}}
    assert pr.mrope_rule(config) == pr.MRoPEPositions()
    assert pr.from_dict(json.loads(json.dumps(OMNI.to_dict()))) == OMNI
    with pytest.raises(
        ValueError, match=r"one whose multimodal positions are known: qwen2_vl.*'x'"
    ):
        pr.mrope_rule("x")
    with pytest.raises(TypeError, match="a model_type or a configuration, got 3"):
        pr.mrope_rule(3)
    with pytest.raises(ValueError, match="markers must be one of"):
        pr.MRoPEPositions(markers="none")


def test_a_configuration_without_an_entry_has_the_default_of_its_class():
    """4 and 25 are the defaults in transformers 5.23; 2 and 13 are in the checkpoints."""
    config = {"model_type": "qwen2_5_vl", "vision_config": {}}
    assert pr.mrope_rule(config).tokens_per_second == 4
    assert pr.mrope_rule({"model_type": "qwen3_omni_moe"}).tokens_per_second == 25
    assert pr.mrope_rule("qwen3_omni_moe").tokens_per_second == 13
    assert pr.mrope_rule({**config, "vision_config": {"tokens_per_second": 2}}) == pr.mrope_rule(
        "qwen2_5_vl"
    )


@pytest.mark.parametrize(
    ("key", "meant"),
    [("spatial_merge_sise", "spatial_merge_size"), ("token_per_second", "tokens_per_second")],
)
def test_a_misspelt_entry_is_refused(key, meant):
    with pytest.raises(ValueError, match=rf"'{key}' .*did you mean '{meant}'\?"):
        pr.mrope_rule({"model_type": "qwen2_5_vl", "vision_config": {key: 1}})


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([[0, 2, 3, 0, 0]], "two text tokens before and two after each video with its sound"),
        ([[0, 0, 2, 3, 0, 2, 3, 0, 0]], "two text tokens before"),
        ([[0, 0, 2, 2, 3, 0, 0]], "1 tokens for the video"),
    ],
)
def test_sequences_that_fit_no_layout(types, message):
    with pytest.raises(ValueError, match=message):
        OMNI.positions(types, video_grids=[(1, 2, 2)] * 2)


@pytest.mark.parametrize("model", ["qwen2_5_vl", "qwen3_omni_moe", *OTHERS])
def test_packed_documents(model):
    rule = pr.mrope_rule(model)
    assert check(rule.packed, rule, "mrope_packed").passed
    joined = check(lambda *a: rule.packed(*a[:4], [len(a[0])]), rule, "mrope_packed")
    assert joined.codes == ["packing"]


def test_packed_documents_by_hand():
    rule = pr.mrope_rule("qwen2_5_vl")
    ids = rule.packed([0, 0, 0, 1, 1, 0], [(1, 2, 4)], (), (), [2, 4])
    assert ids[2].tolist() == [0, 1, 0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"lengths must add up to the 3 tokens"):
        rule.packed([0, 0, 0], (), (), (), [2, 2])
    with pytest.raises(ValueError, match=r"does not take the arguments of surface 'mrope_packed'"):
        check(lambda a, b, c, d, e, f: None, rule, "mrope_packed")
