"""Functions such as get_rope_index are called by the names of their parameters."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.rope_index import TOKEN_IDS, token_ids

RULE = pr.mrope_rule("qwen2_vl")
IMAGE, VIDEO = TOKEN_IDS["image_token_id"], TOKEN_IDS["video_token_id"]


def deltas_of(ids, attention_mask, length):
    """What to add to a length for the position after the largest, of each row (B, 1)."""
    largest = np.where(attention_mask == 1, ids, -1).max(axis=(0, 2))
    return (largest + 1 - length)[:, None]


def by_types(mm_token_type_ids, image_grid_thw=None, video_grid_thw=None, attention_mask=None):
    """As in transformers 5: deltas of the real length, None for no images."""
    assert image_grid_thw is None or len(image_grid_thw)
    ids = RULE.positions(
        mm_token_type_ids, image_grids=() if image_grid_thw is None else image_grid_thw,
        video_grids=() if video_grid_thw is None else video_grid_thw,
        attention_mask=attention_mask,
    )  # fmt: skip
    return ids, deltas_of(ids, attention_mask, attention_mask.sum(axis=1))


def by_tokens(input_ids, image_grids, video_grids, attention_mask):
    """As in transformers 4: token ids alone, and deltas of the padded length."""
    types = (input_ids == IMAGE) + 2 * (input_ids == VIDEO)
    ids, _ = by_types(types, image_grids, video_grids, attention_mask)
    return np.concatenate([ids[:1], ids]), deltas_of(ids, attention_mask, input_ids.shape[1])


def plain(image_grids):
    """``image_grids``, or None for none."""
    return image_grids if len(image_grids) else None


@pytest.mark.parametrize("deltas", [True, False])
def test_it_conforms(deltas):
    def called(mm_token_type_ids, image_grid_thw, video_grid_thw, attention_mask):
        grids = plain(image_grid_thw), plain(video_grid_thw)
        ids = by_types(mm_token_type_ids, *grids, attention_mask)
        return ids if deltas else ids[0]

    report = check(called, RULE, "mrope_position_ids")
    assert report.passed, report


def test_defaults_of_none_get_none():
    report = check(by_types, RULE)  # the rule fixes the surface
    assert report.passed, report
    assert report.surface == "mrope_position_ids"


def test_tokens_and_deltas_of_the_padded_length():
    def called(input_ids, image_grid_thw, video_grid_thw, attention_mask):
        return by_tokens(input_ids, plain(image_grid_thw), plain(video_grid_thw), attention_mask)

    assert check(called, RULE, "mrope_position_ids").passed


def test_wrong_deltas_are_found():
    def called(mm_token_type_ids, attention_mask, image_grid_thw=None, video_grid_thw=None):
        ids, deltas = by_types(mm_token_type_ids, image_grid_thw, video_grid_thw, attention_mask)
        return ids, deltas * 0

    assert check(called, RULE, "mrope_position_ids").codes == ["decode-offset"]


def test_the_six_arguments_may_have_any_names():
    assert check(lambda a, b, c, d, e, f: RULE.with_decoding(a, b, c, d, e, f), RULE).passed


def test_unknown_parameters_are_named():
    with pytest.raises(ValueError, match=r"also needs scale; write a function of token_types"):
        check(lambda input_ids, scale: None, RULE)
    with pytest.raises(ValueError, match="it takes no tokens"):
        check(lambda attention_mask: None, RULE)


def test_start_and_end_tokens():
    """A video with its sound has two start tokens and two end tokens; an image has one each."""
    types = np.array([[0, 1, 0, 0, 0, 2, 3, 0, 0, 3, 0]])
    made = token_ids(types, np.ones_like(types), TOKEN_IDS)[0]
    image, film = made[:3].tolist(), made[3:9].tolist()
    vision = [TOKEN_IDS[f"vision_{end}_token_id"] for end in ("start", "end")]
    audio = [TOKEN_IDS[f"audio_{end}_token_id"] for end in ("start", "end")]
    assert image == [vision[0], IMAGE, vision[1]]
    assert film == [vision[0], audio[0], VIDEO, TOKEN_IDS["audio_token_id"], audio[1], audio[0]]
    assert made[10] == audio[1]


def test_the_ids_of_the_configuration_are_used():
    def called(input_ids, image_grid_thw, video_grid_thw, attention_mask):
        types = (input_ids == 7) + 2 * (input_ids == VIDEO)
        return by_types(types, plain(image_grid_thw), plain(video_grid_thw), attention_mask)

    from posenc_ref.conformance import bind

    config = {"image_token_id": 7}
    assert check(bind(called, RULE, config=config), RULE).passed
    assert check(bind(called, RULE), RULE).codes == ["raises"]


def test_all_arguments_are_arrays_of_the_backend_that_is_named():
    """A function whose code names no library, as those of others that import one inside."""
    torch = pytest.importorskip("torch", reason="the arguments are tensors")
    tensor, seen = torch.Tensor, []

    def called(input_ids, mm_token_type_ids, image_grid_thw, video_grid_thw, attention_mask):
        given = input_ids, mm_token_type_ids, image_grid_thw, video_grid_thw, attention_mask
        seen.extend(isinstance(value, tensor) for value in given)
        ids, images, videos, mask = (np.asarray(v) for v in (given[0], *given[2:]))
        return by_tokens(ids, plain(images), plain(videos), mask)

    report = check(called, RULE, "mrope_position_ids", backend="torch")
    assert report.passed, report
    assert all(seen)


def test_a_canvas_by_token_ids():
    """Markers are token ids; mm_token_type_ids calls them text; sizes are height and width."""
    rule, seen = pr.mrope_rule("minicpmv4_7"), set()
    marks = {TOKEN_IDS[name]: kind for name, kind in (
        ("image_start_id", 5), ("image_end_id", 5), ("slice_start_id", 4), ("slice_end_id", 5),
        ("newline_id", 6),
    )}  # fmt: skip

    def called(input_ids, mm_token_type_ids, target_sizes, target_sizes_videos, attention_mask):
        assert set(np.unique(mm_token_type_ids)) <= {0, 1, 2}
        seen.update(np.unique(input_ids).tolist())
        types = mm_token_type_ids + np.vectorize(lambda i: marks.get(i, 0))(input_ids)
        images, videos = (np.insert(s, 0, 1, axis=1) for s in (target_sizes, target_sizes_videos))
        ids = rule.positions(
            types, image_grids=images, video_grids=videos, attention_mask=attention_mask
        )
        return ids, deltas_of(ids, attention_mask, attention_mask.sum(axis=1))

    report = check(called, rule)
    assert report.passed, report
    assert set(marks) <= seen
    swapped = check(lambda input_ids, mm_token_type_ids, target_sizes, target_sizes_videos,
                    attention_mask: called(input_ids, mm_token_type_ids, target_sizes,
                                           target_sizes_videos, attention_mask)[0][[0, 2, 1]],
                    rule)  # fmt: skip
    assert swapped.codes == ["axis-order"]


def test_images_to_come_need_a_function_of_the_surface():
    with pytest.raises(ValueError, match="for images to come, write a function of token_types"):
        check(by_types, pr.mrope_rule("glm_image"))


def test_four_axes():
    rule = pr.mrope_rule("hunyuan_vl")

    def called(mm_token_type_ids, image_grid_thw, attention_mask):
        return rule.positions(
            mm_token_type_ids, image_grids=image_grid_thw, attention_mask=attention_mask
        )

    assert check(called, rule).passed
    three = check(lambda mm_token_type_ids, image_grid_thw, attention_mask: called(
        mm_token_type_ids, image_grid_thw, attention_mask)[1:], rule)  # fmt: skip
    assert three.codes == ["shape"]
