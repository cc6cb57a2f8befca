"""Write the section "Half precision" of docs/tables.md: python tools/half_precision.py.

Which tables lose positions where everything is computed in bfloat16 or float16: every operation is
evaluated in float64 and rounded at once, as exact half-precision arithmetic would.
"""

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np

import posenc_ref as pr

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tables.md"
TITLE = "## Half precision\n"
KINDS = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
COUNT = 4096
POINTS = np.arange(COUNT)
UNIT = POINTS / COUNT  #: coordinates and times between 0 and 1
SIDE = 64
IMAGE = np.stack(np.divmod(POINTS, SIDE))
VIDEO = np.stack([POINTS // 256, POINTS // 16 % 16, POINTS % 16])
RNG = np.random.default_rng(0)

HEAD = """
How many of 4096 rows stay distinct: when everything is computed in bfloat16 or float16 (positions,
frequencies, products, sines, each rounded), and when exact values are rounded once at the end.
Made by `python tools/half_precision.py`; tables are 128 wide, images have 64 x 64 patches, videos
16 x 16 x 16, times and coordinates lie between 0 and 1.

**Rounding the result loses no position of a table of whole numbers; rounding positions does**: all
integers exist up to 256 in bfloat16, up to 2048 in float16. Patches of an image are few enough.
Learned tables (`Learned`, `AxialLearned`) compute nothing, but 4096 integers held in bfloat16 are
769 rows, 3073 in float16; a `Hybrid` loses what all of its parts lose.

| table | bfloat16 throughout | float16 throughout | rounded to bfloat16 | rounded to float16 |
|---|---:|---:|---:|---:|
"""


class Half:
    """Arithmetic of one format: every result is rounded to it."""

    def __init__(self, kind):
        """A format by its name."""
        self.kind = KINDS[kind]

    def __call__(self, values):
        """Round to the format."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values, np.float64).astype(self.kind).astype(np.float64)

    def times(self, a, b):
        """The rounded product of rounded numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self(self(a) * self(b))

    def waves(self, at, omega, scale=1.0):
        """Sines and cosines of positions times frequencies."""
        angle = self.times(np.asarray(at)[:, None], np.asarray(omega)[None, :])
        with np.errstate(invalid="ignore"):
            return np.concatenate([self.times(f(angle), scale) for f in (np.sin, np.cos)], axis=1)

    def of_axes(self, positions, omegas):
        """The waves of every axis, side by side."""
        pairs = zip(positions, omegas, strict=True)
        return np.concatenate([self.waves(p, w) for p, w in pairs], axis=1)


def sinusoid(table, at):
    """A sinusoid: offset and factor go to the positions first."""

    def rows(half):
        return half.waves(half.times(half(half(at) + table.offset), table.position_scale),
                          table.frequencies() / table.position_scale, table.scale)  # fmt: skip

    return rows, table, at


def features(table, at):
    """Fourier features: shift, factor, product with the matrix and the unit, in this order."""
    unit = {"radian": 1.0, "half-turn": np.pi, "turn": 2 * np.pi}[table.unit]

    def rows(half):
        x = half.times(half(half(at) + table.offset), table.position_scale)
        total = 0.0
        for axis in range(len(x)):
            total = half(total + half.times(x[axis][:, None], table.matrix[:, axis]))
        angle = half.times(total, unit)
        waves = [np.sin(angle), np.cos(angle)]
        return half(np.concatenate([x.T] * table.include_input + waves, axis=1))

    return rows, table, at if table.num_axes > 1 else at[0]


def detr():
    """DETR: the cumulative sum and its normalisation too."""
    table = pr.DETRSine(128)

    def rows(half):
        at = [half.times(half(half(p + 1) / half(SIDE + 1e-6)), 2 * np.pi) for p in IMAGE]
        return half.of_axes(at, table.frequencies())

    return rows, table, table.grid_positions(SIDE, SIDE)


def boxes():
    """Boxes: 64 x 64 centres of boxes of one size."""
    table = pr.BoxSine(128)
    at = np.stack([*((IMAGE + 0.5) / SIDE), np.full(COUNT, 0.125), np.full(COUNT, 0.125)])
    return lambda half: half.of_axes(at, table.frequencies()), table, at


def time2vec():
    """Time2Vec with random frequencies and phases."""
    weight, bias = RNG.uniform(0.001, 1.0, 128), RNG.uniform(0.0, 6.0, 128)
    table = pr.Time2Vec(weight, bias)

    def rows(half):
        x = half(half.times(POINTS[:, None], weight) + half(bias))
        return half(np.concatenate([x[:, :1], np.sin(x[:, 1:])], axis=1))

    return rows, table, POINTS


def standardized():
    """PatchTST: the mean and the deviation in half precision too."""
    table = pr.StandardizedSinusoidal(128, COUNT)
    waves = pr.Sinusoidal(128).frequencies()

    def rows(half):
        plain = half.waves(POINTS, waves)
        return half(half(plain - half(plain.mean())) / half(10 * half(plain.std())))

    return rows, table, POINTS


def resized():
    """A learned grid of 14 x 14, resized bicubically: its weights and rows rounded."""
    weight = RNG.standard_normal((196, 128))

    def rows(half):
        return half(pr.resize_table(half(weight), (14, 14), (SIDE, SIDE)))

    class Table:
        def table(self, at):
            return pr.resize_table(weight, (14, 14), (SIDE, SIDE))

    return rows, Table(), None


def cases():
    """Every table by name: its rows in half precision, itself, and positions."""
    found = {}
    for name in pr.presets():
        if name.startswith(("sinusoidal-", "timesteps-")):
            table = pr.preset(name, dim=128).only
            at = UNIT if table.position_scale > 1 else POINTS
            found[f"`{name}`"] = sinusoid(table, at)
    image, video = pr.Sinusoidal2D(128), pr.Sinusoidal3D((32, 48, 48))
    found["`Sinusoidal2D`"] = lambda h: h.of_axes(IMAGE, image.frequencies()), image, IMAGE
    found["`Sinusoidal3D`"] = lambda h: h.of_axes(VIDEO, video.frequencies()), video, VIDEO
    found["`DETRSine`"] = detr()
    found["`BoxSine`"] = boxes()
    pixels = (IMAGE + 0.5) / SIDE
    matrix = RNG.standard_normal((64, 2))
    sam = pr.FourierFeatures(matrix, unit="turn", offset=-0.5, position_scale=2)
    found["SAM, `FourierFeatures`"] = features(sam, pixels)
    noise = pr.FourierFeatures(16 * RNG.standard_normal((64, 1)), unit="turn")
    found["score SDE, `FourierFeatures`"] = features(noise, UNIT[None])
    perceiver = pr.FourierFeatures.perceiver(32, (SIDE, SIDE))
    found["Perceiver, `FourierFeatures`"] = features(perceiver, 2 * pixels - 1)
    nerf = pr.FourierFeatures.nerf(10, num_axes=1, include_input=False)
    found["NeRF, `FourierFeatures`"] = features(nerf, UNIT[None])
    found["`Time2Vec`"] = time2vec()
    found["`StandardizedSinusoidal`"] = standardized()
    found["`resize_table`"] = resized()
    return found


def distinct(rows):
    """How many rows differ; what is no number at all counts once."""
    numbers = np.nan_to_num(np.asarray(rows, np.float64), nan=9e9) + 0.0  # -0.0 becomes 0.0
    return len({row.tobytes() for row in numbers})


def counts(case):
    """The four numbers of a table."""
    rows, table, at = case
    exact = np.asarray(table.table(at))
    halves = [Half(kind) for kind in KINDS]
    return [*(distinct(rows(half)) for half in halves), *(distinct(half(exact)) for half in halves)]


@cache
def section():
    """The section; presets with the same numbers share a row."""
    rows, known = {}, {}
    for name, case in cases().items():
        key = name
        if isinstance(case[1], pr.Sinusoidal):  # neither layout nor order makes a difference
            key = case[1].replace(layout="concat", first="sin")
        known[key] = known.get(key) or tuple(counts(case))
        rows.setdefault(known[key], []).append(name)
    lines = [f"| {', '.join(names)} | {' | '.join(map(str, n))} |\n" for n, names in rows.items()]
    return TITLE + HEAD + "".join(lines)


def around(page):
    """What stands before the section, and what after it."""
    before, after = page.split(TITLE)
    _, mark, rest = after.partition("\n## ")
    return before, mark + rest


if __name__ == "__main__":
    first, last = around(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(first + section() + last, encoding="utf-8")
