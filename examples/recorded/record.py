"""Write two recordings: q and k of two layers, before and after a rotary embedding.

``reference.npz`` holds the tensors of the model, ``port.npz`` those of a port whose second layer
uses the default base 10000. Run: ``python examples/recorded/record.py FOLDER``.

In PyTorch, a forward hook or two lines in the attention module save the same tensors:
``np.savez("recorded.npz", q_before=q.float().numpy(), ...)``.
"""

import sys
from pathlib import Path

import numpy as np

POSITIONS = np.arange(24)
DIM, BASE, DEFAULT = 32, 500000.0, 10000.0


def rotate_half(x, base):
    """Rotate x (B, H, S, D) in half-split pairs, with float32 tables."""
    frequencies = base ** (-np.arange(0, DIM, 2) / DIM)
    angles = np.outer(POSITIONS, frequencies)
    angles = np.concatenate([angles, angles], axis=-1)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    x1, x2 = np.split(x, 2, axis=-1)
    return x * cos + np.concatenate([-x2, x1], axis=-1) * sin


def recording(bases):
    """Return the tensors by name; layer n uses the base ``bases[n]``."""
    rng = np.random.default_rng(0)
    tensors = {"position_ids": POSITIONS}
    for n, base in enumerate(bases):
        for name, heads in (("q", 2), ("k", 1)):
            x = rng.standard_normal((1, heads, POSITIONS.size, DIM), dtype=np.float32)
            tensors[f"layers.{n}.{name}"] = x
            tensors[f"layers.{n}.{name}_rot"] = rotate_half(x, base)
    return tensors


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    np.savez_compressed(folder / "reference.npz", **recording([BASE, BASE]))
    np.savez_compressed(folder / "port.npz", **recording([BASE, DEFAULT]))
