"""Judge a RoPE written in NumPy by golden vectors: python judge.py [wrong]."""

import sys

import numpy as np

from posenc_ref.conformance import load_vectors


def rope(x, positions, wrong):
    """Rotate half-split pairs, base 10000; the wrong version stores positions in 16 bits."""
    half = x.shape[-1] // 2
    positions = positions.astype(np.int16 if wrong else np.float64)
    angle = positions[..., None].astype(np.float64) * 10000.0 ** (-np.arange(half) / half)
    cos, sin = (f(angle) for f in (np.cos, np.sin))
    if angle.ndim == 3:  # positions per row of the batch, shared by all heads
        cos, sin = cos[:, None], sin[:, None]
    x1, x2 = x[..., :half], x[..., half:]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(x.dtype)


def main(wrong):
    """Judge every case of one group; return the exit status."""
    cases = [case for case in load_vectors(surface="apply") if case.group == "rope-64-half"]
    failed = 0
    for case in cases:
        y = rope(*case.arguments(), wrong)
        failed += not case.passes(y)
        print(f"{case.id:40} {case.judge(y):g} units")
    print(f"{failed} of {len(cases)} cases rejected")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["wrong"]))
