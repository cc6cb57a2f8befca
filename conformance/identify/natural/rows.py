"""Read results of calls: tokens first, and cos and sin of what may be a rotation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc_ref.accuracy import ROUNDOFF

Parts = tuple[np.ndarray, ...]
#: How far cos**2 + sin**2 of a rotation may be from the same number for all positions.
_SLACK = 64 * ROUNDOFF["bfloat16"]


def tokens_first(array: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Return an array with the axes ``sizes``, or one axis of their product, as (tokens, ...).

    Other axes of 1 are dropped.

    Raises
    ------
    ValueError
        The array has no such axes.
    """
    count = int(np.prod(sizes))
    shape = array.shape
    axis = shape.index(count) if count in shape else None
    flat = (sizes[0], count // sizes[0]) if len(sizes) > 2 else sizes  # frames, and their patches
    for sides in dict.fromkeys((sizes, flat)) if len(sizes) > 1 else ():
        places = [at for at in range(len(shape)) if shape[at : at + len(sides)] == sides]
        if places:
            axis = places[0]  # even if there are as many columns as tokens
            array = array.reshape((*shape[:axis], count, *shape[axis + len(sides) :]))
            break
    if axis is None:
        raise ValueError(f"expected an axis of {count} tokens, got shape {shape}")
    moved = np.moveaxis(array, axis, 0)
    return moved.reshape((count, *(n for n in moved.shape[1:] if n != 1)))


def tokens_of(parts: Parts, sizes: tuple[int, ...]) -> Parts:
    """Return the arrays of a result as (tokens, ...), without others after them."""
    found = []
    for part in parts:
        try:
            found.append(tokens_first(part, sizes))
        except ValueError:
            if not found:  # some return a scale as well
                raise
    return tuple(found)


def same(found: Parts, again: Parts) -> bool:
    """Return whether a repeated call returned the same arrays."""
    return len(found) == len(again) and all(map(np.array_equal, found, again))


def whole(array: np.ndarray) -> bool:
    """Return whether an array holds whole numbers, such as positions, of any dtype."""
    return array.dtype.kind in "iu" or (
        array.dtype.kind == "f" and np.array_equal(array, np.rint(array))
    )


@dataclass(frozen=True)
class Turn:
    """How cos and sin (tokens, pairs) are read from the arrays of a result."""

    form: str  #: "complex", "matrices", "last axis", "joined", "angles" or "two arrays"
    exchanged: bool  #: whether sin comes first
    #: The layout of repeated columns ("blockwise": of two axes), or "" if no column is repeated.
    layout: str

    def read(self, parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return cos and sin, with one column for each pair."""
        first, second = _pair(self.form, parts)
        cos, sin = (second, first) if self.exchanged else (first, second)
        if not self.layout:
            return cos, sin
        kept = pairs(cos.shape[1] // 2, self.layout)[0]
        return cos[:, kept], sin[:, kept]


def pairs(count: int, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second channel of each pair."""
    k = np.arange(count)
    if layout == "half":
        return k, k + count
    if layout == "interleaved":
        return 2 * k, 2 * k + 1
    first = np.where(k < count // 2, k, k + count // 2)  # two blocks of half-split pairs
    return first, first + count // 2


def turns(parts: tuple[np.ndarray, ...]) -> Turn | None:
    """Return how the arrays (tokens, ...) hold cos and sin, or None if they hold none."""
    for form in _forms(parts):
        a, b = _pair(form, parts)
        if a.shape != b.shape or a.ndim != 2 or not np.isfinite(a).all() or len(a) < 3:
            continue
        size = a**2 + b**2
        if np.abs(size - size.mean()).max() > _SLACK * size.mean() or not size.mean() > 0:
            continue
        # Slow pairs, which barely turn, have the larger cosine.
        return Turn(form, bool(np.abs(b).mean() > np.abs(a).mean()), _layout(a, b))
    return None


def _forms(parts: tuple[np.ndarray, ...]) -> list[str]:
    one = parts[0]
    if len(parts) == 2:
        return ["two arrays"]
    if len(parts) > 2:
        return []
    if one.dtype.kind == "c":
        return ["complex"]
    if one.ndim == 4 and one.shape[-2:] == (2, 2):
        return ["matrices"]
    if one.ndim == 3 and one.shape[-1] == 2:
        return ["last axis"]
    if one.ndim != 2 or one.dtype.kind != "f":
        return []
    return [*(["joined"] if one.shape[1] % 2 == 0 else []), *(["angles"] if _zero(one) else [])]


def _zero(table: np.ndarray) -> bool:
    """Return whether the first row is 0, and no other is: those of angles from position 0.

    Whole numbers in all columns are positions.
    """
    other = not table[0].any() and bool(table[1:].any(axis=1).all())
    return other and not whole(table)


def _pair(form: str, parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    one = parts[0]
    if form == "two arrays":
        return one, parts[1]
    if form == "complex":
        return one.real, one.imag
    if form == "matrices":
        return one[..., 0, 0], one[..., 1, 0]
    if form == "last axis":
        return one[..., 0], one[..., 1]
    if form == "angles":
        return np.cos(one), np.sin(one)
    half = one.shape[1] // 2
    return one[:, :half], one[:, half:]


def _layout(cos: np.ndarray, sin: np.ndarray) -> str:
    n = cos.shape[1]
    if n % 2:
        return ""
    both = np.concatenate([cos, sin])
    for layout in ("half", "interleaved", *(["blockwise"] if n % 4 == 0 else [])):
        first, second = pairs(n // 2, layout)
        if np.array_equal(both[:, first], both[:, second]):
            return layout
    return ""


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, layout: str) -> np.ndarray:
    """Rotate x (B, H, S, D) by cos and sin (B, S, pairs); further channels are kept."""
    cos, sin = cos[:, None], sin[:, None]
    y = np.array(x, dtype=np.float64)
    first, second = pairs(cos.shape[-1], layout)
    a, b = y[..., first], y[..., second]
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    return y.astype(x.dtype)
