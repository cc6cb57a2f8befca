"""Sinusoidal tables, as found in tutorials, speech models, diffusion and vision code."""
import math

import numpy as np
import torch


def tf_tutorial_table(positions):
    d_model = 48
    i = np.arange(d_model)[np.newaxis, :]
    rates = 1.0 / np.power(10000.0, i / np.float64(d_model))
    rads = np.asarray(positions, dtype=np.float64)[:, np.newaxis] * rates
    rads[:, 0::2] = np.sin(rads[:, 0::2])
    rads[:, 1::2] = np.cos(rads[:, 1::2])
    return rads.astype(np.float32)


def diffusion_timesteps(timesteps):
    half = 32
    exponent = torch.linspace(0, 1, half, dtype=torch.float64)
    freqs = torch.exp(-math.log(10000.0) * exponent)
    args = timesteps[:, None].double() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1).float()


def tensor2tensor_odd(positions):
    channels = 33
    num = channels // 2
    inc = math.log(10000.0) / (num - 1)
    inv = np.exp(np.arange(num) * -inc)
    scaled = (np.asarray(positions, np.float64)[:, None]) * inv[None, :]
    signal = np.concatenate(
        [np.sin(scaled), np.zeros((scaled.shape[0], channels % 2)), np.cos(scaled)], axis=1
    )
    return signal


class WhisperPositions(torch.nn.Module):
    """Audio encoder positions; the model is kept in bfloat16 but the waves in float32."""

    def __init__(self, channels=40):
        super().__init__()
        inc = math.log(10000) / (channels // 2 - 1)
        self.register_buffer("inv", torch.exp(-inc * torch.arange(channels // 2).double()))

    def forward(self, positions):
        t = positions.to(torch.bfloat16)
        angle = t.double()[:, None] * self.inv[None]
        return torch.cat([angle.sin(), angle.cos()], 1).float()


_whisper = WhisperPositions()


def whisper_bf16(positions):
    return _whisper(positions)


def fairseq_positions(positions):
    # fairseq.SinusoidalPositionalEmbedding, padding_idx = 1
    dim = 48
    half = dim // 2
    step = math.log(10000) / half
    freq = np.exp(np.arange(half, dtype=np.float64) * -step)
    p = np.asarray(positions, dtype=np.float64)
    e = p[:, None] * freq[None]
    return np.concatenate([np.sin(e), np.cos(e)], axis=1)


def mae_table(positions):
    """positions (2, S): row and column of every patch; 64 columns."""
    embed_dim = 64

    def one_axis(pos):
        omega = np.arange(embed_dim // 4, dtype=np.float64)
        omega /= embed_dim / 2.0
        omega = 1.0 / 10000**omega
        out = np.einsum("m,d->md", pos.reshape(-1).astype(np.float64), omega)
        return np.concatenate([np.sin(out), np.cos(out)], axis=1)

    positions = np.asarray(positions)
    return np.concatenate([one_axis(positions[0]), one_axis(positions[1])], axis=1)


def video_table(positions):
    """positions (3, S): frame, row, column; 16 + 24 + 24 columns."""
    t, y, x = np.asarray(positions, np.float64)
    wt = 10000.0 ** (-np.arange(8) / 8)
    wy = 10000.0 ** (-np.arange(12) / 8)
    wx = 10000.0 ** (-np.arange(12) / 12)
    cols = []
    for p, w in ((t, wt), (y, wy), (x, wx)):
        a = np.multiply.outer(p, w)
        cols += [np.sin(a), np.cos(a)]
    return np.hstack(cols)


def phasors(positions):
    """The paper's table as one complex number for every pair."""
    p = np.asarray(positions, np.float64)
    w = np.exp(np.arange(24) * (-math.log(10000.0) / 24))
    z = np.exp(1j * np.multiply.outer(p, w))  # cos + i sin
    z = 1j * np.conj(z)  # sin + i cos
    return np.ascontiguousarray(z).view(np.float64).reshape(p.shape[0], 48)


# ---- added to embeddings


def scaled_embeddings(x):
    b, s, d = x.shape
    p = np.arange(s)[:, None]
    w = np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))
    pe = np.empty((s, d))
    pe[:, 0::2] = np.sin(p * w)
    pe[:, 1::2] = np.cos(p * w)
    x = x * np.sqrt(d)
    return (x + pe[None]).astype(x.dtype)


class PositionalEncoding(torch.nn.Module):
    def __init__(self, d_model, max_len=6000):
        super().__init__()
        position = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).double() * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model, dtype=torch.float64)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return (x + self.pe[: x.size(0)]).to(x.dtype)


_positional_encoding = PositionalEncoding(32)


def add_batch_first(x):
    return _positional_encoding(x)


class GrowingTable:
    """fairseq style: the table is rebuilt when a longer batch arrives."""

    def __init__(self, dim):
        self.dim, self.table = dim, None

    def __call__(self, x):
        s = x.shape[1]
        if self.table is None or len(self.table) < s:
            k = self.dim // 2
            w = np.exp(-math.log(10000) * np.arange(k) / (k - 1))
            a = np.outer(np.arange(s), w)
            self.table = np.concatenate([np.sin(a), np.cos(a)], axis=1)
        return (x + self.table[-s:]).astype(x.dtype)


growing = GrowingTable(40)


# ---- rows 0 .. S-1


def patchtst_rows(seq_len):
    """PatchTST, pe="sincos", 40 patches of 16 channels."""
    d_model = 16
    pe = np.zeros((seq_len, d_model))
    position = np.arange(seq_len)[:, None]
    div = np.exp(np.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    pe[:, 0::2], pe[:, 1::2] = np.sin(position * div), np.cos(position * div)
    ref = pe
    pe = pe - ref.mean()
    return pe / (ref.std(ddof=1) * 10)


class BlockedRows:
    """Keeps whole blocks of 128 rows, and makes another block when one is needed."""

    BLOCK = 128

    def __init__(self, dim=24):
        self.freq = 10000.0 ** (-2.0 * np.arange(dim // 2) / dim)
        self.blocks = []

    def _block(self, number):
        t = np.arange(self.BLOCK, dtype=np.float64)
        a = t[:, None] * self.freq
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(self.BLOCK, -1)

    def __call__(self, seq_len):
        while len(self.blocks) * self.BLOCK < seq_len:
            self.blocks.append(self._block(len(self.blocks)))
        if not self.blocks:
            return np.zeros((0, 2 * self.freq.size))
        return np.concatenate(self.blocks)[:seq_len].astype(np.float32)


blocked_rows = BlockedRows()


def marian_rows(seq_len):
    """C++ of Marian, number by number: an odd dim has one sine more than cosines."""
    dim = 31
    sines = (dim + 1) // 2
    buf = [0.0] * (seq_len * dim)
    for j in range(dim):
        k = j if j < sines else j - sines
        f = math.pow(10000.0, -2.0 * k / dim)
        fn = math.sin if j < sines else math.cos
        for p in range(seq_len):
            buf[p * dim + j] = fn(p * f)
    return np.array(buf, dtype=np.float32).reshape(seq_len, dim)


# ---- grids


def detr_grid(height, width):
    """DETR, an image without padding: 32 columns for y, 32 for x."""
    num, eps, two_pi = 32, 1e-6, 2 * math.pi
    y = np.arange(0, height, dtype=np.float64)
    x = np.arange(0, width, dtype=np.float64)
    y = y / (height + eps) * two_pi
    x = x / (width + eps) * two_pi
    dim_t = 10000.0 ** (2 * (np.arange(num) // 2) / num)

    def enc(c):
        a = c[:, None] / dim_t
        return np.stack((np.sin(a[:, 0::2]), np.cos(a[:, 1::2])), axis=2).reshape(len(c), -1)

    py = np.broadcast_to(enc(y)[:, None], (height, width, num))
    px = np.broadcast_to(enc(x)[None, :], (height, width, num))
    return np.concatenate([py, px], axis=-1).reshape(height * width, 2 * num)


def pixart_grid(height, width):
    """diffusers get_2d_sincos_pos_embed with base_size 16: positions are scaled to 16 x 16."""
    dim, base_size = 32, 16.0
    gh = np.arange(height) / (height / base_size)
    gw = np.arange(width) / (height / base_size)
    w_of, h_of = np.meshgrid(gw, gh)
    omega = 10000.0 ** (-np.arange(dim // 4) / (dim / 4.0))

    def enc(pos):
        out = pos.reshape(-1, 1) * omega
        return np.concatenate([np.sin(out), np.cos(out)], axis=1)

    return np.concatenate([enc(w_of), enc(h_of)], axis=1)


def moco_grid(height, width):
    """MoCo v3: build_2d_sincos_position_embedding, 40 columns."""
    pos_dim = 40 // 4
    gw, gh = np.meshgrid(np.arange(width), np.arange(height))
    omega = 1.0 / (10000.0 ** np.linspace(0.0, 1.0, pos_dim))
    out_w = np.einsum("m,d->md", gw.flatten(), omega)
    out_h = np.einsum("m,d->md", gh.flatten(), omega)
    return np.concatenate(
        [np.cos(out_h), np.sin(out_h), np.cos(out_w), np.sin(out_w)], axis=1
    )


def detr_mask_grid(height, width):
    """Deformable DETR by cumulative sums of a mask, in torch float32."""
    mask = torch.zeros(1, height, width, dtype=torch.bool)
    not_mask = ~mask
    y = not_mask.cumsum(1, dtype=torch.float32)
    x = not_mask.cumsum(2, dtype=torch.float32)
    y = (y - 0.5) / (y[:, -1:, :] + 1e-6) * (2 * math.pi)
    x = (x - 0.5) / (x[:, :, -1:] + 1e-6) * (2 * math.pi)
    dim_t = torch.arange(24, dtype=torch.float32)
    dim_t = 10000 ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / 24)
    px, py = x[..., None] / dim_t, y[..., None] / dim_t
    px = torch.stack((px[..., 0::2].sin(), px[..., 1::2].cos()), dim=4).flatten(3)
    py = torch.stack((py[..., 0::2].sin(), py[..., 1::2].cos()), dim=4).flatten(3)
    return torch.cat((py, px), dim=3)[0].reshape(height * width, 48).numpy()


def timm_grid(height, width):
    """timm build_sincos2d_pos_embed: the sines of both axes, then the cosines of both."""
    bands = 10000.0 ** (-np.arange(8) / 8.0)
    at = np.indices((height, width)).reshape(2, -1).T  # (N, 2), row and column
    angle = at[:, :, None] * bands  # (N, 2, bands)
    both = np.stack([np.sin(angle), np.cos(angle)], axis=1)  # (N, 2, 2, bands)
    return both.reshape(height * width, 32)
