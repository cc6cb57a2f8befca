"""M-RoPE positions: against a token-by-token loop, and beside eight models of transformers."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import mrope_positions

MERGE = 2


def grid(t=1, h=1, w=1):
    return st.tuples(st.integers(1, t), st.integers(1, h), st.integers(1, w))


#: A row: text lengths, with an image or a video (merged grid) between them.
SPANS = st.one_of(
    st.tuples(st.just("image"), grid(1, 4, 4)), st.tuples(st.just("video"), grid(5, 3, 3))
)
ROWS = st.lists(st.tuples(st.integers(1, 4), SPANS), max_size=4)


def layout(rows, tail, *, split=False, time=1):
    """Token types (a list per row) and the grids in patches, as a processor would give them."""
    types, images, videos = [], [], []
    for row in rows:
        tokens = []
        for text, (kind, (t, h, w)) in row:
            tokens += [0] * text
            if kind == "image":
                tokens += [1] * (t * h * w)
                images.append((t, MERGE * h, MERGE * w))
            else:
                frame = [2] * (h * w)
                # Timestamps between the frames, where every frame is on its own.
                tokens += ([*frame, 0, 0] * t)[:-2] if split else frame * t
                videos.append((t * time, MERGE * h, MERGE * w))
        types.append(tokens + [0] * tail)
    return types, images, videos


def pad(types, side):
    length = max(map(len, types))
    left = side == "left"
    rows, masks = [], []
    for tokens in types:
        gap = [0] * (length - len(tokens))
        rows.append(gap + tokens if left else tokens + gap)
        real = [1] * len(tokens)
        masks.append(gap + real if left else real + gap)
    return np.array(rows), np.array(masks)


def by_hand(rows, tail, *, split=False, text_after="max", step=lambda k: k):
    """One list of (t, h, w) per row, token after token."""
    result = []
    for row in rows:
        out, start = [], 0
        for text, (kind, (t, h, w)) in row:
            out += [(start + i,) * 3 for i in range(text)]
            start += text
            frames = [[f] for f in range(t)] if split and kind == "video" else [list(range(t))]
            for number, part in enumerate(frames):
                if number:
                    out += [(start,) * 3, (start + 1,) * 3]
                    start += 2
                times = [step(k) if kind == "video" else k for k in range(len(part))]
                span = [(k, i, j) for k in times for i in range(h) for j in range(w)]
                out += [(start + k, start + i, start + j) for k, i, j in span]
                end = 1 + max(max(token) for token in span)
                start += end if text_after == "max" else max(h, w)
        out += [(start + i,) * 3 for i in range(tail)]
        result.append(out)
    return result


BATCH = st.lists(ROWS, min_size=1, max_size=3)


@given(
    rows=BATCH,
    tail=st.integers(1, 3),
    split=st.booleans(),
    text_after=st.sampled_from(["max", "extent"]),
    side=st.sampled_from(["left", "right"]),
)
def test_token_by_token(rows, tail, split, text_after, side):
    types, images, videos = layout(rows, tail, split=split)
    padded, mask = pad(types, side)
    positions = mrope_positions(
        padded,
        image_grids=images,
        video_grids=videos,
        attention_mask=mask,
        split_frames=split,
        text_after=text_after,
    )
    assert positions.dtype == np.int64
    assert positions.shape == (3, *padded.shape)
    assert (positions[:, mask == 0] == 0).all()
    for b, want in enumerate(by_hand(rows, tail, split=split, text_after=text_after)):
        assert positions[:, b, mask[b] == 1].T.tolist() == [list(token) for token in want]


def test_the_example_of_qwen2_vl():
    """The docstring of transformers 4: a video of 3 x 2 x 2 tokens, then five words from 3 on."""
    positions = mrope_positions([2] * 12 + [0] * 5, video_grids=[(3, 4, 4)])
    assert positions[:, :12].tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2],
        [0, 0, 1, 1] * 3,
        [0, 1, 0, 1] * 3,
    ]
    assert positions[:, 12:].tolist() == [[3, 4, 5, 6, 7]] * 3


def test_text_alone_is_counted_on_every_axis():
    assert mrope_positions([0, 0, 0]).tolist() == [[0, 1, 2]] * 3
    assert mrope_positions([[]]).shape == (3, 1, 0)


def test_pictures_next_to_each_other_are_told_apart_by_their_grids():
    positions = mrope_positions([1] * 6, image_grids=[(1, 2, 4), (1, 4, 4)])
    assert positions.tolist() == [[0, 0, 2, 2, 2, 2], [0, 0, 2, 2, 3, 3], [0, 1, 2, 3, 2, 3]]


@given(grid(1, 4, 4), st.integers(0, 3))
def test_the_two_rules_agree_about_images(one, text):
    types, images, _ = layout([[(1, ("image", one))]], text)
    both = [
        mrope_positions(types, image_grids=images, text_after=rule) for rule in ("max", "extent")
    ]
    assert (both[0] == both[1]).all()


def test_seconds_become_positions():
    seconds = {"tokens_per_second": 2, "seconds_per_grid": [1.0]}
    positions = mrope_positions([2] * 4 + [0], video_grids=[(4, 2, 2)], **seconds)
    assert positions[0].tolist() == [0, 2, 4, 6, 7]
    # 24 frames a second, two to a grid, 25 positions a second: 25/12 a grid.
    seconds = {"tokens_per_second": 25, "seconds_per_grid": [2 / 24]}
    positions = mrope_positions([2] * 13, video_grids=[(13, 2, 2)], **seconds)
    assert positions[0].tolist() == [25 * k // 12 for k in range(13)]
    # 0.7 as a double is below 0.7, and ten times that is below 7.
    seconds = {"tokens_per_second": 1, "seconds_per_grid": [0.7]}
    positions = mrope_positions([2] * 11, video_grids=[(11, 2, 2)], **seconds)
    assert positions[0].tolist() == [7 * k // 10 for k in range(11)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mrope_positions([0, 4]), ValueError, r"0 \(text\), 1 \(image\).*got 4"),
        (lambda: mrope_positions([0.0]), TypeError, "token_types must be integers"),
        (lambda: mrope_positions([[[0]]]), ValueError, r"shape \(S,\) or \(B, S\)"),
        (lambda: mrope_positions([0, 1]), ValueError, "a grid for every image: none left in row 0"),
        (
            lambda: mrope_positions([0, 1, 0], image_grids=[(1, 4, 2)]),
            ValueError,
            r"must have 2 tokens for the image of merged grid \(1, 2, 1\), got 1 in row 0",
        ),
        (
            lambda: mrope_positions([0], video_grids=[(1, 2, 2)]),
            ValueError,
            "video_grids must have one grid for each video in token_types, got 1 too many",
        ),
        (
            lambda: mrope_positions([1], image_grids=[(1, 3, 2)]),
            ValueError,
            r"divisible by the merge sizes \(1, 2, 2\) on every axis, got \(1, 3, 2\)",
        ),
        (
            lambda: mrope_positions([1], image_grids=[(2, 2)]),
            ValueError,
            r"must hold \(frames, height, width\)",
        ),
        (lambda: mrope_positions([0], text_after="min"), ValueError, "text_after must be one of"),
        (lambda: mrope_positions([0], split_frames=1), TypeError, "split_frames must be True"),
        (
            lambda: mrope_positions([0], attention_mask=[[1]]),
            ValueError,
            r"attention_mask must be zeros and ones of shape \(1,\), got shape \(1, 1\) with",
        ),
        (
            lambda: mrope_positions([0], tokens_per_second=2),
            ValueError,
            "tokens_per_second needs seconds_per_grid",
        ),
        (
            lambda: mrope_positions([0], seconds_per_grid=[1.0]),
            ValueError,
            "needs tokens_per_second",
        ),
        (
            lambda: mrope_positions([0], seconds_per_grid=[1.0], tokens_per_second=2),
            ValueError,
            "one number for each of the 0 videos",
        ),
        (
            lambda: mrope_positions(
                [2], video_grids=[(1, 2, 2)], seconds_per_grid=[-1], tokens_per_second=2
            ),
            ValueError,
            "seconds_per_grid must be at least 0",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- the models of transformers, side by side ----------------------------------------------------


torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
pytest.importorskip("transformers", reason="transformers is what is compared with")


def owner(model):
    """The class of `model` that constructs positions."""
    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    return next(
        cls
        for cls in vars(module).values()
        if isinstance(cls, type)
        and "get_rope_index" in vars(cls)
        and cls.__module__ == module.__name__
    )


TOGETHER = ["qwen2_vl", "qwen2_5_vl", "paddleocr_vl", "ernie4_5_vl_moe"]
SPLIT = ["qwen3_vl", "qwen3_5", "glm4v", "glm4v_moe"]
OWNERS = {model: owner(model) for model in TOGETHER + SPLIT}


def their_positions(model, types, mask, images, videos, **more):
    """`get_rope_index` of a model, called on a stand-in: it reads the configuration only."""
    vision = SimpleNamespace(spatial_merge_size=MERGE, temporal_merge_size=2, tokens_per_second=2)
    stand_in = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    stand_in.get_vision_position_ids = OWNERS[model].get_vision_position_ids.__get__(stand_in)
    positions, deltas = OWNERS[model].get_rope_index(
        stand_in,
        input_ids=torch.zeros(types.shape, dtype=torch.long),
        mm_token_type_ids=torch.tensor(types),
        image_grid_thw=torch.tensor(images) if images else None,
        video_grid_thw=torch.tensor(videos) if videos else None,
        attention_mask=torch.tensor(mask),
        **more,
    )
    return positions.numpy(), deltas.numpy()


@pytest.mark.parametrize("model", ["qwen2_vl", "paddleocr_vl"])
@given(rows=BATCH, tail=st.integers(1, 3), side=st.sampled_from(["left", "right"]))
def test_qwen2_vl(model, rows, tail, side):
    types, images, videos = layout(rows, tail)
    types, mask = pad(types, side)
    theirs, deltas = their_positions(model, types, mask, images, videos)
    mine = mrope_positions(
        types,
        image_grids=images,
        video_grids=videos,
        attention_mask=mask,
        text_after="extent",
    )
    assert (mine == theirs).all()
    # They decode on from the largest position, whichever rule placed the text before.
    assert (mine.max(axis=(0, 2)) + 1 == deltas[:, 0] + mask.sum(axis=1)).all()


@given(
    rows=BATCH,
    tail=st.integers(1, 3),
    side=st.sampled_from(["left", "right"]),
    seconds=st.lists(st.floats(0, 4), min_size=12, max_size=12),
    tensor=st.booleans(),
)
def test_qwen2_5_vl(rows, tail, side, seconds, tensor):
    types, images, videos = layout(rows, tail)
    types, mask = pad(types, side)
    seconds = np.array(seconds[: len(videos)], np.float32)
    given_seconds = torch.tensor(seconds) if tensor else seconds.tolist()
    theirs, _ = their_positions(
        "qwen2_5_vl", types, mask, images, videos, second_per_grid_ts=given_seconds
    )
    mine = mrope_positions(
        types,
        image_grids=images,
        video_grids=videos,
        attention_mask=mask,
        seconds_per_grid=seconds,
        tokens_per_second=2,
        text_after="extent",
    )
    assert (mine == theirs).all()


@pytest.mark.parametrize("model", SPLIT)
@given(
    rows=BATCH,
    tail=st.integers(1, 3),
    side=st.sampled_from(["left", "right"]),
    text_after=st.sampled_from(["max", "extent"]),
)
def test_models_that_split_frames(model, rows, tail, side, text_after):
    types, images, videos = layout(rows, tail, split=True)
    types, mask = pad(types, side)
    theirs, _ = their_positions(model, types, mask, images, videos)
    mine = mrope_positions(
        types,
        image_grids=images,
        video_grids=videos,
        attention_mask=mask,
        split_frames=True,
        text_after=text_after,  # one frame at a time, the two are the same
    )
    assert (mine == theirs).all()


@given(rows=BATCH, tail=st.integers(1, 3), side=st.sampled_from(["left", "right"]))
def test_ernie_4_5_vl(rows, tail, side):
    types, images, videos = layout(rows, tail, time=2)
    types, mask = pad(types, side)
    theirs, _ = their_positions("ernie4_5_vl_moe", types, mask, images, videos)
    mine = mrope_positions(
        types,
        image_grids=images,
        video_grids=videos,
        attention_mask=mask,
        temporal_merge_size=2,
        text_after="extent",
    )
    assert (mine == theirs).all()


@pytest.mark.parametrize("model", TOGETHER)
def test_text_after_a_long_video_overlaps_it_in_transformers(model):
    """Their own example, 3 x 2 x 2 and then text: it starts at 2, inside the video, not at 3."""
    frames = 6 if model.startswith("ernie") else 3
    types = np.array([[2] * 12 + [0] * 2])
    theirs, deltas = their_positions(model, types, np.ones_like(types), [], [(frames, 4, 4)])
    assert theirs[:, 0, 12].tolist() == [2, 2, 2]
    assert theirs[0, 0, :12].max() >= 2
    assert deltas[0, 0] + 14 == theirs.max() + 1
