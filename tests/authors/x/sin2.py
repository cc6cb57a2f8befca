"""Tables of several axes: images, videos, boxes."""
import math

import numpy as np
import torch


def _axis(dim, pos, base=10000.0):
    w = 1.0 / base ** (np.arange(dim // 2, dtype=float) / (dim / 2.0))
    a = np.outer(np.ravel(pos), w)
    return np.concatenate([np.sin(a), np.cos(a)], 1)


# 014: Sinusoidal2D(32), surface grid, as in a hybrid encoder
def rtdetr_grid(height, width, dim=32, temperature=10000.0):
    gw = torch.arange(width, dtype=torch.float32)
    gh = torch.arange(height, dtype=torch.float32)
    gw, gh = torch.meshgrid(gw, gh, indexing="ij")
    n = dim // 4
    omega = 1.0 / temperature ** (torch.arange(n, dtype=torch.float32) / n)
    ow = gw.flatten()[:, None] @ omega[None]
    oh = gh.flatten()[:, None] @ omega[None]
    return torch.cat([oh.sin(), oh.cos(), ow.sin(), ow.cos()], dim=1)


# 015: Sinusoidal2D(48, axis_order="wh"), surface table; positions (2, S) are (height, width)
def mae_table(positions):
    y, x = np.asarray(positions)
    emb_h = _axis(24, y)
    emb_w = _axis(24, x)
    return np.concatenate([emb_h, emb_w], axis=1).astype(np.float32)


# 017: Sinusoidal2D(32, axis_order="wh", extent=8.0), surface grid: DiT, PixArt
def diffusers_grid(height, width, embed_dim=32, base_size=8):
    grid_size = (height, width)
    grid_h = np.arange(grid_size[0], dtype=np.float32) / (grid_size[0] / base_size)
    grid_w = np.arange(grid_size[1], dtype=np.float32) / (grid_size[0] / base_size)
    grid = np.stack(np.meshgrid(grid_w, grid_h), axis=0)  # w goes first
    return np.concatenate([_axis(embed_dim // 2, grid[0]), _axis(embed_dim // 2, grid[1])], 1)


# 019: Sinusoidal3D((16, 24, 24), axis_order="twh"): CogVideoX
def cogvideo(positions):
    t, h, w = np.asarray(positions)
    pos_temporal = _axis(16, t)
    emb_w = _axis(24, w)
    emb_h = _axis(24, w)
    return np.concatenate([pos_temporal, emb_w, emb_h], axis=-1)


# 020: DETRSine(32), surface grid
def detr_grid(height, width, num_pos_feats=16, temperature=10000):
    mask = torch.ones(1, height, width)
    y_embed, x_embed = mask.cumsum(1), mask.cumsum(2)
    eps = 1e-6
    y_embed = y_embed / (y_embed[:, -1:, :] + eps) * 2 * math.pi
    x_embed = x_embed / (x_embed[:, :, -1:] + eps) * 2 * math.pi
    dim_t = torch.arange(num_pos_feats, dtype=torch.float32)
    dim_t = temperature ** (2 * (dim_t / 2) / num_pos_feats)
    px, py = x_embed[..., None] / dim_t, y_embed[..., None] / dim_t
    px = torch.stack((px[..., 0::2].sin(), px[..., 1::2].cos()), dim=4).flatten(3)
    py = torch.stack((py[..., 0::2].sin(), py[..., 1::2].cos()), dim=4).flatten(3)
    return torch.cat((py, px), dim=3).reshape(height * width, -1)


# 021: DETRSine(32, shift=-0.5), surface grid: Deformable DETR
def deformable_grid(height, width, f=16, scale=2 * np.pi):
    not_mask = np.ones((height, width))
    y, x = not_mask.cumsum(0), not_mask.cumsum(1)
    y = y / (y[-1:] + 1e-6) * scale - 0.5
    x = x / (x[:, -1:] + 1e-6) * scale - 0.5
    dim_t = 10000 ** (2 * (np.arange(f) // 2) / f)

    def enc(c):
        a = c[..., None] / dim_t
        return np.stack([np.sin(a[..., 0::2]), np.cos(a[..., 1::2])], -1).reshape(height * width, f)

    return np.concatenate([enc(y), enc(x)], 1).astype(np.float32)


# 022 (two): DETRSine(32, base=10000.0, width_base=20.0), surface grid: DAB-DETR with temperatureH, temperatureW
def dab_grid(height, width, temperatureH=10000.0, temperatureW=20.0):
    rows = (np.arange(height) + 1) / (height + 1e-6) * 2 * np.pi
    cols = (np.arange(width) + 1) / (height + 1e-6) * 2 * np.pi
    f = np.arange(8) / 8.0
    tab = np.zeros((height, width, 4, 8))
    for r in range(height):
        for c in range(width):
            a, b = rows[r] / temperatureW**f, cols[c] / temperatureH**f
            tab[r, c] = np.sin(a), np.cos(a), np.sin(b), np.cos(b)
    tab = tab.reshape(height, width, 2, 2, 8).swapaxes(-1, -2)
    return tab.reshape(height * width, 32).astype(np.float32)


# 024: BoxSine(24, axes="xyz", axis_order="yxz"): pos2posemb3d of PETR
def pos2posemb3d(positions, num_pos_feats=8, temperature=10000):
    pos = torch.as_tensor(np.asarray(positions)).float().T.clone()
    pos[:, :2] *= 2 * math.pi
    dim_t = torch.arange(num_pos_feats, dtype=torch.float32)
    dim_t = temperature ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / num_pos_feats)
    out = []
    for k in (1, 0, 2):
        p = pos[:, k, None] / dim_t
        out.append(torch.stack((p[:, 0::2].sin(), p[:, 1::2].cos()), dim=-1).flatten(-2))
    return torch.cat(out, dim=-1)
