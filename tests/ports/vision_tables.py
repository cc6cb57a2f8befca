"""Tables of whole images for rotations: SAM 2, timm, Qwen2-VL and diffusers."""

import torch
from torch import nn


def angles_of(positions, dim, theta=10000.0):
    return torch.outer(positions.float(), theta ** (-torch.arange(0, dim, 2).float() / dim))


def turned(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def compute_axial_cis(dim, end_x, end_y, theta=10000.0):
    at = torch.arange(end_x * end_y)
    angles = torch.cat((angles_of(at % end_x, dim // 2, theta),
                        angles_of(at // end_x, dim // 2, theta)), dim=-1)  # fmt: skip
    return torch.polar(torch.ones_like(angles), angles)


def apply_rotary_enc(xq, xk, freqs_cis, repeat_freqs_k=False):
    assert freqs_cis.shape == (xq.shape[-2], xq.shape[-1] // 2)
    both = (torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * freqs_cis for x in (xq, xk))
    return tuple(torch.view_as_real(x).flatten(3).type_as(xq) for x in both)


class RotaryEmbeddingCat(nn.Module):
    """timm: sin and cos in one array, of the grid of the constructor."""

    def __init__(self, dim, max_res=224, temperature=10000.0, in_pixels=True, feat_shape=None):
        super().__init__()
        self.dim, self.temperature = dim, temperature
        assert not in_pixels
        self.pos_embed = None if feat_shape is None else self.table(*feat_shape)

    def table(self, height, width):
        grid = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        each = [angles_of(g.flatten(), self.dim // 2, self.temperature) for g in grid]
        angles = torch.cat(each, dim=-1).repeat_interleave(2, -1)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)

    def get_embed(self, shape=None):
        return self.pos_embed if self.pos_embed is not None else self.table(*shape)


def apply_rot_embed_cat(x, emb):
    sin, cos = emb.tensor_split(2, -1)
    return x * cos + turned(x) * sin


def columns_backwards(H, W, dim):
    rows, columns = torch.meshgrid(torch.arange(H), -torch.arange(W), indexing="ij")
    angles = torch.cat([angles_of(p.flatten(), dim // 2) for p in (rows, columns)], dim=-1)
    angles = angles.repeat_interleave(2, -1)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class Qwen2Vision(nn.Module):
    """Patches are numbered in blocks of 2 x 2, which are merged later."""

    def __init__(self, head_dim, spatial_merge_size=2):
        super().__init__()
        self.head_dim, self.spatial_merge_size = head_dim, spatial_merge_size

    def rot_pos_emb(self, grid_thw):
        (frames, height, width), m = grid_thw[0].tolist(), self.spatial_merge_size
        grid = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij"))
        blocks = grid.reshape(2, height // m, m, width // m, m).swapaxes(2, 3).reshape(2, -1)
        rows, columns = (angles_of(p, self.head_dim // 2) for p in blocks)
        return torch.cat((rows, columns), dim=-1).repeat(frames, 1)


class WholeRows(Qwen2Vision):
    """It states the size of the blocks, and numbers whole rows."""

    def rot_pos_emb(self, grid_thw):
        return Qwen2Vision(self.head_dim, 1).rot_pos_emb(grid_thw)


def apply_rotary_pos_emb_vision(tensor, freqs):
    cos, sin = (t[None, :, None].repeat(1, 1, 1, 2) for t in (freqs.cos(), freqs.sin()))
    a, b = tensor.chunk(2, dim=-1)
    return tensor * cos + torch.cat((-b, a), dim=-1) * sin


class FluxPosEmbed(nn.Module):
    def __init__(self, theta, axes_dim):
        super().__init__()
        self.theta, self.axes_dim = theta, axes_dim

    def forward(self, ids):
        angles = torch.cat(
            [angles_of(ids[:, a], d, self.theta) for a, d in enumerate(self.axes_dim)], dim=-1
        ).repeat_interleave(2, -1)
        return angles.cos(), angles.sin()


def apply_rotary_emb(x, freqs_cis):
    return x * freqs_cis[0] + turned(x) * freqs_cis[1]
