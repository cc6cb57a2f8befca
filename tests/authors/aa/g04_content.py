import math

import numpy as np
import torch

_g = lambda s, *shape: np.random.default_rng(s).integers(-64, 65, shape) / 64
KR1, QR1 = _g(11, 2, 16, 8), _g(12, 2, 16, 8)
KR2, QR2 = _g(13, 2, 16, 8), _g(14, 2, 16, 8)
SHAW, SPEECH = _g(15, 9, 8), _g(16, 8, 8)
WR, U, V = _g(17, 2, 8, 16), _g(18, 2, 8), _g(19, 2, 8)


def _offsets(q_len, k_len):
    return np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)[None, :]


def deberta_v1(q, k):
    d = q.shape[-1]
    span = KR1.shape[1] // 2
    r = torch.from_numpy(np.clip(_offsets(q.shape[2], k.shape[2]) + span, 0, 2 * span - 1))
    kr, qr = torch.from_numpy(KR1).to(q), torch.from_numpy(QR1).to(q)
    c2c = q @ k.mT
    c2p = torch.gather(q @ kr.mT, -1, r.expand(*q.shape[:3], k.shape[2]))
    p2c = torch.gather(k @ qr.mT, -1, r.mT.expand(*k.shape[:3], q.shape[2])).mT
    return (c2c + c2p + p2c) / math.sqrt(2 * d)


def disentangled(q, k):
    d, span = q.shape[-1], KR1.shape[1] // 2
    r = np.clip(_offsets(q.shape[2], k.shape[2]), -span + 1, span - 1) + span
    s = np.einsum("bhid,bhjd->bhij", q, k)
    s = s + np.einsum("bhid,hijd->bhij", q, KR1[:, r]) + np.einsum("bhjd,hijd->bhij", k, QR1[:, r])
    return (s / np.sqrt(3 * d)).astype(q.dtype)


def _log_bucket(x, bucket_size, max_position):
    sign = np.sign(x)
    mid = bucket_size // 2
    n = np.where((x < mid) & (x > -mid), mid - 1, np.abs(x))
    log_pos = np.ceil(np.log(n / mid) / np.log((max_position - 1) / mid) * (mid - 1)) + mid
    return np.where(n <= mid, x, log_pos * sign).astype(int)


def deberta_v2(q, k):
    d = q.shape[-1]
    span = KR2.shape[1] // 2
    x = _offsets(q.shape[2], k.shape[2])
    r = np.clip(_log_bucket(x, 8, 32) + span, 0, 2 * span - 1)
    s = np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64)
    s += np.einsum("bhid,hijd->bhij", q, KR2[:, r])
    p = np.clip(-_log_bucket(x, 8, 32) + span, 0, 2 * span - 1)
    s += np.einsum("bhjd,hijd->bhij", k, QR2[:, p])
    return (s / np.sqrt(3 * d)).astype(q.dtype)


def deberta_v3(q, k):
    d = q.shape[-1]
    span, buckets, max_position = 8, 8, 32
    x = torch.from_numpy(_offsets(q.shape[2], k.shape[2]))
    mid = buckets // 2
    far = mid + torch.floor(torch.log(x.abs().clamp(min=1).double() / mid) / math.log((max_position - 1) / mid) * (mid - 1))
    b = torch.where(x.abs() <= mid, x, (torch.sign(x) * far).long())
    r = (b + span).clamp(0, 2 * span - 1)
    kr, qr = torch.from_numpy(KR2), torch.from_numpy(QR2)
    q64, k64 = q.double(), k.double()
    s = q64 @ k64.mT + torch.einsum("bhid,hijd->bhij", q64, kr[:, r]) + torch.einsum("bhjd,hijd->bhij", k64, qr[:, r])
    return (s / math.sqrt(3 * d)).to(q.dtype)


def deberta_v3_loops(q, k):
    B, H, Q, d = q.shape
    K = k.shape[2]
    out = np.empty((B, H, Q, K))
    for i in range(Q):
        for j in range(K):
            x = i + K - Q - j
            n = abs(x)
            if n > 4:
                n = 4 + math.ceil(math.log(n / 4) / math.log(31 / 4) * 3)
            row = min(max((n if x > 0 else -n) + 8, 0), 15)
            out[:, :, i, j] = (q[:, :, i] * (k[:, :, j] + KR2[:, row]) + k[:, :, j] * QR2[:, row]).sum(-1)
    return (out / math.sqrt(3 * d)).astype(q.dtype)


def shaw_scores(q, k):
    before = after = 4
    r = np.clip(-_offsets(q.shape[2], k.shape[2]), -before, after) + before
    s = np.einsum("...id,...jd->...ij", q, k) / np.sqrt(q.shape[-1])
    return (s + np.einsum("...id,ijd->...ij", q, SHAW[r])).astype(q.dtype)


def left_right_scores(q, k):
    left, right = 6, 2
    distance = torch.from_numpy(-_offsets(q.shape[2], k.shape[2])).clamp(-right, left)
    emb = torch.from_numpy(SHAW).to(q.dtype)[distance + right]
    s = q @ k.mT + torch.einsum("bhld,lrd->bhlr", q, emb)
    return s / math.sqrt(q.shape[-1])


def speech_scores(q, k):
    L = 4
    pos = _offsets(q.shape[2], k.shape[2])
    pos = np.where(pos < -L, -L, pos)
    pos = np.where(pos > L, L - 1, pos)
    pos = np.where(pos == L, L - 1, pos)
    q = q * q.shape[-1] ** -0.5
    s = np.matmul(q, np.swapaxes(k, -1, -2))
    rel = np.matmul(np.moveaxis(q, 2, 0).reshape(q.shape[2], -1, q.shape[3]), np.swapaxes(SPEECH[pos + L], 1, 2))
    return s + np.moveaxis(rel.reshape(q.shape[2], q.shape[0], q.shape[1], -1), 0, 2).astype(q.dtype)


def _R(x, dim=16, order="concat"):
    x = np.asarray(x, np.float64)[..., None] / 10000.0 ** (2 * np.arange(dim // 2) / dim)
    if order == "concat":
        return np.concatenate([np.sin(x), np.cos(x)], axis=-1)
    return np.stack([np.sin(x), np.cos(x)], axis=-1).reshape(*x.shape[:-1], dim)


def _two_sided(x, q_len, k_len):
    back = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)[None, :]
    return x.gather(-1, (k_len - 1 - back).expand(*x.shape[:-1], k_len))


def xl_scores(q, k):
    Q, K = q.shape[2], k.shape[2]
    r = torch.from_numpy(np.einsum("hdD,kD->hkd", WR, _R(np.arange(K - 1, -K, -1)))).to(q.dtype)
    u = torch.from_numpy(U).to(q.dtype)[:, None]
    ac = (q + u) @ k.mT
    bd = (q + u) @ r.mT
    return (ac + _two_sided(bd, Q, K)) / math.sqrt(q.shape[-1])


def xl_clamped(q, k):
    d, Q, K = q.shape[-1], q.shape[2], k.shape[2]
    r = np.einsum("hdD,kD->hkd", WR, _R(np.arange(6, -7, -1)))
    if K > 7:
        r = np.concatenate([np.repeat(r[:, :1], K - 7, axis=1), r, np.repeat(r[:, -1:], K - 7, axis=1)], axis=1)
    else:
        r = r[:, 7 - K : 6 + K]
    ac = np.einsum("bhid,bhjd->bhij", q + U[:, None], k)
    bd = _two_sided(torch.from_numpy(np.einsum("bhid,hjd->bhij", q + V[:, None], r)), Q, K).numpy()
    return ((ac + bd) / np.sqrt(d)).astype(q.dtype)


def xl_memory(q, k):
    K = k.shape[2]
    r = np.einsum("hdD,kD->hkd", WR, _R(np.arange(K)))
    ac = np.einsum("bhid,bhjd->bhij", q + U[:, None], k)
    bd = np.einsum("bhid,hjd->bhij", q + V[:, None], r)
    B, H, Q, _ = bd.shape
    bd = np.concatenate([np.zeros((B, H, Q, 1)), bd], -1).reshape(B, H, K + 1, Q)[:, :, 1:].reshape(B, H, Q, K)
    return ((ac + bd) / np.sqrt(q.shape[-1])).astype(q.dtype)


def conformer_scores(q, k):
    B, H, Q, d = q.shape
    K = k.shape[2]
    r = np.einsum("hdD,kD->hkd", WR, _R(np.arange(K - 1, -K, -1), order="interleaved"))
    q64 = np.zeros((B, H, K, d))
    q64[:, :, K - Q :] = q
    bd = np.einsum("bhid,hjd->bhij", q64 + V[:, None], r)
    bd = np.pad(bd, ((0, 0), (0, 0), (0, 0), (1, 0))).reshape(B, H, 2 * K, K)[:, :, 1:].reshape(B, H, K, 2 * K - 1)[..., :K]
    ac = np.einsum("bhid,bhjd->bhij", q64 + U[:, None], k)
    return ((ac + bd) / np.sqrt(d))[:, :, K - Q :].astype(q.dtype)


def wenet_scores(q, k):
    d, K = q.shape[-1], k.shape[2]
    r = torch.from_numpy(np.einsum("hdD,kD->hkd", WR, _R(np.arange(K), order="interleaved"))).to(q)
    u, v = (torch.from_numpy(t).to(q)[:, None] for t in (U, V))
    return ((q + u) @ k.mT + (q + v) @ r.mT) / math.sqrt(d)
