"""PyTorch: antialiased resizing to a width of 1 repeats the first row of the result."""

import numpy as np
import torch


def weights(old, new):
    """Return the matrix (new, old) of the antialiased bilinear filter, a triangle."""
    scale = old / new
    far = np.arange(old) + 0.5 - scale * (np.arange(new)[:, None] + 0.5)
    rows = np.maximum(1 - abs(far) / scale, 0)
    return rows / rows.sum(1, keepdims=True)


table = torch.randn(14, 14, 16, generator=torch.Generator().manual_seed(0))
image = table.permute(2, 0, 1)[None]  # as SigLIP 2 passes it; a contiguous copy gives the same
how = {"mode": "bilinear", "align_corners": False, "antialias": True}
off = {}
for size in ((4, 1), (1, 4), (4, 2)):
    got = torch.nn.functional.interpolate(image, size=size, **how)[0].double().numpy()
    copy = torch.nn.functional.interpolate(image.contiguous(), size=size, **how)[0].numpy()
    assert np.allclose(got, copy, atol=1e-6)
    rows, columns = weights(14, size[0]), weights(14, size[1])
    right = np.einsum("ah,chw,bw->cab", rows, image[0].double().numpy(), columns)
    off[size] = abs(got - right).max()
    print(f"14 x 14 to {size[0]} x {size[1]}: expected {right[0].ravel()[:4].round(4)}")
    print(f"                  got      {got[0].ravel()[:4].round(4)}")
    if size == (4, 1):
        assert np.array_equal(got, np.broadcast_to(got[:, :1], got.shape))
        assert np.allclose(got[:, 0], right[:, 0], atol=1e-6)
assert off[4, 1] > 0.1
assert max(off[1, 4], off[4, 2]) < 1e-6
