"""`identify` of rotations whose tables have another layout than their pairs."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance import identify


def mixed(encoding):
    """Rotate the pairs of `encoding` by a table that repeats the angles as the other layout does.

    ERNIE-Image in diffusers: `torch.stack([emb, emb], dim=-1)`, then `x.chunk(2, dim=-1)`.
    """
    axes = encoding.axes()
    half = encoding.layout == "half"

    def apply(x, positions):
        at = np.asarray(positions, np.float64)
        each = at[..., None] if axes is None else np.moveaxis(at, 0, -1)[..., axes]
        angle = each * encoding.frequencies()  # (S, n) or (B, S, n)
        twice = np.repeat(angle, 2, -1) if half else np.concatenate([angle, angle], -1)
        if twice.ndim == 3:
            twice = twice[:, None]
        cos, sin = np.cos(twice), np.sin(twice)
        if half:
            first, last = np.split(x, 2, axis=-1)
            turned = np.concatenate([-last, first], -1)
        else:
            turned = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return (x * cos + turned * sin).astype(x.dtype)

    return apply


@pytest.mark.parametrize(
    ("encoding", "table"),
    [
        (
            MultiAxisRoPE(32, sections=(4, 6, 6), layout="half", spacing="restart", base=256.0),
            "interleaved",
        ),
        (RoPE(32, layout="half", base=256.0), "interleaved"),
        (RoPE(32, layout="interleaved", base=500000.0), "half"),
    ],
    ids=["ernie-image", "half", "interleaved"],
)
def test_a_table_with_another_layout_is_named(encoding, table):
    """Any base, and any number of axes: the two channels of a pair turn by different angles."""
    card = identify(
        mixed(encoding), "apply", head_dim=32, axes=max(len(getattr(encoding, "sections", "1")), 1)
    )
    assert card.encoding == encoding, card
    assert [f.code for f in card.deviations] == ["mixed-layout"]
    assert card.facts["tables"] == f"each angle is repeated as for {table} pairs"


def test_two_tables_are_no_mixed_layout():
    """Channels whose angles do not occur twice: the card must not say that they do."""
    one, other = RoPE(16, layout="half"), RoPE(16, layout="half", base=77.0)

    def apply(x, positions):
        at = np.asarray(positions, np.float64)[..., None]
        angle = np.concatenate([at * one.frequencies(), at * other.frequencies()], -1)
        if angle.ndim == 3:
            angle = angle[:, None]
        first, last = np.split(x, 2, axis=-1)
        turned = np.concatenate([-last, first], -1)
        return (x * np.cos(angle) + turned * np.sin(angle)).astype(x.dtype)

    card = identify(apply, "apply", head_dim=16)
    assert "tables" not in card.facts
    assert not card.exact
