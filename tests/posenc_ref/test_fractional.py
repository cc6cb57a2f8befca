"""``MixedRoPE.fractional``: the formula in 50 digits, and the modules of diffusers."""

import math

import numpy as np
import pytest

from posenc_ref import MixedRoPE, from_config, from_dict
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp


@pytest.mark.parametrize(("dim", "axes", "base"), [(2048, 3, 1e4), (64, 1, 100.0), (8, 3, 1e4)])
def test_frequencies_ascend_from_a_quarter_turn(dim, axes, base):
    """(pi/2) theta ** (i / (n - 1)), one axis after another, each correctly rounded."""
    form = MixedRoPE.fractional(dim, axes=axes, base=base)
    n = dim // (2 * axes)
    with mp.workdps(DIGITS):
        rising = [float(mp.pi / 2 * mp.power(base, mp.mpf(i) / max(n - 1, 1))) for i in range(n)]
    assert form.rotary_start == dim % (2 * axes)
    assert form.weight.shape == (axes, n * axes)
    for j in range(n * axes):
        assert form.weight[j % axes, j] == rising[j // axes]
        assert np.count_nonzero(form.weight[:, j]) == 1
    assert form.weight.max() == rising[-1]
    assert from_dict(form.to_dict()) == form


def test_heads_share_the_pairs_of_the_whole_vector():
    """The two pairs that do not turn are the first ones of head 0."""
    form, whole = MixedRoPE.fractional(64, num_heads=4), MixedRoPE.fractional(64)
    assert (form.head_dim, form.heads, form.weight.shape) == (16, 4, (4, 3, 8))
    flat = form.weight.swapaxes(0, 1).reshape(3, 32)
    assert (flat[:, :2] == 0).all()
    assert np.array_equal(flat[:, 2:], whole.weight)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: MixedRoPE.fractional(4), "dim must be even and at least 2 axes = 6, got 4"),
        (lambda: MixedRoPE.fractional(65), "dim must be even"),
        (lambda: MixedRoPE.fractional(64, num_heads=3), "num_heads must divide dim / 2 = 32"),
        (lambda: MixedRoPE.fractional(64, axes=0), "axes must be at least 1"),
        (lambda: MixedRoPE(8, np.ones((2, 3)), layout="half", rotary_start=3), "at most head_dim"),
    ],
)
def test_errors(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


#: The extents of LTX-Video in seconds and pixels.
EXTENTS = (20.0, 2048.0, 2048.0)


def judged(apply, form, **settings):
    """Judge ``apply(x, coordinates)``, whose coordinates run from 0 to the extents."""

    def by_fraction(x, positions):
        import torch

        sizes = torch.tensor(EXTENTS[: form.num_axes])[:, None, None]
        at = positions if form.num_axes > 1 else positions.reshape(1, -1, positions.shape[-1])
        return apply(x, ((at + 1) / 2 * sizes).swapaxes(0, 1).expand(len(x), -1, -1))

    return check(by_fraction, form, "apply", backend="torch", **settings)


@pytest.mark.nightly
@pytest.mark.parametrize("dim", [128, 96])
def test_ltx_video(dim):
    pytest.importorskip("torch", reason="PyTorch runs what is judged")
    pytest.importorskip("diffusers", reason="diffusers is what is judged")
    from diffusers.models.transformers.transformer_ltx import (
        LTXVideoRotaryPosEmbed,
        apply_rotary_emb,
    )

    module = LTXVideoRotaryPosEmbed(dim)

    def apply(x, coordinates):
        rows = x.permute(1, 0, 2, 3)
        tables = module(rows[0], video_coords=coordinates)
        return (
            x.new_tensor([]).new_empty(0)
            if not len(rows)
            else _stack([apply_rotary_emb(row, tables) for row in rows])
        )

    form = MixedRoPE.fractional(dim)
    report = judged(apply, form)
    assert report.passed, str(report)
    late = form.replace(rotary_start=0)
    assert judged(apply, late).passed == (dim == 96)


def _stack(rows):
    import torch

    return torch.stack(rows, dim=1)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["interleaved", "split"])
@pytest.mark.parametrize("axes", [3, 1])
def test_ltx_2(kind, axes):
    pytest.importorskip("torch", reason="PyTorch runs what is judged")
    pytest.importorskip("diffusers", reason="diffusers is what is judged")
    from diffusers.models.transformers.transformer_ltx2 import (
        LTX2AudioVideoRotaryPosEmbed,
        apply_interleaved_rotary_emb,
        apply_split_rotary_emb,
    )

    dim, heads = 128, 4 if kind == "split" else None
    module = LTX2AudioVideoRotaryPosEmbed(
        dim, rope_type=kind, num_attention_heads=4, modality="video" if axes == 3 else "audio"
    )

    def apply(x, coordinates):
        tables = module(coordinates)
        if kind == "split":
            return apply_split_rotary_emb(x, tables)
        return _stack([apply_interleaved_rotary_emb(row, tables) for row in x.unbind(1)])

    report = judged(apply, MixedRoPE.fractional(dim, axes=axes, num_heads=heads))
    assert report.passed, str(report)
    assert math.isfinite(report.accuracy.worst)


def test_configurations_of_ltx():
    """Heads of 64 and of 128 channels, 32 of each; ``split`` pairs channels inside the heads."""
    video = {"_class_name": "LTXVideoTransformer3DModel"}
    two = {"_class_name": "LTX2VideoTransformer3DModel", "pos_embed_max_pos": 30}
    assert from_config(video).only == MixedRoPE.fractional(2048)
    assert from_config(two).only == MixedRoPE.fractional(4096)
    split = from_config({**two, "rope_type": "split", "rope_theta": 500.0}).only
    assert split == MixedRoPE.fractional(4096, num_heads=32, base=500.0)
    with pytest.raises(ValueError, match="rope_type must be 'interleaved' or 'split', got 'other'"):
        from_config({**two, "rope_type": "other"})
