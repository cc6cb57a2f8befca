"""Resized tables against PyTorch, Pillow and the models that resize theirs."""

import numpy as np
import pytest

from posenc_ref import resize_matrix, resize_table
from posenc_ref.accuracy import Truth, budget

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models

RNG = np.random.default_rng(3)
SETTINGS = [
    {"mode": "bicubic"},
    {"mode": "bicubic", "antialias": True},
    {"mode": "bicubic", "align_corners": True},
    {"mode": "bilinear"},
    {"mode": "bilinear", "antialias": True},
    {"mode": "bilinear", "align_corners": True},
    {"mode": "nearest"},
]
SIZES = [((14, 14), (7, 20)), ((14, 9), (28, 4)), ((5, 3), (1, 13)), ((4, 4), (4, 4))]


def truth(weight, grid, new_grid, kept=0, **settings):
    """The sum of products in float64, with A and B as the docstring has them."""
    scale = settings.pop("scale", (None, None))
    h, w = (
        resize_matrix(n, m, scale=s, **settings)
        for n, m, s in zip(grid, new_grid, scale, strict=True)
    )
    old = weight[kept:].astype(np.float64).reshape(*grid, -1)

    def mix(a, b, x):
        return np.einsum("ah,bw,hwd->abd", a, b, x).reshape(-1, x.shape[-1])

    reach = mix(h != 0, w != 0, np.abs(old))
    places = [(np.arange(m) + 1) * n / m + 1 for n, m in zip(grid, new_grid, strict=True)]
    angle = reach * np.add.outer(*places).reshape(-1, 1)
    terms = mix(np.abs(h), np.abs(w), np.abs(old))
    first = weight[:kept].astype(np.float64)
    return Truth(
        np.concatenate([first, mix(h, w, old)]),
        np.concatenate([0 * first, terms]),
        np.concatenate([0 * first, angle * (settings["mode"] != "nearest")]),
    )


def interpolated(weight, grid, size=None, scale=None, **settings):
    x = torch.as_tensor(weight).reshape(1, *grid, -1).permute(0, 3, 1, 2)
    y = torch.nn.functional.interpolate(x, size=size, scale_factor=scale, **settings)
    return y.permute(0, 2, 3, 1).reshape(-1, weight.shape[1]).numpy()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("grid", "size"), SIZES, ids=str)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_interpolate_of_torch(settings, grid, size, kind, rng):
    """Measured: at most 1.0 units."""
    weight = rng.standard_normal((grid[0] * grid[1], 3)).astype(kind)
    told = truth(weight, grid, size, **settings)
    peer = interpolated(weight, grid, size, **settings)
    assert told.score(peer).max() <= budget(kind)
    ours = resize_table(weight, grid, size, **settings)
    assert ours.dtype == weight.dtype
    # Sums in float64, rounded once: one unit of float32, a few of float64.
    assert told.score(ours, angles="float64").max() <= (1 if kind == "float32" else budget(kind))
    if grid != size and settings["mode"] == "bicubic":
        for wrong in SETTINGS:
            if wrong != settings and not (wrong == SETTINGS[1] and size == (1, 13)):
                other = truth(weight, grid, size, **wrong).score(peer).max()
                assert other > budget(kind), wrong


def test_a_scale_factor_that_is_not_the_ratio_of_the_sizes(rng):
    """DINO's (new + 0.1) / old: other weights, by up to a third of a table of noise."""
    weight = rng.standard_normal((196, 8)).astype(np.float32)
    scale = (16.1 / 14, 20.1 / 14)
    peer = interpolated(weight, (14, 14), scale=scale, mode="bicubic")
    told = truth(weight, (14, 14), (16, 20), mode="bicubic", scale=scale)
    assert told.score(peer).max() <= budget("float32")
    plain = truth(weight, (14, 14), (16, 20), mode="bicubic")
    assert plain.score(peer).max() > budget("float32")
    assert np.abs(plain.value - peer).max() > 0.1


def test_antialiased_is_pillow(rng):
    """Pillow's bicubic has a = -1/2 and is always antialiased; float images, 64-bit weights."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is what is compared with")
    weight = rng.standard_normal((13 * 9, 1)).astype(np.float32)
    for size in ((5, 4), (20, 30)):
        peer = image.fromarray(weight.reshape(13, 9)).resize(size[::-1], image.Resampling.BICUBIC)
        got = np.asarray(peer).reshape(-1, 1)
        told = truth(weight, (13, 9), size, mode="bicubic", antialias=True)
        assert told.score(got).max() <= budget("float32")
        torchs = truth(weight, (13, 9), size, mode="bicubic")
        assert torchs.score(got).max() > budget("float32")


@pytest.mark.parametrize(
    ("model", "config", "settings"),
    [
        ("vit", "ViTConfig", {"mode": "bicubic"}),
        ("dinov2_with_registers", "Dinov2WithRegistersConfig",
         {"mode": "bicubic", "antialias": True}),
    ],
)  # fmt: skip
def test_models(model, config, settings):
    """The CLS row is kept; a grid of 4 x 4 patches becomes 6 x 10."""
    module = getattr(models, model)
    prefix = config.removesuffix("Config")
    cfg = getattr(module, config)(image_size=32, patch_size=8, hidden_size=16)
    code = getattr(module, f"modeling_{model}")
    embeddings = getattr(code, f"{prefix}Embeddings")(cfg)
    with torch.no_grad():
        embeddings.position_embeddings.normal_()
        peer = embeddings.interpolate_pos_encoding(torch.zeros(1, 61, 16), 48, 80)[0]
    weight = embeddings.position_embeddings.detach()[0]
    told = truth(weight.numpy(), (4, 4), (6, 10), kept=1, **settings)
    assert told.score(peer.numpy()).max() <= budget("float32")
    ours = resize_table(weight, (4, 4), (6, 10), kept=1, **settings)
    assert isinstance(ours, torch.Tensor)
    assert told.score(ours.numpy(), angles="float64").max() <= 1
    swapped = resize_table(weight, (4, 4), (10, 6), kept=1, **settings)
    assert told.score(swapped.numpy()).max() > budget("float32")


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rows_of_weights_sum_to_one(settings):
    for n, m in ((7, 5), (5, 11), (1, 4), (4, 1)):
        total = resize_matrix(n, m, **settings).sum(axis=1)
        assert (np.rint(total * 2**48) == 2**48).all()
    assert (resize_matrix(6, 6, **settings) == np.eye(6)).all()


def test_one_axis(rng):
    weight = rng.standard_normal((12, 4))
    new = resize_table(weight, (10,), (5,), kept=2, mode="bilinear")
    assert (new[:2] == weight[:2]).all()
    assert (new[2:] == (weight[2::2] + weight[3::2]) / 2).all()


def test_arguments():
    w = np.ones((6, 2))
    for make, text in (
        (lambda: resize_table(w, (2, 2), (3, 3)), r"kept \+ 2 \* 2 = 4 rows, got 6"),
        (lambda: resize_table(w, (2, 3), (3,)), "same number of axes"),
        (lambda: resize_table(w, (2, 3), (3, 3), mode="cubic"), "use 'bicubic', which some"),
        (lambda: resize_matrix(2, 3, antialias=True, align_corners=True), "align_corners must be"),
        (
            lambda: resize_matrix(2, 3, mode="nearest", antialias=True),
            "must be False with mode 'nearest'",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(TypeError, match="grid must be"):
        resize_table(w, 6, (3,))
