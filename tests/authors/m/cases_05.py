import math
import functools
import itertools

import numpy as np

import posenc_ref as P

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


_rng = np.random.default_rng(21)
_SW = _rng.standard_normal((7 * 13, 4)).astype(np.float32)      # window (4, 7)
_SW7 = _rng.standard_normal((169, 3)).astype(np.float32)        # window (7, 7)
_BE = _rng.standard_normal((5 * 9 + 3, 4)).astype(np.float32)   # window (3, 5)
_LE = _rng.standard_normal((20, 4)).astype(np.float32)          # window (4, 5)
_HID, _HB, _OUT = _rng.standard_normal((16, 2)), _rng.standard_normal(16), _rng.standard_normal((4, 16)) / 4


def _sq(q_len, k_len, full):
    """Rows of the last q_len of k_len tokens: a window is judged whole or by its first k tokens."""
    return full[:, k_len - q_len:k_len, :k_len]


def _rel(h, w):
    y, x = np.divmod(np.arange(h * w), w)
    return y[:, None] - y, x[:, None] - x


# ---- m060 swin: factor 2h-1
def make(bug):
    dy, dx = _rel(4, 7)
    idx = (dy + 3) * (7 if bug else 13) + dx + 6
    full = _SW[idx].transpose(2, 0, 1)
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m060", make, P.SwinBias(_SW, window=(4, 7)), "bias",
     "The row offset is multiplied by 2h - 1 = 7 instead of 2w - 1 = 13, so different offsets share a table row.",
     "swin-factor-height", "multiply dy + h - 1 by 2w - 1")


# ---- m061 swin: key minus query
def make(bug):
    dy, dx = _rel(7, 7)
    if bug:
        dy, dx = dy.T, dx.T
    full = np.moveaxis(_SW7[(dy + 6) * 13 + dx + 6], 2, 0)
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m061", make, P.SwinBias(_SW7, window=(7, 7)), "bias",
     "The offsets are key minus query instead of query minus key, so the bias matrix of every head is transposed.",
     "swin-transposed", "subtract the key's coordinates from the query's")


# ---- m062 swin: coords x, y exchanged (square window)
def make(bug):
    g = np.stack(np.meshgrid(range(7), range(7), indexing="ij")).reshape(2, -1)
    if bug:
        g = g[::-1]
    rel = g[:, :, None] - g[:, None, :] + 6
    rel[0] *= 13
    full = _SW7[rel.sum(0).ravel()].reshape(49, 49, 3).transpose(2, 0, 1)
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m062", make, P.SwinBias(_SW7, window=(7, 7)), "bias",
     "Rows and columns are exchanged: the column offset is multiplied by 2w - 1 and the row offset is not.",
     "swin-axes-swapped", "multiply the row offset")


# ---- m063 swin: view(-1, N, N) instead of permute
def make(bug):
    dy, dx = _rel(4, 7)
    t = _SW[((dy + 3) * 13 + dx + 6).ravel()]
    full = t.reshape(4, 28, 28) if bug else t.reshape(28, 28, 4).transpose(2, 0, 1)
    return lambda q_len, k_len: _sq(q_len, k_len, np.ascontiguousarray(full))
case("m063", make, P.SwinBias(_SW, window=(4, 7)), "bias",
     "The gathered rows (N, N, heads) are reshaped to (heads, N, N) instead of permuted, so heads and tokens are mixed.",
     "swin-view-not-permute", "permute (2, 0, 1)")


# ---- m064 BEiT: cls rows swapped
def make(bug):
    dy, dx = _rel(3, 5)
    n = len(_BE)
    idx = np.zeros((16, 16), int)
    idx[1:, 1:] = (dy + 2) * 9 + dx + 4
    idx[0, :], idx[:, 0], idx[0, 0] = (n - 2, n - 3, n - 1) if bug else (n - 3, n - 2, n - 1)
    full = _BE[idx].transpose(2, 0, 1)
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m064", make, P.BEiTBias(_BE, window=(3, 5)), "bias",
     "The table rows for cls-to-token and token-to-cls (n - 3 and n - 2) are exchanged.",
     "beit-cls-rows", "row 0 of the index is n - 3, column 0 is n - 2")


# ---- m065 BEiT: cls-cls overwritten
def make(bug):
    dy, dx = _rel(3, 5)
    n = len(_BE)
    idx = np.pad((dy + 2) * 9 + dx + 4, ((1, 0), (1, 0)))
    idx[0, 0] = n - 1
    if bug:
        idx[0, 0:], idx[0:, 0] = n - 3, n - 2
    else:
        idx[0, 1:], idx[1:, 0] = n - 3, n - 2
    full = np.stack([_BE[:, h][idx] for h in range(4)])
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m065", make, P.BEiTBias(_BE, window=(3, 5)), "bias",
     "The pair of [CLS] with itself is overwritten when the first column is filled, so it has table row n - 2 instead of n - 1.",
     "beit-cls-cls", "set index [0, 0] last")


# ---- m066 LeViT: sign lost only for dy; index by h
def make(bug):
    dy, dx = _rel(4, 5)
    full = _LE[np.abs(dy) * (4 if bug else 5) + np.abs(dx)].transpose(2, 0, 1)
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m066", make, P.LeViTBias(_LE, window=(4, 5)), "bias",
     "|dy| is multiplied by the height of the window instead of the width.", "levit-factor-height", "multiply |dy| by the width")


# ---- m067 LeViT: dictionary order: indices numbered by first appearance column-major
def make(bug):
    pts = list(itertools.product(range(4), range(5)))
    if bug:
        order = {off: n for n, off in enumerate((a, b) for b in range(5) for a in range(4))}
    else:
        order = {}
        for p in pts:
            for r in pts:
                order.setdefault((abs(p[0] - r[0]), abs(p[1] - r[1])), len(order))
    idx = np.array([[order[abs(p[0] - r[0]), abs(p[1] - r[1])] for r in pts] for p in pts])
    full = _LE.T[:, idx]
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m067", make, P.LeViTBias(_LE, window=(4, 5)), "bias",
     "The offsets are numbered column by column (|dx| h + |dy|) instead of row by row.", "levit-numbering", "number offsets as |dy| w + |dx|")


def _cpb(dy, dx, sides, factor=16.0, base=8.0, log=True, sign=True):
    c = np.stack([dy / max(sides[0] - 1, 1), dx / max(sides[1] - 1, 1)], -1) * 8.0
    if log:
        c = np.sign(c) * np.log2(np.abs(c) + 1) / math.log2(base)
    f = np.maximum(c @ _HID.T + _HB, 0) @ _OUT.T
    return (factor / (1 + np.exp(-f))).transpose(2, 0, 1)


# ---- m068 log-CPB: pretrained window ignored
def make(bug):
    full = _cpb(*_rel(6, 8), (6, 8) if bug else (4, 4))
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m068", make, P.LogCPB(_HID, _HB, _OUT, window=(6, 8), pretrained_window=(4, 4)), "bias",
     "The offsets are normalised by the size of the current window instead of that of the pretrained window.",
     "cpb-pretrained-ignored", "divide by pretrained_window - 1")


# ---- m069 log-CPB: natural log / log2(8) mismatch
def make(bug):
    full = _cpb(*_rel(5, 6), (5, 6), base=math.e if False else (2 ** math.log(8) if bug else 8.0))
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m069", make, P.LogCPB(_HID, _HB, _OUT, window=(5, 6)), "bias",
     "The base-2 logarithm of the offsets is divided by ln 8 = 2.08 instead of log2 8 = 3.",
     "cpb-log-base", "divide by log2(8)")


# ---- m070 log-CPB: sigmoid factor missing
def make(bug):
    full = _cpb(*_rel(4, 4), (4, 4), factor=1.0 if bug else 16.0)
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m070", make, P.LogCPB(_HID, _HB, _OUT, window=(4, 4)), "bias",
     "The sigmoid of the network's output is not multiplied by 16.", "cpb-16-missing", "multiply by 16")


# ---- m071 dynamic window bias: layernorm eps / order of dy dx
_dw = [np.random.default_rng(30 + i) for i in range(3)]
_W3 = (_dw[0].standard_normal((8, 2)), _dw[0].standard_normal((8, 8)) / 3, _dw[0].standard_normal((4, 8)) / 3)
_B3 = tuple(_dw[1].standard_normal(n) for n in (8, 8, 4))
_G, _S = tuple(_dw[2].uniform(0.5, 1.5, 8) for _ in range(2)), tuple(_dw[2].standard_normal(8) for _ in range(2))
def _net(x, W, B, G, S, act, eps=1e-5):
    for i in range(len(W) - 1):
        x = x @ W[i].T + B[i]
        if G:
            mu = x.mean(-1, keepdims=True)
            x = (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps) * G[i] + S[i]
        x = act(x)
    return x @ W[-1].T + B[-1]
_relu = lambda v: np.maximum(v, 0)
_silu = lambda v: v / (1 + np.exp(-v))
def make(bug):
    dy, dx = _rel(3, 5)
    x = np.stack([dx, dy] if bug else [dy, dx], -1).astype(float)
    full = _net(x, _W3, _B3, _G, _S, _relu).transpose(2, 0, 1)
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m071", make, P.DynamicWindowBias(_W3, _B3, _G, _S, window=(3, 5)), "bias",
     "The network gets (dx, dy) instead of (dy, dx).", "dyn-axes-swapped", "stack dy first")


# ---- m072 dynamic window bias: offsets normalised
def make(bug):
    dy, dx = _rel(4, 4)
    x = np.stack([dy, dx], -1).astype(float)
    if bug:
        x /= 3
    full = _net(x, _W3, _B3, (), (), _relu).transpose(2, 0, 1)
    return lambda q_len, k_len: _sq(q_len, k_len, full)
case("m072", make, P.DynamicWindowBias(_W3, _B3, window=(4, 4)), "bias",
     "The offsets are divided by the window size minus 1, as in Swin v2, before the network.", "dyn-normalised", "pass offsets in tokens")


# ---- m073 relative_index
def make(bug):
    def relative_index(window):
        h, w = window
        c = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1).T
        r = c[:, None] - c[None]
        r[..., 0] += h - 1
        r[..., 1] += (h - 1) if bug else (w - 1)
        r[..., 0] *= 2 * w - 1
        return r.sum(-1)
    return relative_index
case("m073", make, None, "relative_index",
     "The column offset is shifted by h - 1 instead of w - 1, so on windows that are not square the range of column offsets runs over into the rows of the neighbouring dy",
     "index-shift-height", "add w - 1 to dx")


# ---- m074 relative_index right: 1-D trick
def make(bug):
    def relative_index(window):
        h, w = window
        a = np.arange(h * w) // w * (2 * w - 1) + np.arange(h * w) % w
        return a[:, None] - a[None, :] + a[-1]
    return relative_index
case("m074", make, None, "relative_index", "Right: linear code of each token, subtracted, plus a constant.", "right")


# ---- m075 relative_index abs
def make(bug):
    def relative_index(window):
        h, w = window
        y, x = np.unravel_index(np.arange(h * w), (h, w))
        dy, dx = y[:, None] - y, x[:, None] - x
        return (np.abs(dy) if bug else dy + h - 1) * (2 * w - 1) + dx + w - 1
    return relative_index
case("m075", make, None, "relative_index",
     "The absolute value of the row offset is used, so a token above and a token below share an index.", "index-abs-dy", "use dy + h - 1")
