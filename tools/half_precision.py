"""Write docs/generated/half-precision.md: python tools/half_precision.py.

It shows which tables lose positions in bfloat16 or float16 arithmetic. Every operation is evaluated
in float64 and rounded at once, which is what exact half-precision arithmetic does.
"""

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np

import posenc_ref as pr

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/generated/half-precision.md"
KINDS = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
COUNT = 4096
POINTS = np.arange(COUNT)
UNIT = POINTS / COUNT  #: coordinates and times between 0 and 1
SIDE = 64
IMAGE = np.stack(np.divmod(POINTS, SIDE))
VIDEO = np.stack([POINTS // 256, POINTS // 16 % 16, POINTS % 16])
RNG = np.random.default_rng(0)

HEAD = """# Tables in half precision

Made by `python tools/half_precision.py`.

The number of distinct rows of 4096. *Throughout*: positions, frequencies, products and sines are
each rounded to the format. *Rounded*: exact values are rounded once. Tables are 128 wide; images
have 64 x 64 patches, videos 16 x 16 x 16; times and coordinates lie between 0 and 1.

**Rounding the result keeps every position of a table of integers distinct; rounding the positions
does not.** bfloat16 holds all integers up to 256, float16 up to 2048: of 4096 positions,
769 in bfloat16 and 3073 in float16 remain distinct. Learned tables (`Learned`, `AxialLearned`) lose
only those; a `Hybrid` loses what each of its parts loses.

| table | bfloat16 throughout | float16 throughout | rounded to bfloat16 | rounded to float16 |
|---|---:|---:|---:|---:|
"""


class Half:
    """Arithmetic that rounds every result to one format."""

    def __init__(self, kind):
        """Take the format by its name."""
        self.kind = KINDS[kind]

    def __call__(self, values):
        """Round to the format."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values, np.float64).astype(self.kind).astype(np.float64)

    def times(self, a, b):
        """Return the rounded product of rounded numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self(self(a) * self(b))

    def waves(self, at, omega, scale=1.0):
        """Return sines and cosines of positions times frequencies."""
        angle = self.times(np.asarray(at)[:, None], np.asarray(omega)[None, :])
        with np.errstate(invalid="ignore"):
            return np.concatenate([self.times(f(angle), scale) for f in (np.sin, np.cos)], axis=1)

    def of_axes(self, positions, omegas):
        """Return the waves of every axis, side by side."""
        pairs = zip(positions, omegas, strict=True)
        return np.concatenate([self.waves(p, w) for p, w in pairs], axis=1)


def sinusoid(table, at):
    """Return the case of a sinusoid: offset and factor apply to the positions first."""

    def rows(half):
        return half.waves(half.times(half(half(at) + table.offset), table.position_scale),
                          table.frequencies() / table.position_scale, table.scale)  # fmt: skip

    return rows, table, at


def features(table, at):
    """Return the case of Fourier features: shift, factor, matrix and unit, in this order."""
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
    """Return the case of DETR, with its cumulative sum and normalisation."""
    table = pr.DETRSine(128)

    def rows(half):
        at = [half.times(half(half(p + 1) / half(SIDE + 1e-6)), 2 * np.pi) for p in IMAGE]
        return half.of_axes(at, table.frequencies())

    return rows, table, table.grid_positions(SIDE, SIDE)


def boxes():
    """Return the case of boxes: 64 x 64 centres, one size."""
    table = pr.BoxSine(128)
    at = np.stack([*((IMAGE + 0.5) / SIDE), np.full(COUNT, 0.125), np.full(COUNT, 0.125)])
    return lambda half: half.of_axes(at, table.frequencies()), table, at


def time2vec():
    """Return the case of Time2Vec, with random frequencies and phases."""
    weight, bias = RNG.uniform(0.001, 1.0, 128), RNG.uniform(0.0, 6.0, 128)
    table = pr.Time2Vec(weight, bias)

    def rows(half):
        x = half(half.times(POINTS[:, None], weight) + half(bias))
        return half(np.concatenate([x[:, :1], np.sin(x[:, 1:])], axis=1))

    return rows, table, POINTS


def standardized():
    """Return the case of PatchTST, with mean and deviation in half precision."""
    table = pr.StandardizedSinusoidal(128, COUNT)
    waves = pr.Sinusoidal(128).frequencies()

    def rows(half):
        plain = half.waves(POINTS, waves)
        return half(half(plain - half(plain.mean())) / half(10 * half(plain.std())))

    return rows, table, POINTS


def resized():
    """Return the case of a learned 14 x 14 grid, resized bicubically, with rounded weights."""
    weight = RNG.standard_normal((196, 128))

    def rows(half):
        return half(pr.resize_table(half(weight), (14, 14), (SIDE, SIDE)))

    class Table:
        def table(self, at):
            return pr.resize_table(weight, (14, 14), (SIDE, SIDE))

    return rows, Table(), None


def cases():
    """Return every table by name: its rows in half precision, itself, and its positions."""
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
    """Return the number of distinct rows; NaN counts as one value."""
    numbers = np.nan_to_num(np.asarray(rows, np.float64), nan=9e9) + 0.0  # -0.0 becomes 0.0
    return len({row.tobytes() for row in numbers})


def counts(case):
    """Return the four numbers of a table."""
    rows, table, at = case
    exact = np.asarray(table.table(at))
    halves = [Half(kind) for kind in KINDS]
    return [*(distinct(rows(half)) for half in halves), *(distinct(half(exact)) for half in halves)]


@cache
def document():
    """Return the page; presets with the same numbers share a row."""
    rows, known = {}, {}
    for name, case in cases().items():
        key = name
        if isinstance(case[1], pr.Sinusoidal):  # neither layout nor order makes a difference
            key = case[1].replace(layout="concat", first="sin")
        known[key] = known.get(key) or tuple(counts(case))
        rows.setdefault(known[key], []).append(name)
    lines = [f"| {', '.join(names)} | {' | '.join(map(str, n))} |\n" for n, names in rows.items()]
    return HEAD + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")
