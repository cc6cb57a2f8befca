"""Logits of real attention modules: what their softmax is given."""

from contextlib import contextmanager

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")


@contextmanager
def softmax_inputs():
    """A list that fills with the arguments of every softmax inside the block, as float64 arrays."""
    seen, original = [], torch.nn.functional.softmax

    def caught(x, *args, **kwargs):
        seen.append(x.detach().double().numpy())
        return original(x, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "softmax", caught)
        patch.setattr(torch, "softmax", caught)
        yield seen


def filled(module, seed=0):
    """``module`` in float64 with every parameter drawn at random, dropout off."""
    generator = torch.Generator().manual_seed(seed)
    module.double()
    module.eval()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64) / 4)
    return module


def tokens(*shape, seed=1):
    """Random float64 hidden states."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def heads(x, n):
    """(B, S, n * d) as (B, n, S, d), a NumPy array."""
    b, s, width = x.shape
    return x.detach().reshape(b, s, n, width // n).transpose(1, 2).numpy()


def host(x):
    """A parameter or tensor as a float64 array."""
    return np.asarray(x.detach().double().numpy())
