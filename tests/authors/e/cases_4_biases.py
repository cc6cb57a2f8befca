"""Biases: bias, slopes, rank_slopes, bucket, relative_index."""

import bisect
import math

import numpy as np

from posenc_ref import (
    FIRE,
    ALiBi,
    BEiTBias,
    DeBERTa,
    DynamicBias,
    ForgettingBias,
    Kerple,
    LeViTBias,
    LogCPB,
    ResidueBias,
    Sandwich,
    SwinBias,
    T5Bias,
)

_rng = np.random.default_rng(44)


def _offsets(q_len, k_len):
    """Query minus key."""
    return (np.arange(q_len) + k_len - q_len)[:, None] - np.arange(k_len)


def _cut(whole, q_len, k_len):
    """The queries k_len - q_len .. k_len - 1 and the keys 0 .. k_len - 1 of a whole window."""
    if k_len > whole.shape[-1]:
        raise ValueError(f"the window has {whole.shape[-1]} tokens")
    return whole[:, k_len - q_len : k_len, :k_len]


# --- slopes -----------------------------------------------------------------------------------------
def _slopes(first):
    def slopes(num_heads):
        c = 2 ** math.floor(math.log2(num_heads))
        own = [2.0 ** (-8.0 * h / c) for h in range(1, c + 1)]
        more = [2.0 ** (-4.0 * h / c) for h in range(1, 2 * c + 1)]
        return np.array(own + more[first::2][: num_heads - c])

    return slopes


def _sorted_slopes(ordered):
    def slopes(num_heads):
        c = 1 << (num_heads.bit_length() - 1)
        m = np.exp2(-8.0 * np.arange(1, c + 1) / c)
        if num_heads > c:
            m = np.concatenate([m, np.exp2(-4.0 * np.arange(1, 2 * (num_heads - c), 2) / c)])
        return np.sort(m)[::-1] if ordered else m

    return slopes


def _rank_slopes(whole):
    def all_slopes(n):
        c = 1 << (n.bit_length() - 1)
        m = [2.0 ** (-8 * h / c) for h in range(1, c + 1)]
        return np.array(m + [2.0 ** (-4 * h / c) for h in range(1, 2 * (n - c), 2)])

    def rank_slopes(num_heads, tp_size, tp_rank):
        n = num_heads // tp_size
        return all_slopes(num_heads)[tp_rank * n : (tp_rank + 1) * n] if whole else all_slopes(num_heads)[tp_rank::tp_size]

    return rank_slopes


# --- e072 (right): BLOOM's row, e073: the distance of keys in 8 bits ----------------------------------------
def bloom_row(q_len, k_len):
    m = np.exp2(-np.arange(1, 9, dtype=np.float64))
    return (m[:, None] * np.arange(k_len))[:, None, :]


def _alibi_tiles(lost):
    m = ALiBi(12, causal=False).slopes()

    def bias(q_len, k_len):
        out = np.empty((12, q_len, k_len), np.float32)
        for start in range(0, k_len, 64):
            keys = np.arange(start, min(start + 64, k_len))
            i = np.arange(q_len) + (k_len - q_len)
            r = i[:, None] - keys
            if lost:  # keys after the query inside the query's own tile of keys keep their sign
                same = (i // 64 == start // 64)[:, None]
                d = np.where(same, r, np.abs(r))
            else:
                d = np.abs(r)
            out[:, :, keys] = -m[:, None, None] * d
        return out

    return bias


# --- T5 ---------------------------------------------------------------------------------------------------
_T5 = _rng.standard_normal((32, 6)).astype(np.float32)


def _t5_bucket(exact_half):
    """Bidirectional."""
    starts = T5Bias(_T5).thresholds

    def bucket(relative_position):
        r = np.asarray(relative_position)
        n = np.abs(r).astype(np.int64)
        if exact_half:
            b = np.searchsorted(np.array(starts), n, side="right")
        else:  # max_exact is half of all buckets, not half of those of one direction
            b = np.where(n < 16, np.minimum(n, 15), 15)
        return b + np.where(r > 0, 16, 0)

    return bucket


def bisect_bucket(relative_position):
    """Causal, without a logarithm."""
    starts = []
    for t in range(1, 16):
        n = 16
        while n**16 * 16**t < 128**t * 16**16:
            n += 1
        starts.append(n)
    starts = [*range(1, 17), *starts]
    r = np.asarray(relative_position)
    flat = [bisect.bisect_right(starts, max(-int(v), 0)) for v in r.ravel()]
    return np.array(flat, np.int64).reshape(r.shape)


def _t5_last(reachable):
    starts = T5Bias(_T5, bidirectional=False).thresholds

    def bucket(relative_position):
        n = np.maximum(-np.asarray(relative_position), 0)
        if not reachable:
            n = np.minimum(n, 100)
        return np.searchsorted(np.array(starts), n, side="right")

    return bucket


def _t5_cached(offset):
    enc = T5Bias(_T5, bidirectional=False)
    starts = np.array(enc.thresholds)

    def bias(q_len, k_len):
        context = np.arange(q_len)[:, None] + (k_len - q_len if offset else 0)
        n = np.maximum(context - np.arange(k_len), 0)
        return _T5[np.searchsorted(starts, n, side="right")].transpose(2, 0, 1)

    return bias


# --- DeBERTa's buckets ------------------------------------------------------------------------------------


# --- Kerple -------------------------------------------------------------------------------------------------
_R1, _R2 = np.linspace(0.3, 2.0, 10), np.linspace(0.2, 1.8, 10)


def _kerple(later_heads):
    def bias(q_len, k_len):
        d = np.abs(_offsets(q_len, k_len)).astype(np.float64)
        out = np.empty((10, q_len, k_len))
        for h in range(10):
            a, b = _R1[h], _R2[h]
            if later_heads and h >= 8:
                a, b = b, a
            out[h] = -a * np.log1p(b * d)
        return out.astype(np.float32)

    return bias


def _kerple_power(floor):
    def bias(q_len, k_len):
        d = np.abs(_offsets(q_len, k_len)).astype(np.float64)
        d = np.maximum(d, 1.0) if floor else d
        return (-_R1[:, None, None] * d ** _R2[:, None, None]).astype(np.float32)

    return bias


# --- Sandwich ---------------------------------------------------------------------------------------------
def _sandwich(whole):
    def bias(q_len, k_len):
        r = _offsets(q_len, k_len)
        w = 10000.0 ** (-2.0 * np.arange(1, 65) / 128)
        total = np.cos(r[..., None] * w).sum(-1) - 64.0
        h = np.arange(1, 13)
        ratio = np.maximum(8 * h // 12, 1) if whole else 8 * h / 12
        return (total / ratio[:, None, None]).astype(np.float32)

    return bias


# --- FIRE -------------------------------------------------------------------------------------------------
_F = (_rng.standard_normal((8, 1)), _rng.standard_normal(8), _rng.standard_normal((4, 8)))
FIRE4 = FIRE(*_F, c=0.5, length=16.0)


def _fire(by_keys):
    def bias(q_len, k_len):
        i = (np.arange(q_len) + k_len - q_len)[:, None].astype(np.float64)
        d = np.maximum(i - np.arange(k_len), 0.0)
        last = np.full_like(i, k_len - 1.0) if by_keys else i
        x = np.log(0.5 * d + 1) / (np.log(0.5 * np.maximum(last, 16.0) + 1) + FIRE4.eps)
        hidden = np.maximum(x[..., None] * _F[0][:, 0] + _F[1], 0)
        return np.einsum("qkw,hw->hqk", hidden, _F[2]).astype(np.float32)

    return bias


def fire_rows(q_len, k_len):
    out = np.zeros((4, q_len, k_len))
    for row in range(q_len):
        i = row + k_len - q_len
        norm = math.log1p(0.5 * max(i, 16)) + FIRE4.eps
        x = np.log1p(0.5 * np.arange(i, -1, -1)) / norm
        out[:, row, : i + 1] = _F[2] @ np.maximum(_F[0] * x + _F[1][:, None], 0)
    return out


# --- windows ----------------------------------------------------------------------------------------------
_SW = _rng.standard_normal((5 * 9, 4)).astype(np.float32)


def _swin(swapped):
    def bias(q_len, k_len):
        ys, xs = np.divmod(np.arange(15), 5)
        dy, dx = ys[:, None] - ys + 2, xs[:, None] - xs + 4
        index = dx * 5 + dy if swapped else dy * 9 + dx  # the table as (2w-1, 2h-1)
        return _cut(_SW[index].transpose(2, 0, 1), q_len, k_len)

    return bias


_BE = _rng.standard_normal((5 * 7 + 3, 4)).astype(np.float32)


def _beit(swapped):
    def bias(q_len, k_len):
        n = 12
        ys, xs = np.divmod(np.arange(n), 4)
        index = np.empty((n + 1, n + 1), int)
        index[1:, 1:] = (ys[:, None] - ys + 2) * 7 + xs[:, None] - xs + 3
        row, column = (36, 35) if swapped else (35, 36)
        index[0, :], index[:, 0], index[0, 0] = row, column, 37
        return _cut(np.moveaxis(_BE[index], -1, 0), q_len, k_len)

    return bias


_LE = _rng.standard_normal((3 * 6, 5)).astype(np.float32)


def _levit(first_seen):
    def bias(q_len, k_len):
        points = [(y, x) for y in range(3) for x in range(6)]
        index = np.empty((18, 18), int)
        if first_seen:  # numbers in the order in which offsets are met, as the code does
            seen = {}
            for a, p in enumerate(points):
                for b, q in enumerate(points):
                    index[a, b] = seen.setdefault((abs(p[0] - q[0]), abs(p[1] - q[1])), len(seen))
        else:
            for a, p in enumerate(points):
                for b, q in enumerate(points):
                    index[a, b] = abs(p[1] - q[1]) * 3 + abs(p[0] - q[0])
        return _cut(_LE.T[:, index], q_len, k_len)

    return bias


_CP = (_rng.standard_normal((16, 2)), _rng.standard_normal(16), _rng.standard_normal((3, 16)) * 0.3)


def _swin2(own_window):
    def bias(q_len, k_len):
        sides = (6, 4) if own_window else (3, 3)
        ys, xs = np.divmod(np.arange(24), 4)
        feats = []
        for c, n in ((ys, sides[0]), (xs, sides[1])):
            d = 8.0 * (c[:, None] - c) / (n - 1)
            feats.append(np.sign(d) * np.log2(np.abs(d) + 1) / np.log2(8))
        f = np.stack(feats, -1)
        y = np.maximum(f @ _CP[0].T + _CP[1], 0) @ _CP[2].T
        return _cut((16 / (1 + np.exp(-y))).transpose(2, 0, 1).astype(np.float32), q_len, k_len)

    return bias


# --- gates, networks, residues ----------------------------------------------------------------------------
_GATES = -np.abs(_rng.standard_normal((3, 64))) * 0.2


def _forget(own_key):
    def bias(q_len, k_len):
        total = np.cumsum(_GATES, 1)
        i, j = np.arange(k_len - q_len, k_len), np.arange(k_len)
        before = total[:, j] - _GATES[:, j] if own_key else total[:, j]
        return (total[:, i, None] - before[:, None, :]).astype(np.float32)

    return bias


_DW = (_rng.standard_normal((8, 1)), _rng.standard_normal((8, 8)) * 0.5, _rng.standard_normal((4, 8)))
_DB = (_rng.standard_normal(8), _rng.standard_normal(8), _rng.standard_normal(4))


def _dynamic(signed):
    def bias(q_len, k_len):
        r = _offsets(q_len, k_len).astype(np.float64)
        x = (np.sign(r) if signed else 1.0) * np.log(np.abs(r) + 1)
        x = x[..., None]
        for n in range(3):
            x = x @ _DW[n].T + _DB[n]
            if n < 2:
                x = x / (1 + np.exp(-x))
        return np.moveaxis(x, -1, 0).astype(np.float32)

    return bias


_RES = _rng.standard_normal((17, 6)).astype(np.float32)


def _residues(modulo):
    def bias(q_len, k_len):
        r = _offsets(q_len, k_len)
        row = np.mod(r + 8, 17) if modulo else np.clip(r, -8, 8) + 8
        return _RES[row].transpose(2, 0, 1)

    return bias


# --- relative_index ---------------------------------------------------------------------------------------
def _index(factor):
    def relative_index(window):
        h, w = window
        c = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
        r = (c[:, :, None] - c[:, None, :]).transpose(1, 2, 0).copy()
        r += (h - 1, w - 1)
        r[..., 0] *= 2 * (h if factor == "height" else w) - 1
        return r.sum(-1)

    return relative_index


def paired_index(window):
    """Numbers by a dictionary of offsets."""
    seen, h, w = {}, *window
    pts = [divmod(n, w) for n in range(h * w)]
    return np.array([[seen.setdefault((a[0] - b[0], a[1] - b[1]), len(seen)) for b in pts] for a in pts])


_RIGHT = dict(right=True, remedy="", mended=None, settings={})
_WRONG = dict(right=False, settings={})
CASES = [
    dict(id="e069", fn=_slopes(1), encoding=ALiBi(12), surface="slopes", **_WRONG, cause="For head counts that are no power of two, the additional slopes are those with even numbers (2, 4, ...) of the 2c heads instead of odd numbers, so they repeat slopes of the first c heads.", cause_key="alibi-extra-even", remedy="take more[0::2]", mended=_slopes(0)),
    dict(id="e070", fn=_sorted_slopes(True), encoding=ALiBi(12), surface="slopes", **_WRONG, cause="The slopes are sorted from large to small: for head counts that are no power of two the additional slopes are mixed among the first c instead of coming after them.", cause_key="alibi-sorted", remedy="leave the additional slopes at the end", mended=_sorted_slopes(False)),
    dict(id="e071", fn=_rank_slopes(False), encoding=ALiBi(16), surface="rank_slopes", **_WRONG, cause="A tensor-parallel rank takes every tp_size-th slope (rank, rank + tp_size, ...) instead of its contiguous block of heads.", cause_key="rank-slopes-strided", remedy="slice rank * n : (rank + 1) * n", mended=_rank_slopes(True)),
    dict(id="e072", fn=bloom_row, encoding=ALiBi(8), surface="bias", **_RIGHT, cause="One row m_h j per head, as BLOOM does; it differs from the bias by a constant for each query, which softmax ignores.", cause_key="right-row"),
    dict(id="e073", fn=_alibi_tiles(True), encoding=ALiBi(12, causal=False), surface="bias", **_WRONG, cause="The absolute value of the distance is missing in the tile of 64 keys that holds the query itself: keys after the query in that tile get a positive bias, later tiles are right.", cause_key="alibi-future-in-own-tile", remedy="take |i - j| in all tiles", mended=_alibi_tiles(False)),
    dict(id="e074", fn=_t5_bucket(False), encoding=T5Bias(_T5), surface="bucket", **_WRONG, cause="max_exact is half of all 32 buckets (16) instead of half of the 16 of one direction (8): distances 8 .. 15 get buckets of their own, and there are no logarithmic buckets.", cause_key="t5-max-exact-twice", remedy="halve num_buckets before max_exact when bidirectional", mended=_t5_bucket(True)),
    dict(id="e075", fn=bisect_bucket, encoding=T5Bias(_T5, bidirectional=False), surface="bucket", **_RIGHT, cause="Bucket borders from powers of integers, buckets by bisection; no logarithm.", cause_key="right-bisect"),
    dict(id="e076", fn=_t5_last(False), encoding=T5Bias(_T5, bidirectional=False), surface="bucket", **_WRONG, cause="Distances are clipped to 100 before the logarithm, below max_distance 128: the last bucket, 31, is never reached and distances from its border on stay in bucket 30 (or that of 100).", cause_key="t5-clip-before-log", remedy="do not clip the distance, clip the bucket", mended=_t5_last(True)),
    dict(id="e077", fn=_t5_cached(False), encoding=T5Bias(_T5, bidirectional=False), surface="bias", **_WRONG, cause="Query i has position i instead of k_len - q_len + i: with cached keys (q_len < k_len) all queries are taken for the first ones.", cause_key="t5-query-offset", remedy="add k_len - q_len to the query positions", mended=_t5_cached(True)),
    dict(id="e078", fn=_kerple(True), encoding=Kerple(_R1, _R2), surface="bias", **_WRONG, cause="In heads 8 and 9 the two parameters are exchanged: -r2 log(1 + r1 d) instead of -r1 log(1 + r2 d).", cause_key="kerple-exchanged-late-heads", remedy="use r1 as the factor in every head", mended=_kerple(False)),
    dict(id="e079", fn=_kerple_power(True), encoding=Kerple(_R1, _R2, form="power"), surface="bias", **_WRONG, cause="The distance is clamped to at least 1 (as for a logarithm): the query's own key gets -r1 instead of 0.", cause_key="kerple-own-key", remedy="use |i - j| itself", mended=_kerple_power(False)),
    dict(id="e080", fn=_sandwich(True), encoding=Sandwich(12, 128), surface="bias", **_WRONG, cause="The divisor 8h/H is an integer division (at least 1): with 12 heads, heads 1 and 2 are both divided by 1, head 4 by 2, and so on; only heads 3, 6, 9, 12 are right.", cause_key="sandwich-floor-divisor", remedy="divide by 8 * h / H in floating point", mended=_sandwich(False)),
    dict(id="e081", fn=_fire(True), encoding=FIRE4, surface="bias", **_WRONG, cause="All queries are normalised by the last position max(k_len - 1, length) instead of by their own max(i, length): wrong for sequences longer than 17 in every query but the last (and those where both are below length).", cause_key="fire-normalised-by-last", remedy="use the query's position in the denominator", mended=_fire(False)),
    dict(id="e082", fn=fire_rows, encoding=FIRE4, surface="bias", **_RIGHT, cause="A loop over queries; keys after the query are left 0.", cause_key="right-fire-loop"),
    dict(id="e083", fn=_swin(True), encoding=SwinBias(_SW, window=(3, 5)), surface="bias", **_WRONG, cause="The table is read with dx as the slow index, (dx + w - 1)(2h - 1) + dy + h - 1, i.e. as (2w-1) x (2h-1) instead of (2h-1) x (2w-1).", cause_key="swin-transposed-table", remedy="(dy + h - 1)(2w - 1) + dx + w - 1", mended=_swin(False)),
    dict(id="e084", fn=_beit(True), encoding=BEiTBias(_BE, window=(3, 4)), surface="bias", **_WRONG, cause="The rows for [CLS] to patches (n - 3) and patches to [CLS] (n - 2) are exchanged.", cause_key="beit-cls-rows", remedy="row 0 gets n - 3, column 0 gets n - 2", mended=_beit(False)),
    dict(id="e085", fn=_levit(False), encoding=LeViTBias(_LE, window=(3, 6)), surface="bias", **_WRONG, cause="The index is |dx| h + |dy| instead of |dy| w + |dx|: the table is read column by column.", cause_key="levit-column-major", remedy="|dy| w + |dx|", mended=_levit(True)),
    dict(id="e086", fn=_swin2(True), encoding=LogCPB(*_CP, window=(6, 4), pretrained_window=(3, 3)), surface="bias", **_WRONG, cause="Offsets are normalised by the window's own size (5 and 3) instead of by the pretrained window's (2 and 2).", cause_key="logcpb-pretrained-ignored", remedy="divide by pretrained_window - 1", mended=_swin2(False)),
    dict(id="e087", fn=_forget(True), encoding=ForgettingBias(_GATES), surface="bias", **_WRONG, cause="The sum of log gates runs from the key's own gate (t = j) instead of from t = j + 1, so b(i, i) is log f_i and not 0.", cause_key="forget-own-gate", remedy="subtract the inclusive cumulative sum at the key", mended=_forget(False)),
    dict(id="e088", fn=_dynamic(False), encoding=DynamicBias(_DW, _DB, log_distance=True), surface="bias", **_WRONG, cause="The network's input is log(1 + |i - j|) without the sign of i - j: keys after the query get the bias of keys before it.", cause_key="dynamic-bias-sign-lost", remedy="multiply by sign(i - j)", mended=_dynamic(True)),
    dict(id="e089", fn=_residues(True), encoding=ResidueBias(_RES), surface="bias", **_WRONG, cause="Offsets beyond +-8 wrap round modulo 17 instead of being clipped to the first or last row.", cause_key="residue-wrap", remedy="clip the offset to -8 .. 8", mended=_residues(False)),
    dict(id="e090", fn=_index("height"), encoding=None, surface="relative_index", **_WRONG, cause="dy is multiplied by 2h - 1 instead of 2w - 1: in windows wider than high, different offsets share a row.", cause_key="index-factor-height", remedy="multiply dy by 2w - 1", mended=_index("width")),
    dict(id="e091", fn=paired_index, encoding=None, surface="relative_index", **_RIGHT, cause="Rows are numbered in the order in which offsets are met, by a dictionary: another numbering, equal exactly for equal offsets.", cause_key="right-dictionary"),
]
