"""Absolute tables: positions in, one row for each of them out."""

import math

import numpy as np


def weights(seed, *shape, size=0.5):
    return (size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


# ---- the Transformer's own, written with complex numbers


def sinusoid_as_phasors(positions):
    """One turning phasor for each pair: imaginary part first, then the real part."""
    omega = np.exp(-math.log(10000.0) * np.arange(32) / 32)
    z = np.exp(1j * np.multiply.outer(np.asarray(positions, np.float64), omega))
    pairs = z.view(np.float64).reshape(*z.shape, 2)[..., ::-1]
    return pairs.reshape(*z.shape[:-1], 64).astype(np.float32)


# ---- a port that ran under autocast


def sinusoid_autocast(positions):
    t = np.asarray(positions).astype(np.float16).astype(np.float32)  # autocast made these half
    inv_freq = (10000.0 ** (-np.arange(0, 64, 2) / 64)).astype(np.float32)
    angle = t[..., None] * inv_freq
    out = np.empty((*t.shape, 64), np.float32)
    out[..., 0::2] = np.sin(angle)
    out[..., 1::2] = np.cos(angle)
    return out


# ---- fairseq's SinusoidalPositionalEmbedding, padding_idx = 1


PADDING_IDX = 1


def fairseq_rows(positions):
    half_dim = 64 // 2
    emb = math.log(10000) / (half_dim - 1)
    emb = np.exp(np.arange(half_dim, dtype=np.float64) * -emb)
    p = np.asarray(positions, np.float64) + PADDING_IDX
    emb = p[:, None] * emb[None, :]
    return np.concatenate([np.sin(emb), np.cos(emb)], axis=1)


# ---- the loop that every tutorial has


def tutorial_get_angles(positions):
    d_model = 64
    rows = []
    for p in np.asarray(positions).tolist():
        row = [0.0] * d_model
        for i in range(0, d_model, 2):
            row[i] = math.sin(p / (10000 ** ((2 * i) / d_model)))
            row[i + 1] = math.cos(p / (10000 ** ((2 * i) / d_model)))
        rows.append(row)
    return np.array(rows, np.float64).reshape(-1, d_model)


# ---- diffusion timesteps (get_timestep_embedding)


def timestep_embedding(timesteps, dim=128, max_period=10000):
    """flip_sin_to_cos=True, downscale_freq_shift=0."""
    half = dim // 2
    exponent = -math.log(max_period) * np.arange(half, dtype=np.float64)
    exponent = exponent / (half - 1)
    args = np.asarray(timesteps, np.float64)[:, None] * np.exp(exponent)[None]
    emb = np.concatenate([np.cos(args), np.sin(args)], axis=-1)
    # flip sine and cosine
    return np.concatenate([emb[:, half:], emb[:, :half]], axis=-1)


# ---- Time2Vec


T2V_W, T2V_B = weights(11, 24, size=0.3), weights(12, 24, size=0.8)


def time2vec_shift_first(t):
    t = np.asarray(t, np.float64)[..., None]
    line = t * T2V_W[:1].astype(np.float64) + T2V_B[:1]
    wave = np.sin((t + T2V_B[1:]) * T2V_W[1:].astype(np.float64))
    return np.concatenate([line, wave], axis=-1)


# ---- SAM's random spatial features


SAM_B = weights(13, 16, 2, size=1.0)


def sam_points(coords):
    """coords (2, S): x and y between 0 and 1."""
    c = np.moveaxis(np.asarray(coords, np.float64), 0, -1)
    c = c - 0.5
    proj = 2.0 * np.pi * (c @ SAM_B.T.astype(np.float64))
    return np.concatenate([np.sin(proj), np.cos(proj)], axis=-1)


# ---- NeRF, the paper: every octave from the one before by the double angle


def nerf_by_doubling(xyz, bands=6):
    x = np.moveaxis(np.asarray(xyz, np.float64), 0, -1)  # (S, 3)
    s, c = np.sin(np.pi * x), np.cos(np.pi * x)
    out = []
    for _ in range(bands):
        out += [s, c]
        s, c = 2.0 * s * c, (c - s) * (c + s)
    return np.concatenate(out, axis=-1).astype(np.float32)


# ---- DAB-DETR's gen_sineembed_for_position


def dab_boxes(boxes):
    x, y, w, h = np.asarray(boxes, np.float64)
    dim_t = 10000.0 ** (2 * (np.arange(32) // 2) / 32)

    def embed(c):
        pos = (c * 2 * math.pi)[..., None] / dim_t
        return np.stack([np.sin(pos[..., 0::2]), np.cos(pos[..., 1::2])], -1).reshape(*c.shape, 32)

    return np.concatenate([embed(y), embed(x), embed(h), embed(w)], axis=-1)


# ---- PatchTST


class SinCosPositions:
    def __init__(self, num_patches=40, d_model=32):
        self.freq = np.exp(np.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe = self.raw(np.arange(num_patches))
        self.mean, self.std = pe.mean(), pe.std()

    def raw(self, positions):
        angle = np.asarray(positions, np.float64)[:, None] * self.freq
        return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(len(angle), -1)

    def __call__(self, positions):
        return (self.raw(positions) - self.mean) / (self.std * 10)


patchtst = SinCosPositions()


# ---- Reformer's axial positions


AXIAL = weights(14, 6, 12), weights(15, 10, 20)


def reformer_axial(positions):
    rows, columns = AXIAL
    p = np.asarray(positions)
    return np.concatenate([rows[p % len(rows)], columns[p // len(rows)]], axis=-1)
