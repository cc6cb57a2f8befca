"""A folder with a port and a manifest, for tests of ci and check."""

import json
import sys

import pytest

MINE = """
import numpy as np

print("noise of the import")


def half(x, positions, base=10000.0):
    dim = x.shape[-1]
    angle = np.asarray(positions)[..., None] * base ** (-np.arange(0, dim, 2) / dim)
    angle = angle if angle.ndim == 2 else angle[:, None]
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def other_base(x, positions):
    return half(x, positions, 500.0)


def refusing(x, positions):
    raise NotImplementedError("no kernel for this device")


def slopes(num_heads):
    return 2.0 ** (-8.0 * (1 + np.arange(num_heads)) / num_heads)
"""


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """Return a function that writes a manifest in a folder of its own, not the working folder."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "port.py").write_text(MINE, encoding="utf-8")
    (folder / "quits.py").write_text("import sys\nsys.exit(3)\n", encoding="utf-8")
    encoding = {"encoding": "RoPE", "head_dim": 8, "layout": "half"}
    (folder / "half.json").write_text(json.dumps(encoding), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text):
        path = folder / "posenc.toml"
        path.write_text(text, encoding="utf-8")
        return path

    yield write
    sys.modules.pop("port", None)
