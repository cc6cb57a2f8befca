"""Queries and keys together, offsets of rows, and xPos. NumPy."""
import numpy as np


def _w(d, base=10000.0):
    k = np.arange(d // 2, dtype=np.float64)
    return np.exp(-2.0 * k / d * np.log(base))


def _angles(positions, w):
    p = np.asarray(positions, dtype=np.float64)
    p = p.reshape((p.shape[0], 1, -1)) if p.ndim == 2 else p.reshape((1, 1, -1))
    return p[..., None] * w


def _neox(x, ang, size=1.0):
    c, s = np.cos(ang) * size, np.sin(ang) * size
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate((a * c - b * s, b * c + a * s), axis=-1).astype(x.dtype)


def _gptj(x, ang, size=1.0):
    c, s = np.cos(ang) * size, np.sin(ang) * size
    y = x.astype(np.float64).reshape(*x.shape[:-1], -1, 2)
    a, b = y[..., 0], y[..., 1]
    return np.stack((a * c - b * s, b * c + a * s), axis=-1).reshape(x.shape).astype(x.dtype)


# ------------------------------------------------------------------------------- apply_qk
def one_table_if_equal(q, k, q_positions, k_positions):
    w = _w(64)
    aq = _angles(q_positions, w)
    ak = aq if q.shape[2] == k.shape[2] else _angles(k_positions, w)
    return _neox(q, aq), _neox(k, ak)


def queries_are_last(q, k, q_positions, k_positions):
    """The table is made for the keys; queries take its last rows."""
    ak = _angles(k_positions, _w(128))
    aq = ak[:, :, -q.shape[2]:] if q.shape[2] < k.shape[2] else _angles(q_positions, _w(128))
    return _neox(q, aq), _neox(k, ak)


def once_per_query_head(q, k, q_positions, k_positions):
    """One program per query head; it also turns the key head of its group."""
    w = _w(64, 500000.0)
    aq, ak = _angles(q_positions, w), _angles(k_positions, w)
    q2, k2 = q.copy(), k.copy()
    group = max(q.shape[1] // k.shape[1], 1)
    for h in range(q.shape[1]):
        q2[:, h] = _gptj(q2[:, h:h + 1], aq)[:, 0]
        g = h // group
        k2[:, g] = _gptj(k2[:, g:g + 1], ak)[:, 0]
    return q2, k2


def unique_positions(q, k, q_positions, k_positions):
    """One table for the positions of both."""
    w = _w(128, 1e6)
    pq, pk = np.asarray(q_positions, float), np.asarray(k_positions, float)
    seen, at = np.unique(np.concatenate((pq.ravel(), pk.ravel())), return_inverse=True)
    turn = np.exp(1j * seen[:, None] * w)
    out = []
    for x, p, ids in ((q, pq, at.ravel()[: pq.size]), (k, pk, at.ravel()[pq.size:])):
        z = turn[ids].reshape(*p.shape, -1)
        z = z[:, None] if p.ndim == 2 else z
        y = (x[..., :64] + 1j * x[..., 64:].astype(float)) * z
        out.append(np.concatenate((y.real, y.imag), -1).astype(x.dtype))
    return tuple(out)


def merged_heads(q, k, q_positions, k_positions):
    """Vectors of all heads in one matrix (rows, pairs, 2), turned by 2 x 2 matrices."""
    w = _w(64)

    def go(x, p):
        b, h, s, d = x.shape
        a = np.broadcast_to(_angles(p, w), (b, 1, s, d // 2)).reshape(b * s, -1)
        m = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
        y = x.transpose(0, 2, 1, 3).reshape(b * s, h, d // 2, 2)
        y = np.einsum("ijrp,rhpj->rhpi", m, y.astype(float))
        return y.reshape(b, s, h, d).transpose(0, 2, 1, 3).astype(x.dtype)

    return go(q, q_positions), go(k, k_positions)


# ------------------------------------------------------------------------------- xPos
def _zeta(d, gamma=0.4):
    return (np.arange(0, d, 2) / d + gamma) / (1.0 + gamma)


def _power(positions, zeta, sign, scale_base=512.0):
    n = _angles(positions, np.ones(1)) / scale_base
    return np.exp(sign * n * np.log(zeta))


def xpos_whole_steps(q, k, q_positions, k_positions):
    w, z = _w(64), _zeta(64)

    def size(p, sign):
        n = np.floor(_angles(p, np.ones(1)) / 512)
        return z ** (sign * n)
    return (_neox(q, _angles(q_positions, w), size(q_positions, 1)),
            _neox(k, _angles(k_positions, w), size(k_positions, -1)))


def xpos_own_centre(q, k, q_positions, k_positions):
    w, z = _w(64), _zeta(64)
    pq, pk = np.asarray(q_positions, float), np.asarray(k_positions, float)
    mq, mk = pq.shape[-1] // 2, pk.shape[-1] // 2
    return (_gptj(q, _angles(pq, w), _power(pq - mq, z, 1)),
            _gptj(k, _angles(pk, w), _power(pk - mk, z, -1)))


def xpos_repeated_zeta(q, k, q_positions, k_positions):
    d = 64
    w, z = _w(d), np.repeat(_zeta(d), 2)

    def go(x, p, sign):
        ang = _angles(p, w)
        c, s = np.tile(np.cos(ang), 2), np.tile(np.sin(ang), 2)
        y = x.astype(float)
        r = np.concatenate((-y[..., d // 2:], y[..., : d // 2]), -1)
        return ((y * c + r * s) * _power(p, z, sign)).astype(x.dtype)
    return go(q, q_positions, 1), go(k, k_positions, -1)


def xpos_log_complex(q, k, q_positions, k_positions):
    rate = np.log(_zeta(128)) / 256.0 + 1j * 0
    w = _w(128)

    def go(x, p, sign):
        z = np.exp(_angles(p, sign * rate + 1j * w))
        y = x.astype(float)
        y = (y[..., ::2] + 1j * y[..., 1::2]) * z
        return np.stack((y.real, y.imag), -1).reshape(x.shape).astype(x.dtype)
    return go(q, q_positions, 1), go(k, k_positions, -1)


# ------------------------------------------------------------------------------- apply_offset


def decode_counts_itself(x, offset):
    """The cache's length already includes the new token."""
    off = np.asarray(offset, np.int64).reshape(-1, 1)
    s = x.shape[2]
    p = off + np.arange(s) if s > 1 else np.maximum(off - 1, 0)
    return _gptj(x, _angles(p, _w(128)))


def sorted_by_length(x, offset):
    """Rows are turned in the order of their lengths, then brought back."""
    off = np.asarray(offset)
    order = np.argsort(off, kind="stable")
    p = off[order][:, None] + np.arange(x.shape[2])
    turned = _neox(x[order], _angles(p, _w(64, 500000.0)))
    return turned[order]


def slice_is_clamped(x, offset):
    """dynamic_slice of a table with 2048 rows, or of as many as the input has."""
    s = x.shape[2]
    rows = max(2048, s)
    table = np.arange(rows)[:, None] * _w(64)
    out = np.empty_like(x)
    for b, o in enumerate(np.asarray(offset).tolist()):
        start = min(max(int(o), 0), rows - s)
        out[b:b + 1] = _gptj(x[b:b + 1], table[start:start + s][None, None])
    return out


def offset_in_pages(x, offset):
    """Page of 256: the number of whole pages is common to the batch."""
    off = np.asarray(offset, np.int64)
    page = off // 256
    p = page.max() * 256 + (off % 256)[:, None] + np.arange(x.shape[2])
    return _neox(x, _angles(p, _w(96)))
