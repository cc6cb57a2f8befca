"""Tables of image patches, and position ids of RoBERTa."""

import math

import numpy as np
import torch


def weights(seed, *shape, size=0.5):
    return (size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def sincos_1d(dim, pos, base=10000.0):
    omega = 1.0 / base ** (np.arange(dim // 2, dtype=np.float64) / (dim / 2.0))
    out = np.einsum("m,d->md", np.asarray(pos, np.float64).reshape(-1), omega)
    return np.concatenate([np.sin(out), np.cos(out)], axis=1)


def mae_height_first(height, width, dim=64):
    """MAE's get_2d_sincos_pos_embed, with the names put right: emb_h is of the rows now."""
    y, x = np.indices((height, width))
    emb_h = sincos_1d(dim // 2, y)
    emb_w = sincos_1d(dim // 2, x)
    return np.concatenate([emb_h, emb_w], axis=1)


def rtdetr_meshgrid(height, width, dim=64):
    """RT-DETR; torch.meshgrid(..., indexing='ij') became np.meshgrid."""
    grid_h, grid_w = np.meshgrid(np.arange(height), np.arange(width))
    return np.concatenate([sincos_1d(dim // 2, grid_h), sincos_1d(dim // 2, grid_w)], axis=1)


def dit_linspace(height, width, dim=64, base_size=16):
    """DiT: rows and columns scaled to the trained size."""
    y = np.linspace(0, base_size, height)
    x = np.linspace(0, base_size, width)
    gx, gy = np.meshgrid(x, y)
    return np.concatenate([sincos_1d(dim // 2, gx), sincos_1d(dim // 2, gy)], axis=1)


def timm_from_one(height, width, dim=64):
    y, x = np.mgrid[1 : height + 1, 1 : width + 1]
    return np.concatenate([sincos_1d(dim // 2, y), sincos_1d(dim // 2, x)], axis=1)


def detr_by_cumsum(height, width, num_pos_feats=32):
    """PositionEmbeddingSine of DETR on an image without padding."""
    not_mask = torch.ones(1, height, width, dtype=torch.float64)
    y, x = not_mask.cumsum(1), not_mask.cumsum(2)
    y = y / (y[:, -1:, :] + 1e-6) * (2 * math.pi)
    x = x / (x[:, :, -1:] + 1e-6) * (2 * math.pi)
    t = torch.arange(num_pos_feats, dtype=torch.float64)
    t = 10000 ** (2 * torch.div(t, 2, rounding_mode="floor") / num_pos_feats)
    px, py = x[..., None] / t, y[..., None] / t
    px = torch.stack((px[..., 0::2].sin(), px[..., 1::2].cos()), dim=4).flatten(3)
    py = torch.stack((py[..., 0::2].sin(), py[..., 1::2].cos()), dim=4).flatten(3)
    return torch.cat((py, px), dim=3)[0].flatten(0, 1).float()


def detr_last_row(height, width, dim=64):
    ones = np.ones((height, width))
    y, x = ones.cumsum(0), ones.cumsum(1)
    y = y / (y[-1:, :] + 1e-6) * 2 * np.pi
    x = x / (x[-1:, :] + 1e-6) * 2 * np.pi

    def embed(c):
        a = c.reshape(-1, 1) / 10000.0 ** (np.arange(0, dim // 2, 2) / (dim // 2))
        return np.stack([np.sin(a), np.cos(a)], axis=-1).reshape(len(a), -1)

    return np.concatenate([embed(y), embed(x)], axis=1)


ROW_EMBED, COL_EMBED = weights(31, 50, 16), weights(32, 50, 16)


def detr_learned_repeat(height, width):
    """PositionEmbeddingLearned: cat([x_emb.unsqueeze(0).repeat(h, 1, 1), y_emb...])."""
    x_emb = np.repeat(COL_EMBED[:width], height, axis=0)
    y_emb = np.repeat(ROW_EMBED[:height], width, axis=0)
    return np.concatenate([x_emb, y_emb], axis=-1)


# ------------------------------------------------------------------ RoBERTa's ids


def roberta_ids_by_counter(input_ids):
    ids = np.asarray(input_ids)
    out = np.full(ids.shape, 1, dtype=np.int64)
    for where in np.ndindex(*ids.shape[:-1]):
        seen = 1
        for n, token in enumerate(ids[where]):
            if token != 1:
                seen += 1
                out[(*where, n)] = seen
    return out


def roberta_ids_not_masked(input_ids):
    mask = (np.asarray(input_ids) != 1).astype(np.int64)
    return np.cumsum(mask, axis=-1) + 1


def roberta_ids_from_embeds(input_ids):
    """create_position_ids_from_inputs_embeds: there are no ids to look for padding in."""
    shape = np.asarray(input_ids).shape
    row = np.arange(1 + 1, shape[-1] + 1 + 1, dtype=np.int64)
    return np.broadcast_to(row, shape).copy()
