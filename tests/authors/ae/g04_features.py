"""Fourier features, Time2Vec, PatchTST's table."""

import numpy as np


def _w(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


_SAM = _w(41, 32, 2)  # (pairs, 2): rows of the transposed gaussian matrix


# --- right -------------------------------------------------------------------------------


def sam_table(positions):
    """SAM: coordinates to -1 .. 1, a matrix product, turns; float64 inside."""
    xy = np.moveaxis(np.asarray(positions, np.float64), 0, -1)
    turns = (2.0 * xy - 1.0) @ _SAM.T.astype(np.float64)
    turns = turns - np.round(turns)  # range reduction before the factor 2 pi
    a = 2.0 * np.pi * turns
    return np.concatenate([np.sin(a), np.cos(a)], -1).astype(np.float32)


def nerf_table(positions):
    """NeRF's embedder: a list of closures, the input first, no pi."""
    v = np.moveaxis(np.asarray(positions, np.float64), 0, -1)
    fns = [lambda x: x]
    for level in range(6):
        for p in (np.sin, np.cos):
            fns.append(lambda x, p=p, f=2.0**level: p(x * f))
    return np.concatenate([fn(v) for fn in fns], -1).astype(np.float32)


# --- wrong -------------------------------------------------------------------------------


def sam_matrix_reshaped(positions):
    xy = np.moveaxis(np.asarray(positions, np.float64), 0, -1)
    a = 2 * np.pi * ((2 * xy - 1) @ _SAM.reshape(2, 32).astype(np.float64))
    return np.concatenate([np.sin(a), np.cos(a)], -1).astype(np.float32)


def perceiver_endpoint(positions):
    v = np.moveaxis(np.asarray(positions, np.float64), 0, -1)
    f = [1 + np.arange(8) * (n / 2 - 1) / 8 for n in (32, 48)]  # endpoint left out
    a = np.pi * np.concatenate([v[..., i, None] * f[i] for i in range(2)], -1)
    return np.concatenate([v, np.sin(a), np.cos(a)], -1).astype(np.float32)


_T2V_W = (0.05 + np.abs(_w(42, 16))).astype(np.float32)
_T2V_B = _w(43, 16)


def time2vec_phase_inside(positions):
    """sin(w (t + b)): the phase is multiplied by the frequency."""
    t = np.asarray(positions, np.float64)[..., None]
    w, b = _T2V_W.astype(np.float64), _T2V_B.astype(np.float64)
    return np.concatenate([w[:1] * t + b[:1], np.sin(w[1:] * (t + b[1:]))], -1).astype(np.float32)


def patchtst_call_statistics(positions):
    p = np.asarray(positions, np.float64)
    a = p[..., None] * 10000.0 ** (-np.arange(8) / 8)
    pe = np.stack([np.sin(a), np.cos(a)], -1).reshape(*p.shape, 16)
    pe = pe - pe.mean()
    n = pe.size
    std = np.sqrt((pe**2).sum() / max(n - 1, 1))
    return (pe / (10.0 * max(std, 1e-12))).astype(np.float32)
