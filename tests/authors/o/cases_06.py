import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

rng = np.random.default_rng(61)
H, W, NH = 4, 6, 3
ST = rng.standard_normal(((2 * H - 1) * (2 * W - 1), NH)).astype(np.float32)
BT = rng.standard_normal(((2 * H - 1) * (2 * W - 1) + 3, NH)).astype(np.float32)
LT = rng.standard_normal((H * W, NH)).astype(np.float32)
Y, X = np.divmod(np.arange(H * W), W)
DY, DX = Y[:, None] - Y, X[:, None] - X
IDX = (DY + H - 1) * (2 * W - 1) + DX + W - 1
def cut(full, q, k): return full[..., k - q:k, :k]

def make(bug):
    N = H * W
    g = ST[IDX.ravel()]
    full = g.reshape(NH, N, N) if bug else g.reshape(N, N, NH).transpose(2, 0, 1)
    return lambda q, k: cut(full, q, k)
case("o097", make, P.SwinBias(ST, window=(H, W)), "bias", "the gathered (N*N, H) rows are viewed as (H, N, N) instead of permuted", "view-for-permute", "view (N, N, H), then permute")

def make(bug):
    coords = np.stack(np.meshgrid(np.arange(H), np.arange(W), indexing="ij")).reshape(2, -1)
    r = (coords[:, :, None] - coords[:, None, :]).transpose(1, 2, 0).copy()
    r[..., 0] += H - 1
    if bug: r[..., 0] *= 2 * W - 1; r[..., 1] += H - 1
    else: r[..., 1] += W - 1; r[..., 0] *= 2 * W - 1
    full = ST[r.sum(-1)].transpose(2, 0, 1)
    return lambda q, k: cut(full, q, k)
case("o098", make, P.SwinBias(ST, window=(H, W)), "bias", "the column offset is shifted by the height minus 1 instead of the width minus 1", "shift-by-height", "W - 1 for columns")

def make(bug):
    T = ST.reshape(2 * H - 1, 2 * W - 1, NH)
    full = np.empty((NH, H * W, H * W), np.float32)
    for y in range(H):
        for x in range(W):
            sub = T[y:y + H, x:x + W] if bug else T[y:y + H, x:x + W][::-1, ::-1]
            full[:, y * W + x] = sub.reshape(-1, NH).T
    return lambda q, k: cut(full, q, k)
case("o099", make, P.SwinBias(ST, window=(H, W)), "bias", "the slice of the table for a query is not flipped: keys run against the offsets inside it", "slice-not-flipped", "[::-1, ::-1]")

def make(bug):
    N = H * W + 1; n = len(BT); idx = np.zeros((N, N), int)
    idx[1:, 1:] = IDX
    idx[0, :], idx[:, 0] = n - 3, n - 2
    if not bug: idx[0, 0] = n - 1
    full = BT[idx].transpose(2, 0, 1)
    return lambda q, k: cut(full, q, k)
case("o100", make, P.BEiTBias(BT, window=(H, W)), "bias", "the pair ([CLS], [CLS]) keeps the row of (patch, [CLS]) and does not get the last row", "cls-cls-row", "idx[0, 0] = n - 1")

def make(bug):
    N = H * W + 1; main = BT[:-3][IDX]; t_cls, cls_t, cc = BT[-3], BT[-2], BT[-1]
    full = np.empty((N, N, NH), np.float32)
    full[1:, 1:] = main.transpose(1, 0, 2) if bug else main
    full[0, 1:], full[1:, 0], full[0, 0] = t_cls, cls_t, cc
    f = np.moveaxis(full, -1, 0)
    return lambda q, k: cut(f, q, k)
case("o101", make, P.BEiTBias(BT, window=(H, W)), "bias", "the patch block is transposed (key minus query), while the rows of [CLS] are right", "patch-block-transposed", "no transposition")

def make(bug):
    pts = list(itertools.product(range(H), range(W))); seen = {}; idx = []
    for a in pts:
        for b in pts:
            o = (abs(a[0] - b[0]), abs(a[1] - b[1]))
            if bug: o = (min(o), max(o))
            idx.append(seen.setdefault(o, len(seen)))
    idx = np.array(idx).reshape(H * W, H * W)
    full = LT.T[:, idx]
    return lambda q, k: cut(full, q, k)
case("o102", make, P.LeViTBias(LT, window=(H, W)), "bias", "offsets are sorted, so (dy, dx) and (dx, dy) share a bias", "sorted-offset", "keep (|dy|, |dx|)")

def make(bug):
    pts = list(itertools.product(range(H), range(W))); seen = {}
    idx = np.array([[seen.setdefault((abs(a - c), abs(b - d)), len(seen)) for c, d in pts] for a, b in pts])
    return lambda q, k: np.stack([t[cut(idx, q, k)] for t in LT.T])
case("o103", make, P.LeViTBias(LT, window=(H, W)), "bias", "rows are numbered by a dict in the order of first appearance, which is |dy| w + |dx| because the first token is the corner", "right")

CH, CB, CO = rng.standard_normal((12, 2)), rng.standard_normal(12), rng.standard_normal((NH, 12))
def cpb(t): return 16 / (1 + np.exp(-(np.maximum(t @ CH.T + CB, 0) @ CO.T)))
def logc(a): return np.sign(a) * np.log2(np.abs(a) * 8 + 1) / np.log2(8)
def make(bug):
    d = np.stack([DY / (H - 1), DX / ((H if bug else W) - 1)], -1)
    full = np.moveaxis(cpb(logc(d)), -1, 0)
    return lambda q, k: cut(full, q, k)
case("o104", make, P.LogCPB(CH, CB, CO, window=(H, W)), "bias", "column offsets are divided by height - 1", "divide-by-height", "width - 1")

def make(bug):
    d = np.stack([DY / (8 - 1), DX / (12 - 1)], -1)
    if bug: d = np.clip(d * 8, -8, 8); t = np.sign(d) * np.log2(np.abs(d) + 1)
    else: t = logc(d)
    full = np.moveaxis(cpb(t), -1, 0)
    return lambda q, k: cut(full, q, k)
case("o105", make, P.LogCPB(CH, CB, CO, window=(H, W), pretrained_window=(8, 12)), "bias", "the logarithm is not divided by log2(8)", "log-not-normalised", "divide by 3")

def make(bug):
    oy, ox = np.arange(-(H - 1), H), np.arange(-(W - 1), W)
    t = np.stack(np.meshgrid(oy / (H - 1), ox / (W - 1), indexing="ij"), -1)
    g = np.maximum(logc(t) @ CH.T + CB, 0) @ CO.T
    g = g.reshape(-1, NH)
    full = (16 * (1 / (1 + np.exp(-g)))[IDX] if not bug else 1 / (1 + np.exp(-16 * g))[IDX] * 16).transpose(2, 0, 1)
    return lambda q, k: cut(full, q, k)
case("o106", make, P.LogCPB(CH, CB, CO, window=(H, W)), "bias", "the factor 16 stands inside the sigmoid as well", "sixteen-inside", "16 * sigmoid(f)")

VW, VP, VG = rng.standard_normal((NH, 3)), rng.standard_normal(NH), rng.standard_normal(NH)
def make(bug):
    ind = np.arange(W)[None] - np.arange(W)[:, None]; inh = np.arange(H)[None] - np.arange(H)[:, None]
    ix = np.tile(ind, (H, H)); iy = np.repeat(np.repeat(inh, W, 0), W, 1)
    d2 = (np.abs(ix) + np.abs(iy)) ** 2 if bug else ix ** 2 + iy ** 2
    full = np.tensordot(VW, np.stack([ix, iy, d2]).astype(float), 1) + VP[:, None, None]
    return lambda q, k: cut(full, q, k)
case("o107", make, P.ConViTBias(VW, VP, VG, window=(H, W)), "bias", "the squared distance is (|dx| + |dy|)^2", "squared-manhattan", "dx^2 + dy^2")

def make(bug):
    ind = np.arange(W)[None] - np.arange(W)[:, None]; inh = np.arange(H)[None] - np.arange(H)[:, None]
    ix = np.tile(ind, (H, H)); iy = np.kron(inh, np.ones((W, W)))
    if bug: ix = np.kron(ind, np.ones((H, H)))
    f = np.stack([ix, iy, ix * ix + iy * iy], -1) @ VW.T
    full = np.moveaxis(f, -1, 0)
    return lambda q, k: cut(full, q, k)
case("o108", make, P.ConViTBias(VW, VP, VG, window=(H, W)), "bias", "column offsets are repeated in blocks like row offsets, not tiled", "columns-in-blocks", "tile the columns")

DWs = (rng.standard_normal((8, 2)) * .4, rng.standard_normal((8, 8)) * .5, rng.standard_normal((NH, 8))); DBs = (rng.standard_normal(8), rng.standard_normal(8), rng.standard_normal(NH))
DGs = tuple(rng.standard_normal(8) for _ in range(2)); DSs = tuple(rng.standard_normal(8) for _ in range(2))
def make(bug):
    a, b = np.meshgrid(np.arange(1 - H, H), np.arange(1 - W, W), indexing="ij")
    x = np.stack([a, b], -1).reshape(-1, 2).astype(float)
    x = x @ DWs[0].T + DBs[0]
    for n in range(2):
        if bug: x = np.maximum(x, 0)
        m = x.mean(1, keepdims=True); v = ((x - m) ** 2).mean(1, keepdims=True)
        x = (x - m) / np.sqrt(v + 1e-5) * DGs[n] + DSs[n]
        if not bug: x = np.maximum(x, 0)
        x = x @ DWs[n + 1].T + DBs[n + 1]
    full = x[IDX].transpose(2, 0, 1)
    return lambda q, k: cut(full, q, k)
case("o109", make, P.DynamicWindowBias(DWs, DBs, DGs, DSs, window=(H, W)), "bias", "ReLU stands before the LayerNorm instead of after it", "relu-before-norm", "norm, then ReLU")

def make(bug):
    def net(v):
        x = v @ DWs[0].T + DBs[0]
        for n in range(2):
            c = x - x.mean(-1, keepdims=True)
            x = np.maximum(c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * DGs[n] + DSs[0 if bug else n], 0) @ DWs[n + 1].T + DBs[n + 1]
        return x
    def bias(q, k):
        out = np.empty((NH, q, k))
        for a, i in enumerate(range(k - q, k)):
            out[:, a] = net(np.stack([Y[i] - Y[:k], X[i] - X[:k]], -1).astype(float)).T
        return out
    return bias
case("o110", make, P.DynamicWindowBias(DWs, DBs, DGs, DSs, window=(H, W)), "bias", "the second LayerNorm uses the shift of the first", "shift-of-other-layer", "shifts[n]")

# residues and chains
RT = rng.standard_normal((17, 4)).astype(np.float32)
def make(bug):
    def bias(q, k):
        d = np.arange(k - q, k)[:, None] - np.arange(k)
        if bug: d = d % 21
        else: d = (d + 10) % 21 - 10
        return np.moveaxis(RT[np.clip(d, -8, 8) + 8], -1, 0)
    return bias
case("o111", make, P.ResidueBias(RT, period=21), "bias", "the offset of a cyclic chain is taken modulo the period without its sign: residues before the query come out as far after it", "unsigned-modulo", "centre the remainder")

def make(bug):
    def bias(q, k):
        d = np.arange(k - q, k)[:, None] - np.arange(k)[None]
        v = np.arange(-8, 9)
        one = (np.abs(d[..., None] - v).argmin(-1))
        if bug: one = np.where(np.abs(d) > 8, 16, one)
        return RT[one].transpose(2, 0, 1)
    return bias
case("o112", make, P.ResidueBias(RT), "bias", "offsets beyond the reach share the last row on both sides", "far-one-side", "nearest bin on each side")

RES = (0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 2, 2, 3); ASY = (0,) * 6 + (1,) * 6 + (2,) * 6; ENT = (0,) * 12 + (1,) * 6; SYM = (0,) * 6 + (1,) * 6 + (0,) * 6
TOK = tuple(range(18)); CYC = (0,) * 6 + (6,) * 6 + (0,) * 6
CW = rng.standard_normal((5, 8 + 8 + 1 + 6))
def chain(tok_rule, cyc_col=None):
    r, s = 3, 2
    R, A, E, S, T = map(np.array, (RES, ASY, ENT, SYM, TOK)); f = lambda v: v[:, None] - v[None]
    d = f(R)
    if cyc_col is not None:
        p = np.array(CYC); p = p[None, :] if cyc_col else p[:, None]
        d = np.where(p > 0, (d + np.maximum(p, 1) // 2) % np.maximum(p, 1) - np.maximum(p, 1) // 2, d)
    same = f(A) == 0
    a = np.where(same, np.clip(d + r, 0, 2 * r), 2 * r + 1)
    b = np.where(tok_rule(same, f(R) == 0), np.clip(f(T) + r, 0, 2 * r), 2 * r + 1)
    c = np.where(f(E) == 0, np.clip(f(S) + s, 0, 2 * s), 2 * s + 1)
    W_ = CW.T
    return (W_[a] + W_[8 + b] + (f(E) == 0)[..., None] * W_[16] + W_[17 + c]).transpose(2, 0, 1)
def make(bug):
    full = chain((lambda same, res: same) if bug else (lambda same, res: same & res))
    return lambda q, k: cut(full, q, k)
case("o113", make, P.ChainBias(CW, residue_index=RES, asym_id=ASY, entity_id=ENT, sym_id=SYM, token_index=TOK, max_offset=3), "bias", "the token offset is used for all pairs of one chain, not only within a residue", "token-whole-chain", "same residue too")

def make(bug):
    full = chain((lambda same, res: res) if bug else (lambda same, res: same & res))
    return lambda q, k: cut(full, q, k)
case("o114", make, P.ChainBias(CW, residue_index=RES, asym_id=ASY, entity_id=ENT, sym_id=SYM, token_index=TOK, max_offset=3), "bias", "two tokens are in one residue where residue numbers agree, even in different chains", "residue-across-chains", "same chain too")
