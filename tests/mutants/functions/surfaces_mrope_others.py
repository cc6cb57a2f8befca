"""Functions that number images by XD-RoPE, on a canvas, or as they are generated."""

import numpy as np

from tests.mutants._case import correct, wrong
from tests.mutants.functions.surfaces_mrope import spans

NAME = "mrope_position_ids"
XD = {"positions": "XDRoPEPositions"}
CANVAS = {"positions": "CanvasPositions"}
DRAWN = {"positions": "ImageGenerationPositions"}


# --- XD-RoPE -------------------------------------------------------------------------------------


def xd(types, images, videos, seconds, mask, n, *, end=1, at=0, run_on=False, shrink=False):
    """Token by token; an image has two borders, and ``end`` tokens after each row of its grid."""
    out = np.zeros((4, *types.shape[:1], types.shape[1] + n), np.int64)
    grids, image = [(h // 2, w // 2) for _, h, w in images.tolist()], 0
    for b, row in enumerate(types):
        real, ids, number = np.flatnonzero(mask[b]), [], 0
        image = image if run_on else 0
        for kind, length in spans(row[real]):
            first = number
            for k in range(length):
                one = [number] * 4
                if kind and 0 < k < length - 1:
                    h, w = divmod(k - 1, grids[0][1] + end)
                    one[1:] = [w + at * first, h + at * first, image]
                ids.append(one)
                number += 1
            if kind:
                h, w = grids.pop(0)
                image += 1
                number = first + max(h, w) if shrink else number
        out[:, b, real] = np.array(ids).T
        out[:, b, types.shape[1] :] = number + np.arange(n)
    return out


@correct(surface=NAME, encoding=XD, thread="arXiv:2511.19575")
def xd_token_by_token(*call):
    """The rule of HunYuan-VL in a loop."""
    return xd(*call)


@wrong("media-grid", surface=NAME, encoding=XD, thread="class: the token that ends a row")
def xd_without_row_ends(*call):
    """Rows of a grid have width tokens."""
    return xd(*call, end=0)


@wrong("position-origin", surface=NAME, encoding=XD, thread="class: M-RoPE's start of an image")
def xd_images_start_where_they_occur(*call):
    """Rows and columns are counted from the start of the image."""
    return xd(*call, at=1)


@wrong("row-offset", surface=NAME, encoding=XD, thread="class: transformers 5.23, HunYuan-VL")
def xd_images_of_the_batch(*call):
    """Images are counted through the batch."""
    return xd(*call, run_on=True)


@wrong("media-extent", surface=NAME, encoding=XD, thread="class: M-RoPE's text after an image")
def xd_text_after_the_size(*call):
    """Text goes on after max(height, width) of an image."""
    return xd(*call, shrink=True)


# --- a canvas ------------------------------------------------------------------------------------


def pictures(row, grids):
    """The row in parts: a number of text tokens, "newline", or the crops of one picture.

    A crop is (whether it is a slice, newlines before it, height, width).
    """
    parts, at = [], 0
    while at < len(row):
        if row[at] in (4, 5) and row[at + 1] in (1, 2):
            h, w = grids[row[at + 1]].pop(0)
            if row[at] == 5:
                parts.append([])
            newlines = 0
            while parts[-1] == "newline":
                parts.pop()
                newlines += 1
            parts[-1].append((row[at] == 4, newlines, h, w))
            at += h * w + 2
        else:
            parts.append("newline" if row[at] == 6 else "text")
            at += 1
    return parts


def canvas(types, images, videos, seconds, mask, n, *, newline="text", spread=True, slots=True,
           corner=1, extra=1):  # fmt: skip
    """Part by part; ``corner`` moves the end marker, ``extra`` what follows."""
    out = np.zeros((3, types.shape[0], types.shape[1] + n), np.int64)
    grids = {1: [(h // 4, w // 4) for _, h, w in images.tolist()],
             2: [(h // 4, w // 4) for _, h, w in videos.tolist()]}  # fmt: skip
    for b, row in enumerate(types):
        real, ids, c, before, gap = np.flatnonzero(mask[b]), [], 0, None, 0
        for part in pictures(row[real].tolist(), grids):
            if isinstance(part, str):
                gap = gap + 1 if part == "newline" and before is not None else 0
                before = before if part == "newline" else None
                if gap and newline == "inside":
                    ids.append((before,) * 3)
                    continue
                ids.append((c,) * 3)
                c += 1
                continue
            c += bool(gap) and newline == "text"
            one, height, width = drawn(part, c, spread, slots, corner)
            ids += one
            before, gap, c = c, 0, c + max(height, width) + extra
        out[:, b, real] = np.array(ids).T
        out[:, b, types.shape[1] :] = 1 + max(map(max, ids)) + np.arange(n)
    return out


def drawn(crops, c, spread, slots, corner):
    """The positions of a picture at c, and its canvas."""
    (_, _, h, w), slices = crops[0], crops[1:]
    columns = next((k for k, s in enumerate(slices) if s[1]), len(slices))
    columns = len(slices) if columns and len(slices) % columns else columns
    sh, sw = slices[0][2:] if slices else (h, w)
    height, width = (len(slices) // columns * sh, columns * sw) if slices else (h, w)

    def far(k, count, size):
        return round(k * (size - 1) / (count - 1)) if spread and count > 1 else k

    ids = [(c, max(c - 1, 0), max(c - 1, 0))]
    ids += [(c, c + far(i, h, height), c + far(j, w, width)) for i in range(h) for j in range(w)]
    ids.append((c, c + height - 1 + corner, c + width - 1 + corner))
    for k, (_, newlines, h, w) in enumerate(slices):
        y, x = (c + k // columns * sh, c + k % columns * sw) if slots else (c, c)
        ids += [(c, c + (k - 1) // columns * sh + sh - 1, c + width)] * newlines
        ids.append((c, y, x))
        ids += [(c, y + i, x + j) for i in range(h) for j in range(w)]
        ids.append((c, y + h - 1, x + w - 1))
    return ids, height, width


@correct(surface=NAME, encoding=CANVAS, thread="class: MiniCPM-V 4.7")
def canvas_part_by_part(*call):
    """The rule of MiniCPM-V 4.7."""
    return canvas(*call)


@wrong("media-extent", surface=NAME, encoding=CANVAS, thread="class: transformers 5.23")
def canvas_newlines_inside(*call):
    """Newlines after an image have its start."""
    return canvas(*call, newline="inside")


@wrong("media-grid", surface=NAME, encoding=CANVAS, thread="class: thumbnail not stretched")
def canvas_small_thumbnail(*call):
    """The thumbnail keeps its own rows and columns."""
    return canvas(*call, spread=False)


@wrong("media-grid", surface=NAME, encoding=CANVAS, thread="class: offsets of slices left out")
def canvas_slices_on_top(*call):
    """All slices start at the canvas's start."""
    return canvas(*call, slots=False)


@wrong("media-grid", surface=NAME, encoding=CANVAS, thread="class: the far corner")
def canvas_end_marker_inside(*call):
    """The marker that ends an image has its last row and column."""
    return canvas(*call, corner=0)


@wrong("media-extent", surface=NAME, encoding=CANVAS, thread="class: the + 1 left out")
def canvas_text_on_the_corner(*call):
    """Text after an image starts at c + max(rows, columns)."""
    return canvas(*call, extra=0)


# --- generated images ----------------------------------------------------------------------------


def generated(types, images, videos, seconds, mask, n, *, order=-1, text=False, first=False,
              end=1):  # fmt: skip
    """Prompts, then the images to come in ``order``."""
    out = np.zeros((3, types.shape[0], types.shape[1] + n), np.int64)
    grids = images[:, 1:].tolist()
    rows = [spans(row[mask[b] == 1]) for b, row in enumerate(types)]
    each = (len(grids) - sum(kind == 1 for row in rows for kind, _ in row)) // len(rows)
    queue, drawings = list(grids), []
    for b, row in enumerate(rows):
        ids, c = [], 0
        for kind, length in row:
            if kind == 0:
                ids += [(c + k,) * 3 for k in range(length)]
                c += length
            else:
                h, w = queue.pop(0)
                ids += [(c, c + i, c + j) for i in range(h) for j in range(w)]
                c += max(h, w)
        out[:, b, np.flatnonzero(mask[b])] = np.array(ids).T
        drawings.append([queue.pop(0) for _ in range(each)])
        made = []
        for h, w in (drawings[0] if first else drawings[b])[::order]:
            made += [(c, c + i, c + j) for i in range(h) for j in range(w)]
            c += max(h, w)
        tail = [(c - 1 + end,) * 3] * n if made else [(c + k,) * 3 for k in range(n)]
        if text:
            made, tail = [], [(1 + max(map(max, ids)) + k,) * 3 for k in range(n)]
        out[:, b, types.shape[1] :] = np.array([*made, *tail][:n]).reshape(-1, 3).T
    return out


@correct(surface=NAME, encoding=DRAWN, thread="class: GLM-Image")
def generated_image_by_image(*call):
    """The rule of GLM-Image in a loop."""
    return generated(*call)


@wrong("media-grid", surface=NAME, encoding=DRAWN, thread="class: the small preview comes first")
def generated_in_order_of_grids(*call):
    """The first grid to come is drawn first."""
    return generated(*call, order=1)


@wrong("decode-offset", surface=NAME, encoding=DRAWN, thread="huggingface/transformers#43342")
def generated_like_text(*call):
    """Generated tokens are counted on."""
    return generated(*call, text=True)


@wrong("row-offset", surface=NAME, encoding=DRAWN, thread="huggingface/transformers#43342")
def generated_from_the_first_row(*call):
    """Every row draws the images of the first."""
    return generated(*call, first=True)


@wrong("media-extent", surface=NAME, encoding=DRAWN, thread="class: the + 1 left out")
def generated_end_marker_early(*call):
    """The end marker is one position early."""
    return generated(*call, end=0)
