"""Functions that number text, images, videos and audio for M-RoPE."""

from itertools import pairwise

import numpy as np

from tests.mutants._case import correct, wrong

NAME = "mrope_position_ids"
QWEN2 = {"positions": "MRoPEPositions"}
QWEN25 = {**QWEN2, "tokens_per_second": 2.0}
OMNI = {**QWEN2, "tokens_per_second": 25.0, "audio": True, "markers": "shared"}


def spans(row):
    """The runs of tokens of one type, as (type, length)."""
    edges = [0, *(i for i in range(1, len(row)) if row[i] != row[i - 1]), len(row)]
    return [(int(row[a]), b - a) for a, b in pairwise(edges) if b > a]


def grid(t, h, w, *, start, step=1.0):
    """The (t, h, w) of every token of a merged grid."""
    return [
        (start + int(k * step), start + i, start + j)
        for k in range(t)
        for i in range(h)
        for j in range(w)
    ]


def numbered(
    types, images, videos, seconds, mask, n, *, rate=None, merge=2, after=None, place=grid,
    step=None, first=None, text=False,
):  # fmt: skip
    """Token by token; every step may be replaced."""
    b, s = types.shape
    out = np.zeros((3, b, s + n), np.int64)
    queues = {1: [(g, 1.0) for g in images.tolist()],
              2: list(zip(videos.tolist(), np.asarray(seconds).tolist(), strict=True))}  # fmt: skip
    starts = []
    for r in range(b):
        real = np.flatnonzero(mask[r])
        ids, start, seen = [], 0, 0
        for kind, length in spans(types[r][real]):
            if kind == 0:
                ids += [(start + i,) * 3 for i in range(length)]
                start += length
                continue
            (t, h, w), sec = queues[kind].pop(0)
            h, w = h // 2, w // 2
            pace = 1.0 if rate is None or kind == 1 else (step or (lambda x: rate * x))(sec)
            if text and seen:
                part = [(start + i,) * 3 for i in range(length)]
            else:
                part = place(t, h, w, start=start, step=pace)
            seen += 1
            ids += part
            start = (after or (lambda s0, p, *_: max(map(max, p)) + 1))(start, part, h, w, len(ids))
        out[:, r, real] = np.array(ids).reshape(-1, 3).T
        starts.append(max(map(max, ids), default=-1) + 1)
    for r in range(b):
        at = starts[r] if first is None else first(starts, mask, r)
        out[:, r, s:] = at + np.arange(n)
    return out


@correct(surface=NAME, encoding=QWEN2, thread="arXiv:2409.12191, section 2.1")
def mrope_token_by_token(*call):
    """The rule of Qwen2-VL in a loop."""
    return numbered(*call)


@correct(surface=NAME, encoding=QWEN25, thread="arXiv:2502.13923")
def mrope_by_seconds(*call):
    """The rule of Qwen2.5-VL in a loop."""
    return numbered(*call, rate=2.0)


@correct(surface=NAME, encoding=QWEN2, thread="class: prompts padded on the left only")
def mrope_left_padding_only(types, images, videos, seconds, mask, n):
    """Refuses padding on the right."""
    if not mask[:, -1].all():
        raise ValueError("pad on the left")
    return numbered(types, images, videos, seconds, mask, n)


# --- mrope_packed --------------------------------------------------------------------------------


def by_document(types, images, videos, seconds, lengths, *, ends=None):
    """Every document by itself; ``ends`` are others than the documents'."""
    images, videos, seconds = ([*a] for a in (images.tolist(), videos.tolist(), seconds))
    parts, at = [], 0
    for n in [int(n) for n in (lengths if ends is None else ends)]:
        row = np.asarray(types)[None, at : at + n]
        at += n
        count = {kind: sum(k == kind for k, _ in spans(row[0])) for kind in (1, 2)}
        mine = [np.array(a[: count[k]]).reshape(-1, 3) for a, k in ((images, 1), (videos, 2))]
        own = np.array(seconds[: count[2]])
        del images[: count[1]], videos[: count[2]], seconds[: count[2]]
        parts.append(numbered(row, *mine, own, np.ones_like(row), 0)[:, 0])
    return np.concatenate(parts, axis=1)


@correct(surface="mrope_packed", encoding=QWEN2, thread="class: a loop over documents")
def mrope_packed_by_document(*call):
    """Documents are numbered one by one."""
    return by_document(*call)


@wrong("packing", surface="mrope_packed", encoding=QWEN2, thread="class: documents run on")
def mrope_packed_as_one(types, images, videos, seconds, lengths):
    """The whole sequence is one document."""
    return by_document(types, images, videos, seconds, lengths, ends=[len(types)])


@wrong("media-grid", surface="mrope_packed", encoding=QWEN2, thread="NVIDIA-NeMo/Automodel#2172")
def mrope_packed_on_one_axis(types, images, videos, seconds, lengths):
    """Each document is numbered 0, 1, 2, ... on all axes."""
    one = np.concatenate([np.arange(int(n)) for n in lengths])
    return np.tile(one, (3, 1))


# --- mrope_position_ids --------------------------------------------------------------------------


@wrong("media-extent", surface=NAME, encoding=QWEN2, thread="class: transformers 5.23, Qwen2-VL")
def mrope_text_after_the_area(*call):
    """Text after a video starts max(h, w) after its start."""
    return numbered(*call, after=lambda start, part, h, w, n: start + max(h, w))


@wrong("media-extent", surface=NAME, encoding=QWEN25, thread="class: transformers 5.23, Qwen2.5-VL")
def mrope_timed_text_after_the_area(*call):
    """Text after a video starts max(h, w) after its start, however many seconds it has."""
    return numbered(*call, rate=2.0, after=lambda start, part, h, w, n: start + max(h, w))


@wrong("media-extent", surface=NAME, encoding=QWEN2, thread="class: index of the token")
def mrope_text_after_all_tokens(*call):
    """Text after an image goes on at the index of the token."""
    return numbered(*call, after=lambda start, part, h, w, n: start + len(part))


@wrong("media-extent", surface=NAME, encoding=QWEN2, thread="class: + 1 left out")
def mrope_text_at_the_largest(*call):
    """Text after an image has its largest position."""
    return numbered(*call, after=lambda start, part, h, w, n: max(map(max, part)))


@wrong("media-grid", surface=NAME, encoding=QWEN2, thread="ml-explore/mlx-lm#1768")
def mrope_flat(*call):
    """Image tokens are numbered like text."""
    flat = lambda t, h, w, start, step: [(start + i,) * 3 for i in range(t * h * w)]  # noqa: E731
    return numbered(*call, place=flat)


@wrong("media-grid", surface=NAME, encoding=QWEN2, thread="Blaizzy/mlx-vlm#1282")
def mrope_only_the_first_image(*call):
    """Later images of a row are numbered like text."""
    return numbered(*call, text=True)


@wrong("media-grid", surface=NAME, encoding=QWEN2, thread="class: meshgrid with indexing='xy'")
def mrope_column_major(*call):
    """Columns are counted first."""

    def place(t, h, w, start, step):
        return [
            (start + k, start + i, start + j)
            for k in range(t)
            for j in range(w)
            for i in range(h)
        ]  # fmt: skip

    return numbered(*call, place=place)


@wrong("axis-order", surface=NAME, encoding=QWEN2, thread="class: (t, w, h)")
def mrope_width_first(*call):
    """Height and width are exchanged."""
    return numbered(*call)[[0, 2, 1]]


@wrong("merge-size", surface=NAME, encoding=QWEN2, thread="class: spatial_merge_size left out")
def mrope_not_merged(*call):
    """Text after an image is moved by its size in patches."""
    return numbered(*call, after=lambda start, part, h, w, n: start + 2 * max(h, w))


@wrong("position-origin", surface=NAME, encoding=QWEN2, thread="class: grid without its start")
def mrope_image_from_zero(*call):
    """Images start at 0."""

    def place(t, h, w, start, step):
        return grid(t, h, w, start=0, step=step)

    def after(start, part, h, w, n):
        return start + max(map(max, part)) + 1

    made = numbered(*call, place=place, after=after, first=lambda starts, mask, r: 0)
    made[..., call[0].shape[1] :] = numbered(*call)[..., call[0].shape[1] :]
    return made


@wrong("media-time", surface=NAME, encoding=QWEN25, thread="huggingface/transformers#48669")
def mrope_whole_seconds(*call):
    """Seconds are truncated to whole numbers."""
    return numbered(*call, rate=2.0, step=lambda sec: 2.0 * int(sec))


@wrong("media-time", surface=NAME, encoding=QWEN25, thread="huggingface/transformers#45381")
def mrope_start_times_step(*call):
    """The start of the video is multiplied by the step between frames."""

    def place(t, h, w, start, step):
        whole = grid(t, h, w, start=start, step=step)
        return [(a - start + int(start * step), b, c) for a, b, c in whole]

    return numbered(*call, rate=2.0, place=place)


@wrong("media-time", surface=NAME, encoding=QWEN25, thread="class: frames counted")
def mrope_seconds_left_out(*call):
    """Frames are numbered whatever their time."""
    return numbered(*call)


@wrong("padding", surface=NAME, encoding=QWEN2, thread="class: mask not passed")
def mrope_padding_counted(types, images, videos, seconds, mask, n):
    """The attention mask is not used."""
    return numbered(types, images, videos, seconds, np.ones_like(mask), n)


@wrong("row-offset", surface=NAME, encoding=QWEN2, thread="class: ids of row 0 expanded")
def mrope_row_zero_for_all(*call):
    """All rows get the ids of the first."""
    ids = numbered(*call)
    return np.broadcast_to(ids[:, :1], ids.shape).copy()


@wrong("row-offset", surface=NAME, encoding=QWEN2, thread="Blaizzy/mlx-vlm#1095")
def mrope_delta_of_row_zero(*call):
    """A row inherits rope_deltas of another."""

    def first(starts, mask, r):
        return mask[r].sum() + starts[0] - mask[0].sum()

    return numbered(*call, first=first)


@wrong("decode-offset", surface=NAME, encoding=QWEN2, thread="sgl-project/sglang#8219")
def mrope_delta_left_out(*call):
    """Decoding goes on at the number of tokens."""
    return numbered(*call, first=lambda starts, mask, r: mask[r].sum())


@wrong("padding", surface=NAME, encoding=QWEN2, thread="class: delta of the padded length")
def mrope_delta_of_the_padded_length(*call):
    """rope_deltas subtracts the padded length, decoding adds the real one."""
    return numbered(*call, first=lambda starts, mask, r: starts[r] - (mask[r] == 0).sum())
