"""NeRF, Perceiver, SAM, Gaussian features and Time2Vec."""
import numpy as np
import torch
from torch import nn

GAUSS = [[0.5, -1.25], [2.0, 0.75], [-0.375, 1.5], [3.0, -0.5], [0.25, 0.125], [-1.75, 2.25]]
T2V_W = [0.3, 1.0, 0.5, 0.12, 0.031, 0.0075]
T2V_B = [0.1, -0.4, 0.7, 1.1, -1.3, 0.2]


# ---- f01 (wrong): the released code has no pi, the declaration (the paper) has
def nerf_without_pi(positions):
    fns = []
    for freq in 2.0 ** torch.linspace(0.0, 5.0, 6, dtype=torch.float64):
        for p_fn in (torch.sin, torch.cos):
            fns.append(lambda x, p_fn=p_fn, freq=freq: p_fn(x * freq))
    x = torch.stack([positions[0], positions[1], positions[2]], -1).double()
    return torch.cat([fn(x) for fn in fns], -1)


# ---- f02 (wrong): log_sampling=False: bands from 1 to 2**(L-1) at equal distances
def nerf_linear_bands(positions):
    x = np.stack([np.asarray(p, np.float64) for p in positions], -1)
    bands = np.linspace(2.0 ** 0, 2.0 ** 5, 6)
    cols = [x]
    for b in bands:
        cols += [np.sin(b * x), np.cos(b * x)]
    return np.concatenate(cols, -1)


# ---- f03 (wrong): late binding: every lambda sees the last frequency
def nerf_late_binding(positions):
    x = np.stack([np.asarray(p, np.float64) for p in positions], -1)
    embed_fns = [lambda v: v]
    for freq in 2.0 ** np.arange(4):
        embed_fns.append(lambda v: np.sin(v * freq))
        embed_fns.append(lambda v: np.cos(v * freq))
    return np.concatenate([fn(x) for fn in embed_fns], -1)


# ---- f04 (wrong): Perceiver: bands up to the resolution instead of half of it (Nyquist)
def perceiver_full_resolution(positions, num_bands=6, resolution=(20, 32)):
    pos = np.stack([np.asarray(p, np.float64) for p in positions], -1)
    bands = np.stack([np.linspace(1.0, r, num_bands) for r in resolution])
    per = pos[..., None] * bands
    per = per.reshape(*per.shape[:-2], -1)
    return np.concatenate([pos, np.sin(np.pi * per), np.cos(np.pi * per)], -1)


# ---- f05 (wrong): SAM: coordinates stay in 0 .. 1 (the map 2v - 1 is missing)
class PositionEmbeddingRandom(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("gauss", torch.tensor(GAUSS, dtype=torch.float64).T.contiguous())

    def forward(self, coords):
        coords = torch.movedim(coords, 0, -1).double()
        coords = coords @ self.gauss
        coords = 2 * np.pi * coords
        return torch.cat([torch.sin(coords), torch.cos(coords)], dim=-1)


sam_without_map = PositionEmbeddingRandom()


# ---- f06 (wrong): the matrix is multiplied from the wrong side of (y, x): coordinates swapped
def gaussian_swapped_axes(positions):
    B = np.array(GAUSS)
    yx = np.stack([np.asarray(positions[1], np.float64), np.asarray(positions[0], np.float64)], -1)
    proj = 2 * np.pi * yx @ B.T
    return np.concatenate([np.cos(proj), np.sin(proj)], -1)


# ---- f07 (wrong): Time2Vec: the phase is added after the sine
def time2vec_phase_outside(positions):
    w, b = np.array(T2V_W), np.array(T2V_B)
    t = np.asarray(positions, np.float64)[..., None]
    v0 = w[:1] * t + b[:1]
    v1 = np.sin(t * w[1:]) + b[1:]
    return np.concatenate([v0, v1], -1)


# ---- f08 (wrong): the popular SineActivation puts the linear component last
class SineActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.tensor(T2V_W, dtype=torch.float64)[None])
        self.register_buffer("b", torch.tensor(T2V_B, dtype=torch.float64))

    def forward(self, tau):
        tau = tau.double()[..., None]
        v1 = torch.sin(torch.matmul(tau, self.w[:, 1:]) + self.b[1:])
        v2 = torch.matmul(tau, self.w[:, :1]) + self.b[:1]
        return torch.cat([v1, v2], -1)


time2vec_linear_last = SineActivation()


# ---- f09 (wrong, two): no linear component, and cosine as activation
def time2vec_two(positions):
    t = torch.as_tensor(positions).double()
    w = torch.tensor(T2V_W, dtype=torch.float64)
    b = torch.tensor(T2V_B, dtype=torch.float64)
    return torch.cos(t[..., None] * w + b)


# ---- right: double-angle recurrences for the bands of NeRF, from sin and cos of the first band
def right_nerf_doubling(positions):
    x = np.stack([np.asarray(p, np.float64) for p in positions], -1)
    s, c = np.sin(np.pi * x), np.cos(np.pi * x)
    cols = []
    for _ in range(5):
        cols += [s, c]
        s, c = 2 * s * c, (c - s) * (c + s)
    return np.concatenate(cols, -1)


# ---- right: Time2Vec by complex exponentials, axis in front, moved at the end (a view)
def right_time2vec(positions):
    t = np.asarray(positions, np.float64)
    w, b = np.array(T2V_W), np.array(T2V_B)
    shape = (-1,) + (1,) * t.ndim
    z = np.exp(1j * b.reshape(shape)) * np.exp(1j * w.reshape(shape) * t)
    out = z.imag
    out[0] = w[0] * t + b[0]
    return np.moveaxis(out, 0, -1)
