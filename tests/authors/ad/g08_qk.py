"""Queries and keys together; xPos."""
import numpy as np


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _ang(p, d, base=10000.0):
    p = np.asarray(p, np.float64)
    a = p[..., None] * _inv(d, base)
    return a if p.ndim == 1 else a[:, None]


def _pairs(x, a, size=1.0, size_sin=None):
    c, s = np.cos(a) * size, np.sin(a) * (size if size_sin is None else size_sin)
    y = np.empty_like(x)
    e, o = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    y[..., ::2], y[..., 1::2] = e * c - o * s, o * c + e * s
    return y


def _halves(x, a):
    c, s = np.cos(a), np.sin(a)
    h = x.shape[-1] // 2
    e, o = x[..., :h].astype(np.float64), x[..., h:].astype(np.float64)
    return np.concatenate([e * c - o * s, o * c + e * s], -1).astype(x.dtype)


def _n(p, scale_base, centre=0.0):
    p = np.asarray(p, np.float64)
    n = (p - centre) / scale_base
    return n[..., None] if p.ndim == 1 else n[:, None, :, None]


def _zeta(d, gamma=0.4):
    return (np.arange(0, d, 2) + gamma * d) / ((1 + gamma) * d)


def xpos_both(q, k, q_positions, k_positions):
    """xPos of the paper in numpy, powers through exp/log."""
    lz = np.log(_zeta(64))
    return (_pairs(q, _ang(q_positions, 64), np.exp(lz * _n(q_positions, 512.0))),
            _pairs(k, _ang(k_positions, 64), np.exp(-lz * _n(k_positions, 512.0))))


def gqa_joined(q, k, q_positions, k_positions):
    """Rotates queries group by group, one key head at a time."""
    qo, ko = np.empty_like(q), np.empty_like(k)
    aq, ak = _ang(q_positions, 128, 500000.0), _ang(k_positions, 128, 500000.0)
    group = max(q.shape[1] // max(k.shape[1], 1), 1)
    for h in range(k.shape[1]):
        ko[:, h:h + 1] = _halves(k[:, h:h + 1], ak)
    for h in range(0, q.shape[1], group):
        qo[:, h:h + group] = _halves(q[:, h:h + group], aq)
    return qo, ko


# ------------------------------------------------------------------------------------------------

def qk_only_kv_heads(q, k, q_positions, k_positions):
    qo, ko = np.array(q), np.array(k)
    aq, ak = _ang(q_positions, 128, 500000.0), _ang(k_positions, 128, 500000.0)
    for h in range(k.shape[1]):
        qo[:, h:h + 1] = _halves(q[:, h:h + 1], aq)
        ko[:, h:h + 1] = _halves(k[:, h:h + 1], ak)
    return qo, ko


def qk_tail_positions(q, k, q_positions, k_positions):
    kp = np.asarray(k_positions)
    qp = kp[..., kp.shape[-1] - q.shape[2]:] if q.shape[2] <= kp.shape[-1] else np.asarray(q_positions)
    return _halves(q, _ang(qp, 64)), _halves(k, _ang(kp, 64))


def qk_local_base_for_keys(q, k, q_positions, k_positions):
    """Keys get the table of the local layers (10000), queries that of the global ones (1e6)."""
    return _halves(q, _ang(q_positions, 64, 1e6)), _halves(k, _ang(k_positions, 64, 1e4))


def xpos_centre_of_call(q, k, q_positions, k_positions):
    lz = np.log(_zeta(64))
    mid = lambda p: np.asarray(p).shape[-1] // 2
    return (_pairs(q, _ang(q_positions, 64), np.exp(lz * _n(q_positions, 512.0, mid(q_positions)))),
            _pairs(k, _ang(k_positions, 64), np.exp(-lz * _n(k_positions, 512.0, mid(k_positions)))))


def xpos_whole_steps(q, k, q_positions, k_positions):
    lz = np.log(_zeta(64))
    return (_pairs(q, _ang(q_positions, 64), np.exp(lz * np.floor(_n(q_positions, 512.0)))),
            _pairs(k, _ang(k_positions, 64), np.exp(-lz * np.floor(_n(k_positions, 512.0)))))


def xpos_two(q, k, q_positions, k_positions):
    """Two faults: see cases."""
    lz = np.log(_zeta(64, 0.5))
    return (_pairs(q, _ang(q_positions, 64), np.exp(lz * _n(q_positions, 256.0))),
            _pairs(k, _ang(k_positions, 64), np.exp(-lz * _n(k_positions, 256.0))))
