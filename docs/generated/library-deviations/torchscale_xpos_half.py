"""TorchScale: xPos in half precision has angles that are rounded to float16."""

import torch
from torchscale.component.xpos_relative_position import XPOS

torch.manual_seed(0)
length, dim = 2050, 64
x = torch.randn(2, length, dim, dtype=torch.float64)


def logits(module, dtype):
    """Return the logits of the last query, and of all keys."""
    q, k = x.to(dtype)
    turned = module(q[None, -1:], offset=length - 1), module(k[None], downscale=True)
    return (turned[0].double() @ turned[1].double().transpose(1, 2))[0, 0] / dim**0.5


half = logits(XPOS(dim).half(), torch.float16)
single = logits(XPOS(dim), torch.float16)  # the module in float32, the vectors in float16

pairs = torch.arange(dim // 2, dtype=torch.float64)
angles = torch.arange(length, dtype=torch.float64)[:, None] * 10000 ** (-2 * pairs / dim)
zeta = (2 * pairs / dim + 0.4) / 1.4
q, k = torch.view_as_complex(x.half().double().reshape(2, length, dim // 2, 2))
decay = zeta ** ((length - 1 - torch.arange(length, dtype=torch.float64))[:, None] / 512)
right = (q[-1] * torch.polar(decay, angles[-1] - angles) * k.conj()).real.sum(-1) / dim**0.5

worst = int((half - right).abs().argmax())
print("distance of query and key:", length - 1 - worst)
print("module.half():            ", half[worst].item())
print("module in float32:        ", single[worst].item())
print("expected:                 ", right[worst].item())
assert (half - right).abs().max() > 20 * (single - right).abs().max()
