"""Windows of patches and scores: Swin, BEiT, LeViT, Swin v2, CrossFormer, ConViT, SAM, CoPE, TUPE, Transformer-XL, PoPE."""

import itertools
import math

import numpy as np

from posenc_ref import (
    BEiTBias,
    CoPE,
    ConViTBias,
    DecomposedRelative,
    DynamicWindowBias,
    ESPnetLegacy,
    LeViTBias,
    LogCPB,
    PoPE,
    Sinusoidal,
    SwinBias,
    TransformerXL,
    TUPE,
    XLNet,
)

CASES = []


def case(id, fn, encoding, surface, cause, key, remedy="", mended=None, right=False, settings=None):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings or {},
            right=right,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


rng = np.random.default_rng(77)
H, W = 4, 6
N = H * W
YY, XX = np.divmod(np.arange(N), W)
DY, DX = YY[:, None] - YY, XX[:, None] - XX
SWIN_T = rng.standard_normal((7 * 11, 3))
SWIN = SwinBias(SWIN_T, window=(H, W))


def tail(full, q_len, k_len):
    """Rows of the last q_len of k_len tokens."""
    return full[..., k_len - q_len : k_len, :k_len]


def swin(mode):
    def bias(q_len, k_len):
        dy, dx = (-DY, -DX) if mode == "reversed" else (DY, DX)
        sx = H - 1 if mode == "height" else W - 1
        idx = (dy + H - 1) * (2 * W - 1) + dx + sx
        return tail(np.moveaxis(SWIN_T[idx], -1, 0), q_len, k_len)

    return bias


case(
    "b060",
    swin("reversed"),
    SWIN,
    "bias",
    "The offsets are key minus query, so the bias of every pair is that of the opposite offset (the matrix is "
    "transposed).",
    "offset-reversed",
    "query minus key",
    swin("ok"),
)
case(
    "b061",
    swin("height"),
    SWIN,
    "bias",
    "The column offset is shifted by height - 1 instead of width - 1 before it enters the index (windows that are not "
    "square), so every pair reads a row two places earlier.",
    "shift-height-for-width",
    "add w - 1",
    swin("ok"),
)

SWIN5_T = rng.standard_normal((9 * 13, 2))
SWIN5 = SwinBias(SWIN5_T, window=(5, 7))


def swin_tiles(fixed):
    def bias(q_len, k_len):
        full = np.zeros((2, 35, 35))
        y, x = np.divmod(np.arange(35), 7)
        blocks = -(-35 // 8) if fixed else 35 // 8
        for b in range(blocks):
            rows = np.arange(b * 8, min(b * 8 + 8, 35))
            idx = (y[rows, None] - y + 4) * 13 + x[rows, None] - x + 6
            full[:, rows] = SWIN5_T[idx].transpose(2, 0, 1)
        return tail(full, q_len, k_len)

    return bias


case(
    "b062",
    swin_tiles(False),
    SWIN5,
    "bias",
    "Query rows are filled in blocks of 8 with N // 8 blocks, so the remaining rows (32 to 34 of 35) keep a bias of "
    "0.",
    "tile-remainder-dropped",
    "round the number of blocks up",
    swin_tiles(True),
)

BEIT_T = rng.standard_normal((77 + 3, 3))
BEIT = BEiTBias(BEIT_T, window=(H, W))


def beit(mode):
    def bias(q_len, k_len):
        n = len(BEIT_T)
        idx = np.empty((N + 1, N + 1), int)
        idx[1:, 1:] = (DY + H - 1) * (2 * W - 1) + DX + W - 1
        idx[0, :] = n - 2 if mode == "exchanged" else n - 3
        idx[:, 0] = n - 3 if mode == "exchanged" else n - 2
        if mode != "corner":
            idx[0, 0] = n - 1
        return tail(np.moveaxis(BEIT_T[idx], -1, 0), q_len, k_len)

    return bias


case(
    "b063",
    beit("exchanged"),
    BEIT,
    "bias",
    "The rows for [CLS]-to-patch and patch-to-[CLS] (n - 3 and n - 2) are exchanged.",
    "cls-rows-exchanged",
    "row n - 3 for query [CLS]",
    beit("ok"),
)
case(
    "b064",
    beit("corner"),
    BEIT,
    "bias",
    "The pair ([CLS], [CLS]) has no own assignment and keeps the patch-to-[CLS] row n - 2 instead of n - 1: a single "
    "entry of each head.",
    "cls-corner",
    "index[0, 0] = n - 1",
    beit("ok"),
)

LEVIT_T = rng.standard_normal((N, 4))
LEVIT = LeViTBias(LEVIT_T, window=(H, W))


def levit(fixed):
    step = W if fixed else H

    def bias(q_len, k_len):
        return tail(np.moveaxis(LEVIT_T[np.abs(DY) * step + np.abs(DX)], -1, 0), q_len, k_len)

    return bias


case(
    "b065",
    levit(False),
    LEVIT,
    "bias",
    "The row offset is multiplied by the height of the window instead of its width, so in windows that are not square "
    "different offsets share a row.",
    "stride-height",
    "multiply |dy| by w",
    levit(True),
)


def levit_dict(q_len, k_len):
    points = list(itertools.product(range(H), range(W)))
    rows, index = {}, []
    for a in points:
        for b in points:
            index.append(rows.setdefault((abs(a[0] - b[0]), abs(a[1] - b[1])), len(rows)))
    full = LEVIT_T.T[:, np.array(index).reshape(N, N)]
    return tail(full, q_len, k_len)


case(
    "b066",
    levit_dict,
    LEVIT,
    "bias",
    "Right: LeViT's own way, a dictionary that numbers absolute offsets in the order of first occurrence.",
    "right",
    right=True,
)

CPB_H, CPB_B, CPB_O = (
    rng.standard_normal((16, 2)),
    rng.standard_normal(16),
    rng.standard_normal((3, 16)) / 4,
)
CPB = LogCPB(CPB_H, CPB_B, CPB_O, window=(H, W))
CPB_PRE = LogCPB(CPB_H, CPB_B, CPB_O, window=(H, W), pretrained_window=(3, 4))


def cpb(mode, sides=(H, W)):
    def bias(q_len, k_len):
        ny, nx = (s if mode == "count" else s - 1 for s in sides)
        parts = []
        for d, n in ((DY, ny), (DX, nx)):
            v = 8.0 * d / n
            log = np.log1p(np.abs(v)) if mode == "natural" else np.log2(np.abs(v) + 1)
            parts.append(np.sign(v) * log / np.log2(8))
        if mode == "xy":
            parts.reverse()
        x = np.stack(parts, -1)
        y = np.maximum(x @ CPB_H.T + CPB_B, 0) @ CPB_O.T
        return tail(np.moveaxis(16 / (1 + np.exp(-y)), -1, 0), q_len, k_len).astype(np.float32)

    return bias


case(
    "b067",
    cpb("natural"),
    CPB,
    "bias",
    "The natural logarithm of 1 + 8|d| is divided by log2(8) = 3, so the coordinates are too small by ln 2.",
    "log-base-mixed",
    "log2 over log2(8)",
    cpb("ok"),
)
case(
    "b068",
    cpb("ok"),
    CPB_PRE,
    "bias",
    "pretrained_window is ignored: coordinates are normalised by the current window (4, 6) instead of (3, 4).",
    "pretrained-window-ignored",
    "normalise by pretrained_window - 1",
    cpb("ok", (3, 4)),
)
case(
    "b069",
    cpb("xy"),
    CPB,
    "bias",
    "The network receives (dx, dy) instead of (dy, dx).",
    "inputs-exchanged",
    "stack (dy, dx)",
    cpb("ok"),
)
case(
    "b070",
    cpb("count"),
    CPB,
    "bias",
    "Offsets are divided by the size of the window n instead of n - 1, the largest offset.",
    "divisor-off-by-one",
    "divide by n - 1",
    cpb("ok"),
)

CF_W = (rng.standard_normal((8, 2)), rng.standard_normal((8, 8)) / 2, rng.standard_normal((4, 8)))
CF_B = (rng.standard_normal(8), rng.standard_normal(8), rng.standard_normal(4))
CF_G, CF_S = (
    (1 + rng.standard_normal(8) / 5, 1 + rng.standard_normal(8) / 5),
    tuple(rng.standard_normal((2, 8)) / 5),
)
CROSS = DynamicWindowBias(CF_W, CF_B, CF_G, CF_S, window=(H, W))


def crossformer(mode):
    def bias(q_len, k_len):
        x = np.stack([DY, DX], -1).astype(float)
        if mode == "normalised":
            x = x / np.array([H - 1, W - 1])
        for n in range(3):
            x = x @ CF_W[n].T + CF_B[n]
            if n == 2:
                break
            if mode == "relu-first":
                x = np.maximum(x, 0)
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * CF_G[
                n
            ] + CF_S[n]
            if mode != "relu-first":
                x = np.maximum(x, 0)
        return tail(x.transpose(2, 0, 1), q_len, k_len).astype(np.float32)

    return bias


case(
    "b071",
    crossformer("normalised"),
    CROSS,
    "bias",
    "The offsets are divided by the largest offset of their axis before the network, CrossFormer passes token counts.",
    "offsets-normalised",
    "pass dy, dx unchanged",
    crossformer("ok"),
)
case(
    "b072",
    crossformer("relu-first"),
    CROSS,
    "bias",
    "In the bias network ReLU comes before the LayerNorm instead of after it.",
    "norm-activation-order",
    "LayerNorm, then ReLU",
    crossformer("ok"),
)

CV_W, CV_B, CV_G = rng.standard_normal((3, 3)), rng.standard_normal(3), rng.standard_normal(3)
CONVIT = ConViTBias(CV_W, CV_B, CV_G, window=(H, W))


def convit(mode):
    def bias(q_len, k_len):
        dx, dy = -DX.astype(float), -DY.astype(float)
        r = dx * dx + dy * dy
        if mode == "root":
            r = np.sqrt(r)
        f = np.stack([dx, dy, r], -1)
        return tail(
            np.moveaxis(f @ CV_W.T + (0 if mode == "bare" else CV_B), -1, 0), q_len, k_len
        ).astype(np.float32)

    return bias


case(
    "b073",
    convit("root"),
    CONVIT,
    "bias",
    "The third input of the positional projection is the distance instead of the squared distance.",
    "squared-distance",
    "dx^2 + dy^2",
    convit("ok"),
)
case(
    "b074",
    convit("bare"),
    CONVIT,
    "bias",
    "Right up to softmax: the bias of the linear layer, a constant for each head, is left out as in the paper.",
    "right",
    right=True,
)

# ---------------------------------------------------------------- SAM
RH, RW = rng.standard_normal((7, 16)), rng.standard_normal((11, 16))
SAM = DecomposedRelative(RH, RW, grid=(H, W))


def sam(mode):
    def logits(q, k):
        B, n = q.shape[:2]
        Q, K = q.shape[2], k.shape[2]
        s = q.dtype.type(0.25)
        q2 = q * s if mode == "scaled" else q
        first = K - Q
        qy, qx = YY[first:K], XX[first:K]
        sign = -1 if mode == "height-sign" else 1
        rel_h = RH[sign * (qy[:, None] - YY[:K]) + H - 1].astype(q.dtype)
        rel_w = RW[qx[:, None] - XX[:K] + W - 1].astype(q.dtype)
        out = (q * s) @ k.transpose(0, 1, 3, 2)
        return out + np.einsum("bhid,ijd->bhij", q2, rel_h) + np.einsum("bhid,ijd->bhij", q2, rel_w)

    return logits


case(
    "b075",
    sam("scaled"),
    SAM,
    "scores",
    "The relative terms use the query after the scale 1/sqrt(d), not the unscaled query.",
    "position-term-scaled",
    "pass the unscaled query",
    sam("ok"),
)
case(
    "b076",
    sam("height-sign"),
    SAM,
    "scores",
    "The table of the height is indexed with key minus query (the width's with query minus key), so it is read from "
    "its other end.",
    "one-axis-reversed",
    "query minus key on both axes",
    sam("ok"),
)

# ---------------------------------------------------------------- CoPE
COPE_E = rng.standard_normal((12, 16))
COPE = CoPE(COPE_E)


def cope(mode):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        raw = (q.astype(float) @ np.swapaxes(k, -1, -2).astype(float)) / 4
        mask = np.arange(K) <= np.arange(K - Q, K)[:, None]
        g = 1 / (1 + np.exp(-raw))
        if mode != "unmasked":
            g = g * mask
        if mode == "from-start":
            p = np.cumsum(g, -1)
        else:
            p = np.cumsum(g[..., ::-1], -1)[..., ::-1]
        p = np.minimum(p, 11)
        lo, hi = np.floor(p).astype(int), np.ceil(p).astype(int)
        by = q.astype(float) @ COPE_E.T
        w = p - lo
        low, high = np.take_along_axis(by, lo, -1), np.take_along_axis(by, hi, -1)
        if mode == "weights":
            low, high = high, low
        pos = low * (1 - w) + high * w
        return (raw + (pos / 4 if mode == "scaled" else pos)).astype(q.dtype)

    return logits


case(
    "b077",
    cope("from-start"),
    COPE,
    "scores",
    "The contextual position of a key sums the gates from the first key up to it instead of from it up to the query.",
    "sum-direction",
    "reverse the cumulative sum",
    cope("ok"),
)
case(
    "b078",
    cope("weights"),
    COPE,
    "scores",
    "The interpolation weights are exchanged: the row floor(p) gets the fraction of p and ceil(p) one minus it.",
    "interpolation-weights",
    "(1 - w) on floor, w on ceil",
    cope("ok"),
)
case(
    "b079",
    cope("unmasked"),
    COPE,
    "scores",
    "Gates of keys after the query are counted, because the causal mask is applied after the sigmoid and sum.",
    "mask-after-gates",
    "mask before the sigmoid",
    cope("ok"),
)

# ---------------------------------------------------------------- TUPE
TQ, TK = rng.standard_normal((2, 80, 3, 16)) / 2
C2O, O2C = rng.standard_normal((2, 3))
TUPE_A = TUPE(TQ, TK)
TUPE_C = TUPE(TQ, TK, cls_to_others=C2O, others_to_cls=O2C)


def tupe(mode, cls=False):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        s = 1 / math.sqrt(32)
        v = np.einsum("ihd,jhd->hij", TQ[K - Q : K], TK[:K]) * (0.25 if mode == "scale" else s)
        if cls:
            first = np.arange(K - Q, K) == 0
            if mode == "corner":
                v[:, first, :] = C2O[:, None, None]
                v[:, :, 0] = O2C[:, None]
            else:
                v[:, :, 0] = O2C[:, None]
                v[:, first, :] = C2O[:, None, None]
        return ((q @ np.swapaxes(k, -1, -2)) * s + v).astype(q.dtype)

    return logits


case(
    "b080",
    tupe("scale"),
    TUPE_A,
    "scores",
    "The positional product is scaled by 1/sqrt(d) instead of 1/sqrt(2d); the content product is right.",
    "position-scale",
    "1/sqrt(2d) on both",
    tupe("ok"),
)
case(
    "b081",
    tupe("corner", True),
    TUPE_C,
    "scores",
    "The value of the pair (0, 0) is others_to_cls, because the column of [CLS] is written after its row; it must be "
    "cls_to_others.",
    "cls-corner",
    "write the row last",
    tupe("ok", True),
)

# ---------------------------------------------------------------- Transformer-XL
PROJ = rng.standard_normal((3, 16, 24)) / 5
U, V = rng.standard_normal((2, 3, 16))
SIN = Sinusoidal(24, layout="concat")
XL = TransformerXL(PROJ, U, V, sinusoid=SIN)
XL_CLAMP = TransformerXL(PROJ, U, V, sinusoid=SIN, clamp=10)
SEG = XLNet(PROJ, U, V, sinusoid=SIN)
PARROT = TransformerXL(PROJ, U, V, sinusoid=Sinusoidal(24))


def wave(p, interleaved=False):
    a = np.asarray(p, float)[..., None] / 10000.0 ** (np.arange(12) / 12)
    if interleaved:
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], 24)
    return np.concatenate([np.sin(a), np.cos(a)], -1)


def xl(mode, clamp=None, interleaved=False):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        p = np.arange(K - Q, K)[:, None] - np.arange(K)
        if clamp is not None:
            p = np.minimum(p, clamp) if mode == "one-side" else np.clip(p, -clamp, clamp)
        if mode == "next":
            p = np.where(p < 0, p - 1, p)
        if mode == "abs":
            p = np.abs(p)
        r = np.einsum("ijm,hdm->hijd", wave(p, interleaved), PROJ)
        pos = q + (U if mode == "u-twice" else V)[:, None]
        ac = (q + U[:, None]) @ np.swapaxes(k, -1, -2)
        return ((ac + np.einsum("bhid,hijd->bhij", pos, r)) / 4).astype(q.dtype)

    return logits


case(
    "b082",
    xl("u-twice"),
    XL,
    "scores",
    "The content bias u is added to the query in the position term too, v is never used.",
    "bias-reused",
    "use position_bias in the position term",
    xl("ok"),
)
case(
    "b083",
    xl("one-side", 10),
    XL_CLAMP,
    "scores",
    "Offsets are clamped from above only (min(i - j, clamp)): keys more than 10 places after the query keep their "
    "offset.",
    "one-sided-clamp",
    "clip to -clamp .. clamp",
    xl("ok", 10),
)
case(
    "b084",
    xl("next"),
    SEG,
    "scores",
    "For keys after the query the aligned column is one too far: they get R(i - j - 1) (the shift of the two-sided "
    "score drops one column too many); keys up to the query are right.",
    "future-shift-off-by-one",
    "drop one column less",
    xl("ok"),
)
case(
    "b085",
    xl("abs", interleaved=True),
    PARROT,
    "scores",
    "The relative table holds R(|i - j|), so a Conformer encoder cannot tell earlier keys from later ones.",
    "sign-lost",
    "table for both signs",
    xl("ok", interleaved=True),
)

ESP = ESPnetLegacy(PROJ, U, V, sinusoid=Sinusoidal(24), max_len=60)


def espnet(fixed):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        top = max(60, K)
        d = np.arange(K - Q, K)[:, None] - np.arange(K)
        at = np.where(d >= 0, d + top - K, d + top + 1)
        r = np.einsum("ijm,hdm->hijd", wave(at, True), PROJ)
        q = q.astype(float)
        own = np.einsum("bhid,hijd->bhij", q + V[:, None], r)
        nxt = (
            np.concatenate([q[:, :, 1:], np.zeros_like(q[:, :, :1])], 2) + V[:, None]
            if fixed
            else q + V[:, None]
        )
        later = np.einsum("bhid,hijd->bhij", nxt, r)
        pos = np.where(d >= 0, own, np.where(d == -1, 0, later))
        return (((q + U[:, None]) @ np.swapaxes(k, -1, -2) + pos) / 4).astype(np.float32)

    return logits


case(
    "b086",
    espnet(False),
    ESP,
    "scores",
    "For keys two or more places after the query the position term uses the query's own vector; ESPnet's legacy reshape "
    "gives them the vector of the next query.",
    "legacy-next-row",
    "use q_(i+1) there",
    espnet(True),
)

# ---------------------------------------------------------------- PoPE
PHASE = -rng.random((3, 16)) * 6
POPE = PoPE(16)
POPE_D = PoPE(16, PHASE)


def pope(mode):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        c = np.arange(16)
        w = 10000.0 ** (-(2 * (c // 2) if mode == "pairs" else c) / 16)
        sq, sk = np.logaddexp(0, q.astype(float)), np.logaddexp(0, k.astype(float))
        aq, ak = np.arange(K - Q, K)[:, None] * w, np.arange(K)[:, None] * w
        delta = np.zeros((1, 1, 16)) if mode in ("plain", "pairs") else PHASE[:, None]
        ak = ak[None] + (-delta if mode == "minus" else delta)
        qq = np.concatenate([sq * np.cos(aq), sq * np.sin(aq)], -1)
        kk = np.concatenate([sk * np.cos(ak), sk * np.sin(ak)], -1)
        scale = 1 / math.sqrt(32) if mode == "double" else 0.25
        return (qq @ np.swapaxes(kk, -1, -2) * scale).astype(q.dtype)

    return logits


case(
    "b087",
    pope("pairs"),
    POPE,
    "scores",
    "Channels share a frequency in pairs as in RoPE (d/2 frequencies, each twice); PoPE has one for every channel.",
    "paired-frequencies",
    "base ** (-c/d) for every channel c",
    pope("plain"),
)
case(
    "b088",
    pope("minus"),
    POPE_D,
    "scores",
    "The learned phase is subtracted from the keys' angle instead of being added.",
    "phase-sign",
    "add the phase",
    pope("delta"),
)
case(
    "b089",
    pope("double"),
    POPE_D,
    "scores",
    "The logits are scaled by 1/sqrt(2d), the size of the concatenated vectors, instead of 1/sqrt(d).",
    "scale-doubled-dim",
    "pass 1/sqrt(d) to the kernel",
    pope("delta"),
)
case(
    "b090",
    pope("plain"),
    POPE,
    "scores",
    "Right: vectors [s cos, s sin] of size 2d with an explicit scale 1/sqrt(d); frequencies in float64.",
    "right",
    right=True,
)


def swin_pad(q_len, k_len):
    """Relative positions by two one-dimensional one-hot products."""
    hot_y, hot_x = np.eye(7)[DY + 3], np.eye(11)[DX + 5]
    full = np.einsum("ijy,ijx,yxh->hij", hot_y, hot_x, SWIN_T.reshape(7, 11, 3))
    return tail(full, q_len, k_len)


case(
    "b091",
    swin_pad,
    SWIN,
    "bias",
    "Right: table reshaped to (2h-1, 2w-1, H) and selected by one-hot products.",
    "right",
    right=True,
)


def cope_loop(q, k):
    B, n, Q, d = q.shape
    K = k.shape[2]
    out = np.zeros((B, n, Q, K))
    raw = np.einsum("bhid,bhjd->bhij", q.astype(float), k.astype(float)) / math.sqrt(d)
    by = q.astype(float) @ COPE_E.T
    for i in range(Q):
        p = np.zeros((B, n))
        for j in range(K - 1, -1, -1):
            if j <= K - Q + i:
                p = p + 1 / (1 + np.exp(-raw[:, :, i, j]))
            held = np.minimum(p, 11)
            lo = np.minimum(held.astype(int), 10)
            e0, e1 = (
                np.take_along_axis(by[:, :, i], (lo + s)[..., None], -1)[..., 0] for s in (0, 1)
            )
            out[:, :, i, j] = raw[:, :, i, j] + e0 + (held - lo) * (e1 - e0)
    return out.astype(q.dtype)


case(
    "b092",
    cope_loop,
    COPE,
    "scores",
    "Right: a running sum from the last key to the first, interpolated between rows "
    "floor and floor + 1 with floor held at P - 2.",
    "right",
    right=True,
)
