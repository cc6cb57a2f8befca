"""Both of two mistakes that a rotation makes at once are named, and together predict all calls."""

import numpy as np
import pytest

from posenc_ref import LinearScaling, RoPE
from posenc_ref.conformance import check

HALF = RoPE(16, layout="half")
LAYOUT, SIGN, BASE = (
    HALF.replace(layout="interleaved"), HALF.replace(sign=-1), HALF.replace(base=500000.0),
)  # fmt: skip
LINEAR = HALF.replace(scaling=LinearScaling(4.0))
INTERLEAVED, BACKWARDS = "pairs are interleaved", "the rotation turns the other way"
OTHER_BASE, OF_ROW_0 = "the base is 500000", "the position of the same token of row 0"


def of_row_0(p, x):
    return np.broadcast_to(p[:1], p.shape) if p.ndim > 1 else p


def of_single_tokens(p, x):
    return of_row_0(p, x) if p.shape[-1] == 1 else p


def index(p, x):
    return np.arange(x.shape[2])


def halved(p, x):
    return p // 2


def from_the_first(p, x):
    return p[..., :1] + np.arange(x.shape[2])


def turned(encoding, used):
    """Return a function that rotates by ``encoding`` at the positions ``used`` of the declared."""
    return lambda x, p: encoding.apply(x, used(np.asarray(p), x)).astype(np.float32)


def per_head(x, p):
    heads = [LAYOUT.apply(x[:, [h]], np.asarray(p) + h) for h in range(x.shape[1])]
    return np.concatenate(heads, axis=1).astype(np.float32)


def first_head_alone(x, p):
    y = BASE.apply(x, p).astype(np.float32)
    y[:, 1:] = x[:, 1:]
    return y


def later(p, x):
    return p + 1


def exchanged(encoding, shift=0):
    """Return a function with sin in place of cos, and cos in place of sin."""

    def fn(x, p):
        sin, cos = encoding.cos_sin(np.asarray(p) + shift)
        (a, b), y = encoding.pairs(), np.array(x)
        cos, sin = (t[:, None] if t.ndim == 3 else t for t in (cos, sin))
        y[..., a], y[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., b] * cos + x[..., a] * sin
        return y.astype(np.float32)

    return fn


def overwritten(encoding, used=lambda p, x: p):
    """Return a function that computes the second channel from the first one's result."""

    def fn(x, p):
        (a, b), y = encoding.pairs(), np.array(x)
        cos, sin = encoding.cos_sin(used(np.asarray(p), x))
        cos, sin = (t[:, None] if t.ndim == 3 else t for t in (cos, sin))
        y[..., a] = x[..., a] * cos - x[..., b] * sin
        y[..., b] = x[..., b] * cos + y[..., a] * sin
        return y.astype(np.float32)

    return fn


def but_the_last_pair(encoding, used=lambda p, x: p):
    def fn(x, p):
        y = encoding.apply(x, used(np.asarray(p), x)).astype(np.float32)
        y[..., [7, 15]] = x[..., [7, 15]]
        return y

    return fn


def half(what, encoding=BASE, used=lambda p, x: p, *, sign=1, size=1):
    """Return a function that keeps ``what`` in float16."""

    def kept(name, values):
        return values.astype(np.float16).astype(np.float64) if name == what else values

    def fn(x, p):
        w = kept("frequencies", encoding.frequencies())
        angle = kept("angles", used(np.asarray(p), x)[..., None] * w)
        angle = angle[:, None] if angle.ndim == 3 else angle
        cos, sin = (size * kept("tables", f(angle)) for f in (np.cos, np.sin))
        sin = sign * sin
        (a, b), y = encoding.pairs(), np.array(x)
        y[..., a], y[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., b] * cos + x[..., a] * sin
        return y.astype(np.float32)

    return fn


def negated(x, p):
    return -HALF.apply(x, np.asarray(p) + 1).astype(np.float32)


PARTIAL = RoPE(16, layout="half", rotary_dim=8)
TAIL = PARTIAL.replace(rotary_start=8, base=500000.0)
OVERWRITTEN, EXCHANGED = "the first one's result", "sin and cos are exchanged"
LATER, NOT_LAST = "the angles of position 1", "14 channels are rotated"
CASES = {
    "base-row-0": (turned(BASE, of_row_0), HALF, (OTHER_BASE, OF_ROW_0)),
    "layout-row-0": (turned(LAYOUT, of_row_0), HALF, (INTERLEAVED, OF_ROW_0)),
    "sign-row-0": (turned(SIGN, of_row_0), HALF, (BACKWARDS, OF_ROW_0)),
    "scaling-row-0": (turned(HALF, of_row_0), LINEAR, ("scaling by 4 is missing", OF_ROW_0)),
    "base-one-token": (turned(BASE, of_single_tokens), HALF, (OTHER_BASE, OF_ROW_0)),
    "base-index": (turned(BASE, index), HALF, (OTHER_BASE, "the index in the call")),
    "sign-index": (turned(SIGN, index), HALF, (BACKWARDS, "is the index in the call")),
    "sign-halved": (turned(SIGN, halved), HALF, (BACKWARDS, "the declared position // 2")),
    "layout-first": (
        turned(LAYOUT, from_the_first), HALF, (INTERLEAVED, "the first position of the row"),
    ),
    "layout-heads": (per_head, HALF, (INTERLEAVED, "the declared position + the head")),
    "exchanged-base": (exchanged(BASE), HALF, (EXCHANGED, OTHER_BASE)),
    "exchanged-origin": (exchanged(HALF, 1), HALF, (EXCHANGED, LATER)),
    "negated-origin": (negated, HALF, ("multiplied by -1", LATER)),
    "slice-base": (turned(TAIL, lambda p, x: p), PARTIAL, ("8..15", OTHER_BASE)),
    "slice-layout": (
        turned(PARTIAL.replace(rotary_dim=6, layout="interleaved"), lambda p, x: p),
        PARTIAL, ("6 channels are rotated", INTERLEAVED),
    ),
    "last-pair-base": (but_the_last_pair(BASE), HALF, (NOT_LAST, OTHER_BASE)),
    "last-pair-origin": (but_the_last_pair(HALF, later), HALF, (NOT_LAST, LATER)),
    "map-base": (overwritten(BASE), HALF, (OVERWRITTEN, OTHER_BASE)),
    "map-layout": (overwritten(LAYOUT), HALF, (OVERWRITTEN, INTERLEAVED)),
    "map-row-0": (overwritten(HALF, of_row_0), HALF, (OVERWRITTEN, OF_ROW_0)),
    "base-half-frequencies": (half("frequencies"), HALF, (OTHER_BASE, "float16")),
    "base-half-angles": (half("angles"), HALF, (OTHER_BASE, "angles in float16")),
    "base-half-tables": (half("tables"), HALF, (OTHER_BASE, "tables in float16")),
    "sign-half-tables": (half("tables", SIGN, sign=-1), HALF, (BACKWARDS, "tables in float16")),
    "negated-half-angles": (
        half("angles", HALF, size=-1), HALF, ("multiplied by -1", "angles in float16"),
    ),
    "half-angles-wrapped": (
        half("angles", HALF, lambda p, x: p % 32), HALF, ("angles in float16", "modulo 32"),
    ),
    "half-angles-clamped": (
        half("angles", HALF, lambda p, x: np.minimum(p, 50)), HALF,
        ("angles in float16", "clamped to at most 50"),
    ),
    "half-angles-row-0": (half("angles", HALF, of_row_0), HALF, ("angles in float16", OF_ROW_0)),
    "half-angles-origin": (half("angles", HALF, later), HALF, ("angles in float16", LATER)),
    "half-tables-row-0": (half("tables", HALF, of_row_0), HALF, ("tables in float16", OF_ROW_0)),
    "base-heads": (first_head_alone, HALF, (OTHER_BASE, "only in heads from 1 on")),
}  # fmt: skip


@pytest.mark.parametrize(("fn", "encoding", "words"), CASES.values(), ids=CASES)
def test_both_are_named(fn, encoding, words):
    found = [f.message for f in check(fn, encoding, "apply").findings]
    assert len(found) == len(words), found
    assert all(text in message for text, message in zip(words, found, strict=True)), found


def test_what_no_second_mistake_explains_is_called_a_part():
    def fn(x, p):  # every row but the first is rotated to a position that no rule gives
        p = np.asarray(p)
        p = (p + (p * p % 7) * (np.arange(len(p)) > 0)[:, None]) if p.ndim > 1 else p
        return BASE.apply(x, p).astype(np.float32)

    first = check(fn, HALF, "apply").findings[0].message
    assert first.startswith("consistent with a part of the results: the base is 500000"), first


@pytest.mark.parametrize(
    ("encoding", "words"), [(HALF, ()), (BASE, (OTHER_BASE,))], ids=["alone", "base"]
)
def test_a_table_that_begins_below_0_is_read_in_a_ring(encoding, words):
    kept = np.arange(-8, 66)
    found = check(turned(encoding, lambda p, x: kept[(p + 8) % 74]), HALF, "apply").findings
    messages = [f.message for f in found]
    assert messages[-1].endswith("is the declared position, wrapped round into -8 .. 65")
    assert all(text in message for text, message in zip(words, messages, strict=False)), messages
    assert len(messages) == len(words) + 1
