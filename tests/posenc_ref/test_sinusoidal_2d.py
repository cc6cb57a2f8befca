"""Tables over images and videos: 50 digits, then transformers and diffusers; DETR's on masks."""

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import DETRSine, Sinusoidal2D, Sinusoidal3D, from_dict, grid_positions
from posenc_ref.accuracy import budget
from posenc_ref.angles import geometric
from tests.posenc_ref.exact_features import judge, mp, rows, waves

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models

GRIDS = [(3, 5), (5, 3), (1, 4), (14, 14)]


def one_axis(layout, first, sines, cosines):
    one, two = (sines, cosines) if first == "sin" else (cosines, sines)
    if layout == "interleaved":
        return [v for pair in zip(one, two, strict=True) for v in pair]
    return [*one, *two]


def arranged(layout, first, widths):
    """Columns of several axes from the sines and cosines of all of them."""

    def order(sines, cosines):
        ends = np.cumsum([0, *widths])
        cuts = [slice(a, b) for a, b in pairwise(ends)]
        if layout == "grouped":
            return one_axis("concat", first, sines, cosines)
        return [v for c in cuts for v in one_axis(layout, first, sines[c], cosines[c])]

    return order


@given(
    quarter=st.integers(1, 6),
    axis_order=st.sampled_from(["hw", "wh"]),
    layout=st.sampled_from(["concat", "interleaved", "grouped"]),
    first=st.sampled_from(["sin", "cos"]),
    base=st.floats(1.5, 1e6),
    denominator=st.sampled_from(["dim", "half-1", 3.5]),
    offset=st.sampled_from([0, 1, -0.5]),
    position_scale=st.sampled_from([1.0, 0.125, 6.5]),
    scale=st.sampled_from([1.0, -0.25]),
    place=st.tuples(st.integers(-99, 5000), st.floats(-99, 5000)),
)
def test_every_field(quarter, place, **fields):
    if fields["denominator"] == "half-1" and quarter < 2:
        quarter = 2
    encoding = Sinusoidal2D(4 * quarter, **fields)
    n = {"dim": quarter, "half-1": quarter - 1}.get(fields["denominator"], 3.5)
    y, x = place

    def angles():
        w = waves(fields["base"], n, quarter)
        at = [y, x] if fields["axis_order"] == "hw" else [x, y]
        grow, start = mp.mpf(fields["position_scale"]), mp.mpf(fields["offset"])
        yield [grow * (mp.mpf(p) + start) * omega for p in at for omega in w]

    order = arranged(fields["layout"], fields["first"], [quarter, quarter])
    exact = rows(angles, order, fields["scale"])
    assert judge(exact, encoding.table(np.array([[y], [x]])), fields["scale"]) <= 1


@given(
    sections=st.tuples(*[st.integers(1, 5)] * 3),
    axis_order=st.permutations("thw").map("".join),
    layout=st.sampled_from(["concat", "interleaved", "grouped"]),
    place=st.tuples(*[st.integers(0, 3000)] * 3),
)
def test_three_axes(sections, axis_order, layout, place):
    widths = ["thw".index(a) for a in axis_order]
    encoding = Sinusoidal3D([2 * s for s in sections], axis_order=axis_order, layout=layout)

    def angles():
        yield [place[a] * w for a in widths for w in waves(10000.0, sections[a], sections[a])]

    exact = rows(angles, arranged(layout, "sin", [sections[a] for a in widths]))
    assert judge(exact, encoding.table(np.array(place)[:, None])) <= 1


# -- other people's code ---------------------------------------------------------------------


def rt_detr(h, w, dim):
    return models.rt_detr.modeling_rt_detr.build_2d_sinusoidal_position_embedding(h, w, dim)


def omdet(h, w, dim):
    cls = models.omdet_turbo.modeling_omdet_turbo.OmDetTurboHybridEncoder
    return cls.build_2d_sincos_position_embedding(w, h, dim)[0]


def mae(h, w, dim):
    """As released: the columns of the width first; transformers rolls them for its own weights."""
    return rt_detr(h, w, dim).roll(dim // 2, -1)


def moco(h, w, dim):
    """build_2d_sincos_position_embedding of MoCo v3, from the formula, in float32."""
    omega = 10000.0 ** (-torch.arange(dim // 4) / (dim // 4 - 1))
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    ox, oy = (p.flatten()[:, None] * omega for p in (x, y))
    return torch.cat([ox.sin(), ox.cos(), oy.sin(), oy.cos()], dim=1)


def timm(h, w, dim):
    """build_sincos2d_pos_embed of timm: its stack puts the sines of both axes first."""
    bands = 10000.0 ** (-torch.arange(dim // 4) / (dim // 4))
    grid = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij"))
    angle = grid.flatten(1).T[..., None] * bands
    return torch.stack([angle.sin(), angle.cos()], dim=1).flatten(1)


def diffusers(h, w, dim):
    embeddings = pytest.importorskip(
        "diffusers.models.embeddings", reason="diffusers is what is compared with"
    )
    return embeddings.get_2d_sincos_pos_embed(
        dim, (h, w), base_size=16, interpolation_scale=2.0, output_type="pt"
    )


PEERS = {
    "rt-detr": (rt_detr, Sinusoidal2D(32)),
    "mae": (mae, Sinusoidal2D(32, axis_order="wh")),
    "omdet-turbo": (omdet, Sinusoidal2D(32, axis_order="wh", flatten="columns")),
    "moco-v3": (moco, Sinusoidal2D(32, axis_order="wh", denominator="half-1")),
    "timm": (timm, Sinusoidal2D(32, layout="grouped")),
    "diffusers": (diffusers, Sinusoidal2D(32, axis_order="wh", extent=8)),
}


def score(encoding, h, w, table):
    return encoding.truth(encoding.grid_positions(h, w)).score(np.asarray(table)).max()


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("size", GRIDS, ids=str)
def test_grids_of_libraries(name, size):
    """Measured: at most 2.0 units in float32, 0.5 where the table is made in float64."""
    peer, encoding = PEERS[name]
    table = peer(*size, encoding.dim)
    if table.dtype == torch.float64:
        table = table.float()
    assert score(encoding, *size, table) <= budget("float32")
    other = "wh" if encoding.axis_order == "hw" else "hw"
    square = size[0] == size[1]
    for wrong in (
        {"axis_order": other},
        {"layout": "interleaved"},
        {"layout": "concat" if encoding.layout == "grouped" else "grouped"},
        {"denominator": "dim" if encoding.denominator == "half-1" else "half-1"},
        {"first": "cos"},
        {"extent": 16},
    ):
        assert score(encoding.replace(**wrong), *size, table) > budget("float32"), wrong
    if not square and 1 not in size:
        turned = encoding.replace(flatten="rows" if encoding.flatten == "columns" else "columns")
        assert score(turned, *size, table) > budget("float32")


def test_video_of_diffusers():
    """CogVideoX: a quarter for time, then width, then height; its size is (width, height)."""
    embeddings = pytest.importorskip(
        "diffusers.models.embeddings", reason="diffusers is what is compared with"
    )
    table = embeddings.get_3d_sincos_pos_embed(32, (5, 3), 4, output_type="pt")
    encoding = Sinusoidal3D((8, 12, 12), axis_order="twh")
    truth = encoding.truth(grid_positions(3, 5, frames=4))
    got = np.asarray(table.float()).reshape(-1, 32)
    assert truth.score(got).max() <= budget("float32")
    for order in ("thw", "hwt"):
        wrong = encoding.replace(axis_order=order).truth(grid_positions(3, 5, frames=4))
        assert wrong.score(got).max() > budget("float32")


def test_the_row_of_a_cls_token_is_zero_and_not_a_position():
    build = models.rt_detr.modeling_rt_detr.build_2d_sinusoidal_position_embedding
    table = build(2, 3, 16, cls_token=True).numpy()
    assert not table[0].any()
    assert Sinusoidal2D(16).table([[0], [0]]).any()  # the corner is no zero row
    assert (table[1:] == build(2, 3, 16).numpy()).all()


# -- DETR ------------------------------------------------------------------------------------


def masked():
    """Two images, one padded at the right and below."""
    mask = torch.zeros(2, 5, 7, dtype=torch.bool)
    mask[0, :4, :5] = True
    mask[1] = True
    return mask


def detr(module, cls, **settings):
    def make(mask):
        shape = (mask.shape[0], 3, *mask.shape[1:])
        return getattr(module, cls)(16, **settings)(shape, "cpu", torch.float32, mask)

    return make


def grounding(mask):
    config = models.grounding_dino.GroundingDinoConfig(d_model=32)
    cls = models.grounding_dino.modeling_grounding_dino.GroundingDinoSinePositionEmbedding
    return cls(config)(torch.zeros(1), mask)


def dab(mask):
    config = models.dab_detr.DabDetrConfig(hidden_size=32)
    return models.dab_detr.modeling_dab_detr.DabDetrSinePositionEmbedding(config)(
        torch.zeros(1), mask
    )


DETRS = {
    "detr": (
        detr(models.detr.modeling_detr, "DetrSinePositionEmbedding", normalize=True),
        DETRSine(32),
    ),
    "detr, class defaults": (
        detr(models.detr.modeling_detr, "DetrSinePositionEmbedding"),
        DETRSine(32, normalize=False),
    ),
    "deformable": (
        detr(
            models.deformable_detr.modeling_deformable_detr,
            "DeformableDetrSinePositionEmbedding",
            normalize=True,
        ),
        DETRSine(32, shift=-0.5),
    ),
    "mask2former": (
        detr(
            models.mask2former.modeling_mask2former,
            "Mask2FormerSinePositionEmbedding",
            normalize=True,
        ),
        DETRSine(32),
    ),
    "grounding dino": (grounding, DETRSine(32, base=20)),
    "dab-detr": (dab, DETRSine(32, base=20)),
}


@pytest.mark.parametrize("name", DETRS)
def test_detr_on_masks(name):
    """Rows of pixels with a valid one in their row and column; measured 1.7 units at most."""
    peer, encoding = DETRS[name]
    mask = masked()
    table = np.moveaxis(np.asarray(peer(mask)), 1, -1)
    seen = mask.any(1, keepdim=True) & mask.any(2, keepdim=True)

    def worst(declared, given=mask):
        score = declared.truth(declared.positions(given)).score(table)
        return score[seen.numpy()].max()

    assert worst(encoding) <= budget("float32")
    if encoding.normalize:  # else valid pixels do not see the padding
        assert worst(encoding, torch.ones_like(mask)) > budget("float32")
    for wrong in (
        {"axis_order": "wh"},
        {"normalize": not encoding.normalize},
        {"base": 1000},
        {"shift": encoding.shift + 0.5, "normalize": True},
        {"scale": 1.0, "normalize": True},
    ):
        assert worst(encoding.replace(**wrong)) > budget("float32"), wrong


def test_the_last_row_of_detr_has_come_round():
    """scale 2 pi: the last pixel of an image is where a position 0 would be, but for eps."""
    column = DETRSine(16).grid(9, 9)[::9, 0]
    assert np.argmin(np.abs(column)) == 8  # smaller than at any other row
    exact = DETRSine(16, eps=0.0)
    rows_of_last = exact.table(exact.positions(np.ones((2, 3))))[-1]
    assert (rows_of_last[:, 0] == exact.table([[2 * np.pi], [0.0]])[0, 0]).all()


def test_masks_that_mean_something_else_are_refused():
    for wrong in (np.full((2, 2), 3), np.ones(4), [[0.5, 1.0]]):
        with pytest.raises(ValueError, match="mask must hold 1 for valid pixels"):
            DETRSine(8).positions(wrong)
    empty = DETRSine(8, eps=0.0).positions(np.zeros((2, 2)))
    assert not empty.any()


def test_a_lazy_mask_gives_nan():
    """Dask's arrays are not looked at: from the pixel on that means something else."""
    da = pytest.importorskip("dask.array", reason="Dask's arrays are what is tried")
    found = DETRSine(8, normalize=False).positions(da.from_array(np.array([[1, 0], [3, 1]])))
    assert type(found) is da.Array
    assert np.array_equal(np.isnan(found.compute()[0]), [[False, False], [True, False]])


# -- values and errors -----------------------------------------------------------------------

VALUES = [Sinusoidal2D(8), Sinusoidal2D(16, axis_order="wh", extent=2.0, flatten="columns"),
          Sinusoidal3D((4, 2, 6), axis_order="wht"), DETRSine(8, shift=-0.5)]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_json_and_back(value):
    assert from_dict(value.to_dict()) == value
    assert eval(repr(value), {type(value).__name__: type(value)}) == value


def test_positions_have_the_axes_in_front():
    x = np.ones((2, 3, 8), np.float32)
    positions = np.arange(12).reshape(2, 2, 3)
    y = Sinusoidal2D(8).add(x, positions)
    for b in range(2):
        assert (y[b] == (1 + Sinusoidal2D(8).table(positions[:, b])).astype(np.float32)).all()
    assert (Sinusoidal2D(8).add(x, positions[:, 0])[1] == y[0]).all()
    with pytest.raises(ValueError, match=r"positions must have shape \(A, S\).* A = 2 axes"):
        Sinusoidal2D(8).table(range(4))
    with pytest.raises(ValueError, match="1 or 2 axes, Sinusoidal3D has 3"):
        Sinusoidal3D((2, 2, 2)).grid(2, 2)


def test_arguments():
    for make, text in (
        (lambda: Sinusoidal2D(6), "dim must be a multiple of 4"),
        (lambda: Sinusoidal2D(8, axis_order="yx"), "use 'hw', which some libraries call"),
        (lambda: Sinusoidal2D(8, layout="half"), "use 'concat', which some libraries call"),
        (lambda: Sinusoidal2D(4, denominator="half-1"), "half-1"),
        (lambda: Sinusoidal3D((2, 3, 4)), "sections must be even"),
        (lambda: DETRSine(8, scale=0), "scale must be greater than 0"),
    ):
        with pytest.raises(ValueError, match=text):
            make()


def test_decimal_frequencies_are_computed_once():
    """A diagnosis makes the table of an encoding thousands of times."""
    table = Sinusoidal2D(16)
    (_, one), (_, two) = table.parts()
    assert table.parts()[0][1] is one
    assert one.decimal_frequencies() is one.decimal_frequencies()
    assert geometric(10000.0, [Decimal(1)]) is geometric(10000.0, [Decimal(1)])
    one.frequencies()[:] = 0  # a copy
    assert one.frequencies()[0] == two.frequencies()[0] == 1
