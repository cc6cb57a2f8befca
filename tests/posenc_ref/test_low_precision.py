"""Which tables lose positions when they are computed in half precision; docs/tables.md has it."""

import re
from pathlib import Path

import numpy as np
import pytest

from posenc_ref import DETRSine, FourierFeatures, Sinusoidal, Sinusoidal2D

torch = pytest.importorskip("torch")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
POINTS = np.arange(4096)
SIDE = 64


def waves(at, omega, dtype):
    """Everything in ``dtype``: positions, frequencies, products, sines and cosines."""
    angle = torch.as_tensor(at).to(dtype)[:, None] * torch.as_tensor(omega).to(dtype)
    return torch.cat([angle.sin(), angle.cos()], dim=1)


def sinusoidal(dtype):
    return waves(POINTS, Sinusoidal(128).frequencies(), dtype)


def image(dtype):
    y, x = np.divmod(POINTS, SIDE)
    return torch.cat([waves(p, Sinusoidal2D(128).frequencies()[0], dtype) for p in (y, x)], dim=1)


def detr(dtype):
    """The cumulative sum and its normalisation in ``dtype`` too."""
    y, x = (torch.as_tensor(p + 1).to(dtype) for p in np.divmod(POINTS, SIDE))
    scaled = [p / (SIDE + 1e-6) * (2 * np.pi) for p in (y, x)]
    return torch.cat([waves(p, DETRSine(128).frequencies()[0], dtype) for p in scaled], dim=1)


def nerf(dtype):
    """One coordinate between 0 and 1, ten bands."""
    return waves(POINTS / 4096, np.pi * 2.0 ** np.arange(10), dtype)


CASES = {"Sinusoidal": sinusoidal, "Sinusoidal2D": image, "DETRSine": detr, "NeRF": nerf}
OURS = {
    "Sinusoidal": lambda kind: Sinusoidal(128, layout="concat").table(POINTS, dtype=kind),
    "Sinusoidal2D": lambda kind: Sinusoidal2D(128).grid(SIDE, SIDE, dtype=kind),
    "DETRSine": lambda kind: DETRSine(128).grid(SIDE, SIDE, dtype=kind),
    "NeRF": lambda kind: FourierFeatures.nerf(10, num_axes=1, include_input=False).table(
        POINTS / 4096, dtype=kind
    ),
}


def distinct(rows):
    return len(np.unique(np.asarray(torch.as_tensor(rows).float()), axis=0))


def told(name):
    """bfloat16 throughout, float16 throughout, float64 rounded to bfloat16, to float16."""
    row = next(r for r in PAGE.read_text(encoding="utf-8").splitlines() if f"| {name} |" in r)
    return [int(n) for n in re.findall(r"\| (\d+) ", row)]


@pytest.mark.parametrize("name", CASES)
def test_distinct_rows_of_4096(name):
    throughout = [distinct(CASES[name](kind)) for kind in (torch.bfloat16, torch.float16)]
    import ml_dtypes

    rounded = [distinct(OURS[name](k).astype(np.float32)) for k in (ml_dtypes.bfloat16, np.float16)]
    assert told(name) == throughout + rounded
