"""Attention, indices, shifts, positions, convolutions."""
import math

import numpy as np
import torch

from posenc_ref import (
    ALiBi, Attention, FIRE, Kerple, Learned, Shaw, Sinusoidal, SwinBias, T5Bias, ResidueBias,
)
from posenc_ref import (
    ConvPositions, CoPE, DETRSine, DualChunk, FoPE, LogCPB, RoPE, TransformerXL,
)
from posenc_ref.resize import resize_table

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def rand(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def slopes(n):
    c = 2 ** int(math.log2(n))
    return np.array([2 ** (-8 * (h + 1) / c) for h in range(c)] +
                    [2 ** (-8 * (h + 0.5) / c) for h in range(n - c)])


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def t5b(r):
    n = np.abs(r)
    st = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    return np.searchsorted(st, n, side="right") + 16 * (r > 0)


# ---- i091
def make(bug):
    def attend(q, k, v, q_pos, k_pos):
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        H, G = q.shape[1], k.shape[1]
        rep = lambda x: np.tile(x, (1, H // G, 1, 1)) if bug else np.repeat(x, H // G, axis=1)
        d = np.abs(np.asarray(q_pos)[..., :, None] - np.asarray(k_pos)[..., None, :])
        d = d[None, None] if d.ndim == 2 else d[:, None]
        s = q @ rep(k).swapaxes(-1, -2) / math.sqrt(q.shape[-1]) - slopes(H)[:, None, None] * d
        Q, K = s.shape[-2:]
        s = np.where(np.tri(Q, K, K - Q, dtype=bool), s, -np.inf)
        return (softmax(s) @ rep(v)).astype(np.float32)
    return attend
case("i091", make, Attention(ALiBi(8)), "attention",
     "Keys and values of fewer heads are tiled, so query head h reads key head h mod H_kv instead of "
     "h // (H / H_kv).", "gqa-tiled", "Use repeat_interleave.")


# ---- i092
T92 = rand(92, 32, 4)
def make(bug):
    def attend(q, k, v, q_pos, k_pos):
        q, k, v = (torch.from_numpy(x).double() for x in (q, k, v))
        H = q.shape[1]
        k, v = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (k, v))
        r = np.asarray(k_pos)[..., None, :] - np.asarray(q_pos)[..., :, None]
        n = np.maximum(-r, 0)
        st = []
        m = 16
        for t in range(1, 16):
            while m ** 16 * 16 ** t < 128 ** t * 16 ** 16:
                m += 1
            st.append(m)
        b = np.searchsorted(np.array(list(range(1, 17)) + st), n, side="right")
        bias = torch.from_numpy(np.moveaxis(T92[b], -1, -3).astype(np.float64))
        s = q @ k.mT + bias
        Q, K = s.shape[-2:]
        mask = torch.ones(Q, K, dtype=torch.bool).tril(0 if bug else K - Q)
        s = s.masked_fill(~mask, float("-inf"))
        return (torch.softmax(s, -1) @ v).float().numpy()
    return attend
case("i092", make, Attention(T5Bias(T92, bidirectional=False)), "attention",
     "The causal mask is tril without a diagonal offset, so with fewer queries than keys query i sees "
     "keys 0 .. i only, instead of 0 .. K - Q + i.", "mask-top-left", "tril(diagonal=K - Q).")


# ---- i093
def make(bug):
    def attend(q, k, v, q_pos, k_pos, sinks):
        H, d = q.shape[1], q.shape[-1]
        q, k, v, sinks = (np.asarray(x, np.float64) for x in (q, k, v, sinks))
        k, v = (np.repeat(x, H // x.shape[1], 1) for x in (k, v))
        dist = np.abs(np.subtract.outer(np.asarray(q_pos), np.asarray(k_pos)))
        s = np.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(d) - slopes(H)[:, None, None] * dist
        Q, K = dist.shape
        s = np.where(np.arange(K) > np.arange(K - Q, K)[:, None], -np.inf, s)
        m = s.max(-1, keepdims=True)
        p = np.exp(s - m)
        sink = np.exp(sinks[:, None, None] - (0 if bug else m))
        return np.einsum("bhij,bhjd->bhid", p / (p.sum(-1, keepdims=True) + sink), v).astype(np.float32)
    return attend
case("i093", make, Attention(ALiBi(4), sinks=True), "attention",
     "The sink adds exp(sink) to the denominator, without the maximum of the logits that was "
     "subtracted from all other terms: exp(sink - max).", "sink-without-max",
     "Subtract the running maximum from the sink too.")


# ---- i094
def flash(bug, tile):
    def attend(q, k, v, q_pos, k_pos):
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        H = q.shape[1]
        k, v = (np.repeat(x, H // x.shape[1], 1) for x in (k, v))
        Q, K = q.shape[2], k.shape[2]
        m = np.full((*q.shape[:3], 1), -1e30)
        l = np.zeros_like(m)
        acc = np.zeros((*q.shape[:3], v.shape[-1]))
        qp, kp = np.asarray(q_pos), np.asarray(k_pos)
        for a in range(0, K, tile):
            j = np.arange(a, min(K, a + tile))
            s = q @ k[:, :, j].swapaxes(-1, -2) / math.sqrt(q.shape[-1])
            s = s - slopes(H)[:, None, None] * np.abs(qp[:, None] - kp[j])
            s = np.where(j <= np.arange(K - Q, K)[:, None], s, -np.inf)
            new = np.maximum(m, s.max(-1, keepdims=True))
            p, alpha = np.exp(s - new), np.exp(m - new)
            l = l * alpha + p.sum(-1, keepdims=True)
            acc = (acc if bug else acc * alpha) + p @ v[:, :, j]
            m = new
        return (acc / l).astype(np.float32)
    return attend
make = lambda bug: flash(bug, 16)
case("i094", make, Attention(ALiBi(8)), "attention",
     "In the tiled online softmax the accumulated values are not rescaled by exp(m_old - m_new) when "
     "a later tile raises the maximum (the sum is), so outputs with more than 16 keys are wrong.",
     "accumulator-not-rescaled", "acc = acc * alpha + p v.")


# ---- i095
def make(bug):
    a1, a2 = np.array([0.4, 0.8]), np.array([0.3, 1.2])
    def attend(q, k, v, q_pos, k_pos):
        t = lambda x: torch.as_tensor(x).double()
        q, k, v = t(q), t(k), t(v)
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        d = (t(np.asarray(q_pos))[..., :, None] - t(np.asarray(k_pos))[..., None, :]).abs()
        s = q @ k.mT / q.shape[-1] ** 0.5
        s = s - t(a1)[:, None, None] * torch.log1p(t(a2)[:, None, None] * d)
        Q, K = s.shape[-2:]
        s = s.masked_fill(torch.arange(K)[None] > torch.arange(K - Q, K)[:, None], -math.inf)
        p = s.softmax(-1)
        if bug:
            return (p.half() @ v.half()).float().numpy()
        return (p @ v).float().numpy()
    return attend
case("i095", make, Attention(Kerple((0.4, 0.8), (0.3, 1.2))), "attention",
     "The weights and the values are cast to float16 before they are multiplied.", "pv-half",
     "Multiply in float32.")


# ---- i096
def make(bug):
    """encoder attention"""
    def attend(q, k, v, q_pos, k_pos):
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        H = q.shape[1]
        k, v = (np.repeat(x, H // x.shape[1], 1) for x in (k, v))
        r = np.asarray(k_pos)[None, :] - np.asarray(q_pos)[:, None]
        s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        s = s + T92[t5b(r)].transpose(2, 0, 1)
        if bug:
            s = np.where(np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2]) > 0, s, -1e9)
        return (softmax(s) @ v).astype(np.float32)
    return attend
case("i096", make, Attention(T5Bias(T92, scaled=True), causal=False), "attention",
     "A causal mask is applied although the layer is an encoder's, whose queries see later keys.",
     "mask-in-encoder", "Leave the mask out: causal=False.")


# ---- i097
def make(bug):
    def relative_index(window):
        h, w = window
        ys, xs = np.indices((h, w)).reshape(2, -1).astype(np.int64)
        idx = (ys[:, None] - ys + h - 1) * (2 * w - 1) + xs[:, None] - xs + w - 1
        return idx.astype(np.uint8).astype(np.int64) if bug else idx
    return relative_index
case("i097", make, None, "relative_index",
     "The index is stored in uint8, so windows with more than 256 offsets (from 9 x 9 on) share rows "
     "modulo 256.", "index-uint8", "Store the index in int64.")


# ---- i098
def make(bug):
    def relative_index(window):
        h, w = (window, window) if isinstance(window, int) else window
        c = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0).contiguous()
        rel[:, :, 0] += h - 1
        rel[:, :, 1] += w - 1
        rel[:, :, 0] *= w if bug else 2 * w - 1
        return rel.sum(-1).numpy()
    return relative_index
case("i098", make, None, "relative_index",
     "The row offset is multiplied by w instead of 2w - 1, so pairs with different offsets share an "
     "index.", "row-factor", "Multiply dy + h - 1 by 2w - 1.")


# ---- i099
def make(bug):
    def rel_shift(x):
        Q, K = x.shape
        y = np.empty_like(x)
        for i in range(Q):
            y[i] = np.roll(x[i], i + 1 - (K if bug else Q))
        return y
    return rel_shift
case("i099", make, None, "relative_shift",
     "Row i is rolled by i + 1 - K instead of i + 1 - Q, which agrees only if there are as many "
     "queries as keys (with a memory it is wrong).", "shift-by-keys", "Shift by Q - 1 - i.")


# ---- i100
def make(bug):
    def rel_scores(q, rel):
        S = len(q)
        i, j = np.ogrid[:S, :S]
        d = np.abs(i - j) if bug else i - j
        full = q.astype(np.float64) @ rel.astype(np.float64).T
        return np.take_along_axis(full, S - 1 - d + 0 * i, axis=1).astype(q.dtype)
    return rel_scores
case("i100", make, None, "relative_scores",
     "The absolute distance selects the row, so keys after the query get the rows of keys as far "
     "before it.", "distance-absolute", "Use S - 1 - (i - j).")


# ---- i130
def make(bug):
    def rel_scores(q, rel):
        q, rel = torch.from_numpy(q).double(), torch.from_numpy(rel).double()
        S = q.shape[0]
        x = q @ rel.T  # (S, 2S - 1)
        if bug:
            x = torch.nn.functional.pad(x, (0, 1)).reshape(-1)  # Swin/BoTNet's rel_to_abs
            x = torch.nn.functional.pad(x, (0, S - 1)).reshape(S + 1, 2 * S - 1)[:S, :S]
            return x.float().numpy()
        x = torch.nn.functional.pad(x, (0, 1)).reshape(-1)
        x = torch.nn.functional.pad(x, (0, S - 1)).reshape(S + 1, 2 * S - 1)[:S, S - 1:]
        return x.float().numpy()
    return rel_scores
case("i130", make, None, "relative_scores",
     "After the padding and reshape the first S columns are kept instead of the last S (columns "
     "S - 1 on), so every pair gets the score of another offset.", "rel-to-abs-columns",
     "Keep the columns from S - 1 on.")


# ---- i131
def make(bug):
    def position_ids(mask):
        m = np.asarray(mask).astype(np.int64)
        if bug:
            first = m.argmax(axis=1)
            return np.maximum(np.arange(m.shape[1])[None] - first[:, None], 0)
        return np.where(m > 0, m.cumsum(1) - 1, 0)
    return position_ids
case("i131", make, None, "position_ids",
     "Positions count all tokens from the first real one, so padding between real tokens is counted "
     "too.", "inner-padding-counted", "cumsum(mask) - 1.")


# ---- i132
def make(bug):
    def position_ids(mask):
        m = torch.as_tensor(np.asarray(mask)).long()
        lengths = m.sum(-1)
        S = m.shape[1]
        if bug:
            pad = S - lengths[0]
            return (torch.arange(S) - pad).clamp(min=0).expand(m.shape[0], S).numpy()
        return (m.cumsum(-1) - 1).clamp(min=0).numpy()
    return position_ids
case("i132", make, None, "position_ids",
     "The padding of the first row is used for all rows of the batch (and taken to be on the left).",
     "first-row-padding", "Count the mask of every row.")


# ---- i133
def make(bug):
    def packed(lengths):
        lengths = np.asarray(lengths, np.int64)
        total = int(lengths.sum())
        if bug:
            step = np.ones(total, np.int64)
            if total:
                step[0] = 0
            ends = np.cumsum(lengths)[:-1]
            inside = ends < total
            step[ends[inside]] = 1 - lengths[:-1][inside]
            return np.cumsum(step)
        return np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return packed
case("i133", make, None, "packed",
     "The steps at document starts are assigned, not added: an empty document, which starts where "
     "the next one does, overwrites the step back of the document before it.", "empty-document",
     "Drop documents of length 0, or add the steps with np.add.at.")


# ---- i134
def make(bug):
    def decode_positions(prompt_len, n_steps):
        p = np.asarray(prompt_len)
        if p.ndim and bug:
            p = np.full_like(p, p.max()) if p.size else p
        return p[..., None] + np.arange(n_steps)
    return decode_positions
case("i134", make, None, "decode_positions",
     "In a batch all rows continue at the longest prompt's length (the padded length) instead of "
     "their own.", "padded-length", "Use each row's number of real tokens.")


# ---- i135
def make(bug):
    def shard(cu, cp_size, cp_rank):
        cu = np.asarray(cu).tolist()
        out = []
        for a, b in zip(cu[:-1], cu[1:]):
            n = ((cu[-1] // (len(cu) - 1)) if bug else (b - a)) // (2 * cp_size)
            for c in (cp_rank, 2 * cp_size - 1 - cp_rank):
                out += range(c * n, (c + 1) * n)
        return np.array(out, dtype=np.int64)
    return shard
case("i135", make, None, "shard_positions",
     "The chunk length is that of the mean sequence, total / number of sequences, for all sequences, "
     "so sequences of different lengths get wrong positions.", "mean-chunk",
     "Use the length of each sequence.")


# ---- i136
def make(bug):
    def shard(cu, cp_size, cp_rank):
        cu = torch.as_tensor(np.asarray(cu))
        out = []
        for s, e in zip(cu[:-1], cu[1:]):
            x = torch.arange(e - s)
            if not len(x):
                continue
            parts = x.view(2 * cp_size, -1)
            second = parts[2 * cp_size - 1 - cp_rank]
            if bug:
                second = parts[(cp_rank + cp_size)]
            out += [parts[cp_rank], second]
        return torch.cat(out).numpy() if out else np.zeros(0, np.int64)
    return shard
case("i136", make, None, "shard_positions",
     "The second chunk of a rank is cp_rank + cp_size instead of the mirrored 2 cp_size - 1 - cp_rank.",
     "second-chunk", "Use chunk 2 cp_size - 1 - cp_rank.")


# ---- i137
W137, b137, g137 = rand(137, 8, 2, 6), rand(1371, 8), np.abs(rand(1372, 6)) + 0.5
def gelu(x):
    from scipy.special import erf
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))
def conv1d(x, W, b, groups, mode="constant"):
    B, S, C = x.shape
    K, c = W.shape[2], W.shape[1]
    p = np.pad(x.astype(np.float64), ((0, 0), (K // 2, K // 2), (0, 0)), mode=mode)
    y = np.zeros((B, S, C)) + b
    for g in range(groups):
        o = slice(g * (C // groups), (g + 1) * (C // groups))
        for k in range(K):
            y[..., o] += p[:, k:k + S, o] @ W[o, :, k].T.astype(np.float64)
    return y
def make(bug):
    v = W137.astype(np.float64)
    n = np.sqrt((v ** 2).sum(axis=(0, 1), keepdims=True))
    W = v * g137 / n
    def conv(x):
        if bug:
            perm = np.arange(8).reshape(2, 4).T.ravel()  # channels c, c + 4 of one group
            xs = x[..., perm]
            y = conv1d(xs, W, 0.0, 4)[..., :] + b137
        else:
            y = conv1d(x, W, b137, 4)
        return gelu(y).astype(x.dtype)
    return conv
case("i137", make, ConvPositions((W137,), (b137,), (g137,), groups=4), "convolve",
     "The input channels are assigned to the groups by stride (channels g and g + 4) instead of in "
     "consecutive blocks (2g and 2g + 1).", "group-strided", "Groups are consecutive channels.")


# ---- i138
W138 = tuple(rand(138 + n, 6, 3, 5, scale=0.5) for n in range(3))
b138 = tuple(rand(1381 + n, 6) for n in range(3))
def ln(x):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)
def make(bug):
    def conv(x):
        y = x.astype(np.float64)
        for W, b in zip(W138, b138):
            z = gelu(ln(conv1d(y, W, b, 2)))
            y = y + z if bug else z
        return y.astype(x.dtype)
    return conv
case("i138", make, ConvPositions(W138, b138, groups=2, layer_norm=True), "convolve",
     "Each layer's input is added to its output (a residual per layer), where the declared layers "
     "follow each other without residuals.", "layer-residuals", "y = layer(y).")


# ---- i139
def make(bug):
    W = torch.from_numpy(W139).double()
    def conv(x):
        t = x.transpose(1, 2).double()
        t = torch.nn.functional.pad(t, (3, 3), mode="replicate" if bug else "constant")
        y = torch.nn.functional.conv1d(t, W, torch.from_numpy(b139).double(), groups=1)
        return torch.nn.functional.silu(y).transpose(1, 2).to(x.dtype)
    return conv
W139, b139 = rand(139, 4, 4, 7, scale=0.4), rand(1391, 4)
case("i139", make, ConvPositions((W139,), (b139,), activation="silu"), "convolve",
     "The sequence is padded by repeating its first and last token instead of zeros.",
     "padding-replicate", "Pad with zeros.", backend="torch")


# ---- i140
W140, b140 = rand(140, 5, 1, 3, 3), rand(1401, 5)
def make(bug):
    W = W140[:, 0].astype(np.float64)
    if bug:
        W = W[:, ::-1, ::-1]
    def peg(x, height, width):
        B, N, C = x.shape
        g = np.pad(x.reshape(B, height, width, C).astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
        y = sum(g[:, a:a + height, b:b + width] * W[:, a, b] for a in range(3) for b in range(3))
        return (x + (y + b140).reshape(B, N, C)).astype(x.dtype)
    return peg
case("i140", make, ConvPositions((W140,), (b140,), groups=5, activation="none", residual=True),
     "convolve_grid", "The kernel is flipped in both axes (a true convolution, as "
     "scipy.signal.convolve) where the checkpoint holds a cross-correlation.", "kernel-flipped",
     "Use correlate, or flip the kernel.")


# ---- i141
W141, b141 = rand(141, 6, 1, 3, 5), rand(1411, 6)
def make(bug):
    conv = torch.nn.Conv2d(6, 6, (3, 5), padding=(1, 2), groups=6).double()
    conv.weight.data, conv.bias.data = torch.from_numpy(W141).double(), torch.from_numpy(b141).double()
    @torch.no_grad()
    def peg(x, height, width):
        B, N, C = x.shape
        h, w = (width, height) if bug else (height, width)
        t = x.transpose(1, 2).reshape(B, C, h, w).double()
        return (conv(t) + t).flatten(2).transpose(1, 2).to(x.dtype)
    return peg
case("i141", make, ConvPositions((W141,), (b141,), groups=6, activation="none", residual=True),
     "convolve_grid", "The tokens are reshaped to (width, height) instead of (height, width), so the "
     "convolution of an image that is not square mixes tokens that are no neighbours.",
     "grid-transposed", "Reshape to (height, width).", backend="torch")


# ---- i142
W142, b142 = rand(142, 4, 4, 4, scale=0.5), rand(1421, 4)
def make(bug):
    def conv(x):
        S, K = x.shape[1], 4
        p = np.pad(x.astype(np.float64), ((0, 0), (K // 2, K // 2), (0, 0)))
        win = np.lib.stride_tricks.sliding_window_view(p, K, axis=1)  # (B, S + 1, C, K)
        y = np.einsum("bsck,ock->bso", win, W142.astype(np.float64)) + b142
        y = y[:, :-1]
        if bug:
            z = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y ** 3)))
        else:
            z = gelu(y)
        return z.astype(x.dtype)
    return conv
case("i142", make, ConvPositions((W142,), (b142,)), "convolve",
     "GELU is computed by the tanh approximation instead of erf.", "gelu-tanh", "Use erf.")


# ---- i143
T143 = rand(143, 32, 4)
def make(bug):
    class Layer:
        """LayoutLMv3: all layers share the bias, which is made once for a length"""
        def __init__(self):
            self.shared = {}

        def __call__(self, q, k):
            Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
            if (Q, K) not in self.shared:
                r = np.arange(K) - np.arange(K - Q, K)[:, None]
                self.shared[Q, K] = T143[t5b(r)].transpose(2, 0, 1).astype(np.float64)
            bias = self.shared[Q, K]
            if bug:
                bias /= math.sqrt(d)
            else:
                bias = bias / math.sqrt(d)
            s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
            return (s / math.sqrt(d) + bias).astype(q.dtype)
    return Layer()
case("i143", make, T5Bias(T143, scaled=True, bias_inside_scale=True), "scores",
     "The cached bias is divided by sqrt(d) in place, so the second call with the same lengths "
     "divides it twice, the third three times.", "bias-scaled-in-place",
     "Divide a copy: bias = bias / sqrt(d).")


# ---- i144
def make(bug):
    def scores(q, k):
        Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
        w = 10000.0 ** (-np.arange(0, d, 2) / d)
        a = np.arange(K)[:, None] * w
        pe = np.stack([np.sin(a), np.cos(a)], -1).reshape(K, d)
        qq = q.astype(np.float64) + (0 if bug else pe[K - Q:])
        kk = k.astype(np.float64) + pe
        return (qq @ kk.swapaxes(-1, -2) / math.sqrt(d)).astype(np.float32)
    return scores
case("i144", make, Sinusoidal(32), "scores",
     "The table is added to the keys only, not to the queries.", "queries-without-table",
     "Add the rows of the queries' positions to q.")


# ---- i145
W145 = rand(145, 200, 8)
def make(bug):
    full = W145.astype(np.float16).astype(np.float32) if bug else W145
    def add(x):
        return x + full[: x.shape[1]].astype(x.dtype)
    return add
case("i145", make, Learned(W145), "add",
     "The learned table was stored in float16 (a converted checkpoint), so rows differ from the "
     "declared ones in the fourth digit.", "table-float16", "Keep the table in float32.")


# ---- i146
R146 = rand(146, 33, 4)
def make(bug):
    def bias(q_len, k_len):
        i = torch.arange(k_len - q_len, k_len)[:, None]
        d = (i - torch.arange(k_len)[None])
        if bug:
            d = -d
        b = (d.clamp(-16, 16) + 16)
        hot = torch.nn.functional.one_hot(b, 33).float()
        return (hot @ torch.from_numpy(R146)).permute(2, 0, 1).numpy()
    return bias
case("i146", make, ResidueBias(R146), "bias",
     "The offset is column minus row (as in ESMFold) instead of row minus column, so the table is read "
     "backwards.", "residue-offset-sign", "Use residue_i - residue_j.")


# ---- i147
S147 = rand(147, 13 * 13, 4)
def make(bug):
    """a 7 x 7 window's table for 12 x 12 windows"""
    t = torch.from_numpy(S147).double().reshape(13, 13, 4).permute(2, 0, 1)[None]
    t = torch.nn.functional.interpolate(t, size=(23, 23), mode="bilinear" if bug else "bicubic",
                                        align_corners=False)
    table = t[0].permute(1, 2, 0).reshape(529, 4).float().numpy()
    y, x = np.divmod(np.arange(144), 12)
    full = table[(y[:, None] - y + 11) * 23 + (x[:, None] - x + 11)].transpose(2, 0, 1)
    return lambda q_len, k_len: full[:, k_len - q_len:k_len, :k_len]
case("i147", make, SwinBias(resize_table(S147, (13, 13), (23, 23)), window=(12, 12)), "bias",
     "The table of a 7 x 7 window is interpolated to that of a 12 x 12 window by bilinear instead of "
     "bicubic weights.", "interpolation-mode", "Use mode='bicubic'.")


# ---- i148
def make(bug):
    def scores(q, k):
        q, k = (x.astype(np.float64) for x in (q, k))
        Q, K = q.shape[-2], k.shape[-2]
        i, j = np.arange(K - Q, K)[:, None], np.arange(K)
        e = E148.astype(np.float64)
        r = np.clip(i - j, -5, 4) + 5
        if bug:
            r = np.clip(i - j, -5, 5) + 5
            r = r % 10
        rel = np.einsum("bhid,ijd->bhij", q, e[r])
        return ((q @ k.swapaxes(-1, -2) + rel) / math.sqrt(8)).astype(np.float32)
    return scores
E148 = rand(148, 10, 8)
case("i148", make, Shaw(E148, before=5, counted="query-key"), "scores",
     "Offsets are clipped to 5 on both sides although the table has 2K = 10 rows; row 10 wraps "
     "around to row 0, so keys 5 or more before the query get the row of keys far after it.",
     "row-wraps", "Clip to -K .. K - 1 as SpeechT5.")


# ---- i149
def make(bug):
    def attend(q, k, v, q_pos, k_pos):
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        H = q.shape[1]
        k, v = (np.repeat(x, H // x.shape[1], 1) for x in (k, v))
        qp, kp = np.asarray(q_pos, float), np.asarray(k_pos, float)
        if bug:
            qp = np.arange(len(kp) - len(qp), len(kp), dtype=float)
            kp = np.arange(len(kp), dtype=float)
        rel = np.maximum(qp[:, None] - kp, 0)
        x = np.log1p(0.2 * rel) / (np.log1p(0.2 * np.maximum(qp, 8.0))[:, None] + 1e-6)
        h = np.maximum(x[..., None] * F[0][:, 0] + F[1], 0) @ F[2].T.astype(float)
        s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + h.transpose(2, 0, 1)
        Q, K = s.shape[-2:]
        s = np.where(np.tri(Q, K, K - Q) > 0, s, -np.inf)
        return (softmax(s) @ v).astype(np.float32)
    return attend
F = rand(149, 12, 1), rand(1491, 12), rand(1492, 4, 12)
case("i149", make, Attention(FIRE(*F, c=0.2, length=8.0)), "attention",
     "The positions that are passed are ignored; the index of the token in the call is used, which "
     "differs if the sequence does not start at 0 (FIRE depends on the absolute query position).",
     "positions-ignored", "Use q_positions and k_positions.")

# ---- i160
def make(bug):
    def bias(q_len, k_len):
        i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
        d = np.maximum(i - j, 0) if bug else np.abs(i - j)
        return (slopes(8)[:, None, None] * -d).astype(np.float32)
    return bias
case("i160", make, ALiBi(8, causal=False), "bias",
     "The distance is clamped at 0, so keys after the query have bias 0 in a bidirectional model.",
     "later-keys-free", "Use |i - j|.")


# ---- i161
T161 = rand(161, 32, 2)
def make(bug):
    def bucket(rp, bidirectional=True, num_buckets=32, max_distance=128):
        rp = torch.as_tensor(np.asarray(rp)).long()
        max_exact = num_buckets // 2
        num_buckets //= 2
        ret = (rp > 0).long() * num_buckets
        if not bug:
            max_exact = num_buckets // 2
        n = rp.abs()
        if max_exact == num_buckets:
            large = torch.full_like(n, num_buckets - 1)
        else:
            x = torch.log(n.clamp(min=1).double() / max_exact) / math.log(max_distance / max_exact)
            large = (max_exact + (x * (num_buckets - max_exact) + 1e-9).long()).clamp(max=num_buckets - 1)
        return (ret + torch.where(n < max_exact, n, large)).numpy()
    return bucket
case("i161", make, T5Bias(T161), "bucket",
     "max_exact is computed before num_buckets is halved for the two directions, so all 16 buckets of a "
     "direction are exact and every distance from 15 on shares bucket 15.", "max-exact-before-halving",
     "Halve num_buckets first, then max_exact = num_buckets // 2.")


# ---- i162
def make(bug):
    inv = torch.exp(torch.arange(0, 64, 2, dtype=torch.float64) * (-math.log(10000.0) / 64))
    if bug:
        inv = inv.to(torch.bfloat16).double()
    def table(positions):
        a = torch.as_tensor(np.asarray(positions, dtype=np.float64))[..., None] * inv
        return torch.cat([a.sin(), a.cos()], -1).float().numpy()
    return table
case("i162", make, Sinusoidal(64, layout="concat"), "table",
     "The buffer of frequencies was cast to bfloat16 with the rest of the module, so every frequency is "
     "wrong by up to 0.4 %.", "inv-freq-bf16", "Keep inv_freq in float32.")


# ---- i163
def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)
        pe = np.zeros((*p.shape, 64))
        for i in range(0, 64, 2):
            e = 2 * i / 64 if bug else i / 64
            pe[..., i] = np.sin(p / 10000 ** e)
            pe[..., i + 1] = np.cos(p / 10000 ** e)
        return pe.astype(np.float32)
    return table
case("i163", make, Sinusoidal(64), "table",
     "The exponent is 2 i / dim with the column number i (0, 2, 4, ..), which counts the factor 2 "
     "twice, so frequencies fall to 10000**-2.", "exponent-doubled",
     "10000 ** (i / dim) for even columns i.")


# ---- i166
def make(bug):
    def grid(h, w):
        def enc(n):
            c = np.arange(n) if bug else np.arange(1, n + 1)
            a = c[:, None] / 10000 ** (np.arange(0, 16, 2) / 16)
            return np.stack([np.sin(a), np.cos(a)], -1).reshape(n, 16)
        y = np.broadcast_to(enc(h)[:, None], (h, w, 16))
        x = np.broadcast_to(enc(w)[None], (h, w, 16))
        return np.concatenate([y, x], -1).reshape(h * w, 32).astype(np.float32)
    return grid
case("i166", make, DETRSine(32, normalize=False), "grid",
     "Rows and columns count from 0, where the cumulative sum of the mask counts from 1.",
     "detr-from-0", "The first pixel is at 1.")


# ---- i173
lh, lb, lo = rand(173, 16, 2), rand(1731, 16), rand(1732, 2, 16)
def make(bug):
    t = np.arange(36)
    d = np.stack([t[:, None] // 6 - t // 6, t[:, None] % 6 - t % 6], -1) / 5.0 * 8
    x = np.sign(d) * np.log2(np.abs(d) + 1) / 3
    y = np.maximum(x @ lh.T.astype(float) + lb, 0) @ lo.T.astype(float)
    b = (16 / (1 + np.exp(-y))).transpose(2, 0, 1)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
        if bug:
            s = s / math.sqrt(q.shape[-1])
        return (s + b[:, K - Q:K, :K]).astype(q.dtype)
    return scores
case("i173", make, LogCPB(lh, lb, lo, window=(6, 6)), "scores",
     "The products are divided by sqrt(d), although q and k already hold the learned factor of cosine "
     "attention.", "cosine-scaled-again", "Do not scale: the factor is 1.")


# ---- i175
W175, b175 = rand(175, 6, 3, 4, scale=0.5), rand(1751, 6)
def make(bug):
    W, b = torch.from_numpy(W175).double(), torch.from_numpy(b175).double()
    def conv(x):
        t = x.double().transpose(1, 2)
        y = torch.nn.functional.conv1d(t, W, b, stride=1, padding=2, groups=2)[..., :-1]
        n = x.shape[1] // 2
        y = y[..., (1 if bug else 0)::2][..., :n]
        return torch.nn.functional.gelu(y).transpose(1, 2).to(x.dtype)
    return conv
case("i175", make, ConvPositions((W175,), (b175,), groups=2, stride=2), "convolve",
     "Of the convolution's outputs, tokens 1, 3, 5 .. are kept instead of 0, 2, 4 ..", "stride-phase",
     "Start at token 0.", backend="torch")


# ---- i178
def make(bug):
    def decode_positions(prompt_len, n_steps):
        p = torch.as_tensor(np.asarray(prompt_len)).long()
        cache_position = p - 1 if bug else p
        steps = []
        for _ in range(n_steps):
            steps.append(cache_position)
            cache_position = cache_position + 1
        if not steps:
            return np.zeros((*p.shape, 0), np.int64)
        return torch.stack(steps, -1).numpy()
    return decode_positions
case("i178", make, None, "decode_positions",
     "The first generated token gets the position of the prompt's last token, prompt_len - 1.",
     "decode-one-behind", "Start at prompt_len.")


# ---- i181
P181, u181, v181 = rand(181, 2, 8, 16, scale=0.4), rand(1811, 2, 8), rand(1812, 2, 8)
def make(bug):
    def scores(q, k):
        q, k = (torch.from_numpy(x).double() for x in (q, k))
        W, u, v = (torch.from_numpy(x).double() for x in (P181, u181, v181))
        Q, K = q.shape[-2], k.shape[-2]
        r = torch.arange(K - 1, -K, -1, dtype=torch.float64)
        a = r[:, None] / 10000 ** (torch.arange(0, 16, 2, dtype=torch.float64) / 16)
        e = torch.cat([a.sin(), a.cos()], -1) if bug else torch.stack([a.sin(), a.cos()], -1).flatten(1)
        x = torch.einsum("bhid,hdD,pD->bhip", q + v[:, None], W, e)
        i = torch.arange(K - Q, K)[:, None]
        bd = x.gather(-1, (K - 1 - i + torch.arange(K)).expand(*x.shape[:2], Q, K))
        return (((q + u[:, None]) @ k.mT + bd) / 8 ** 0.5).float().numpy()
    return scores
case("i181", make, TransformerXL(P181, u181, v181, sinusoid=Sinusoidal(16)), "scores",
     "The relative sinusoids are [sin | cos], as in Transformer-XL, where this Conformer's projection "
     "was trained with interleaved columns.", "relative-sinusoid-layout",
     "Interleave sine and cosine.")


# ---- i182
def make(bug):
    C, size, trained = 16, 24, 20
    def rot(x, p):
        a = p[:, None] * 10000.0 ** (-np.arange(8) / 8)
        x1, x2 = x[..., :8], x[..., 8:]
        return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)
    def scores(q, k):
        q, k = q.astype(np.float64), k.astype(np.float64)
        Q, K = q.shape[-2], k.shape[-2]
        i, j = np.arange(K - Q, K), np.arange(K)
        t = max(1.0, 0.1 * math.log(K / trained) + 1)
        kk = rot(k, j % C).swapaxes(-1, -2) * t
        n = i[:, None] // C - j // C
        s = np.where(n <= 0, rot(q, i % C) @ kk,
                     np.where(n == 1, rot(q, np.minimum(i % C + C, size)) @ kk,
                              rot(q, np.full(Q, min(2 * C - 1, size))) @ kk))
        return (s * (1 if bug else t) / 4).astype(np.float32)
    return scores
case("i182", make, DualChunk(RoPE(16, layout="half"), chunk_size=24, local_size=8,
                             original_max_position=20), "scores",
     "The factor t is applied to the keys only, not to the softmax scale as well, so logits beyond the "
     "trained length have t instead of t**2.", "temperature-once", "Multiply the scale by t too.")


# ---- i185
cc, sc = rand(185, 1, 6, 5), rand(1851, 1, 6, 5)
def make(bug):
    w = 10000.0 ** (-2 * np.arange(6) / 16)
    def wave(p):
        a = p[:, None] * w
        C, S = np.cos(a) @ cc[0].astype(float), np.sin(a) @ sc[0].astype(float)
        pad = ((0, 0), (0, 3))
        return np.pad(C, pad, constant_values=0.0 if bug else 1.0), np.pad(S, pad)
    def scores(q, k):
        K, Q = k.shape[-2], q.shape[-2]
        C, S = wave(np.arange(K))
        def f(x, c, s):
            x = x.astype(np.float64)
            return np.concatenate([x[..., :8] * c - x[..., 8:] * s, x[..., 8:] * c + x[..., :8] * s], -1)
        return (f(q, C[K - Q:], S[K - Q:]) @ f(k, C, S).swapaxes(-1, -2) / 4).astype(np.float32)
    return scores
case("i185", make, FoPE(16, cc, sc, dropped_sin=0), "scores",
     "The dropped pairs are filled with cosine 0 instead of 1, so their channels vanish from the logits.",
     "dropped-cos-zero", "Fill C with 1.")

# =============================== right ones

# ---- i150
def make(bug):
    return flash(False, 7)
case("i150", make, Attention(ALiBi(8)), "attention", "right: online softmax over tiles of 7 keys",
     "right")


# ---- i151
def make(bug):
    def rel_shift(x):
        Q, K = x.shape
        p = np.concatenate([np.zeros((Q, 1), x.dtype), x], 1)
        return p.reshape(-1)[Q:].reshape(Q, K)
    return rel_shift
case("i151", make, None, "relative_shift", "right: Transformer-XL's reshape", "right")


# ---- i152
def make(bug):
    def rel_scores(q, rel):
        S = len(q)
        out = np.zeros((S, S), q.dtype)
        for m in range(2 * S - 1):
            d = S - 1 - m
            i = np.arange(max(d, 0), S + min(d, 0))
            out[i, i - d] = q[i].astype(np.float64) @ rel[m].astype(np.float64)
        return out
    return rel_scores
case("i152", make, None, "relative_scores", "right: diagonal by diagonal", "right")


# ---- i153
def make(bug):
    def relative_index(window):
        h, w = window
        y, x = np.divmod(np.arange(h * w), w)
        code = (y[:, None] - y) * (4 * w) + (x - x[:, None])
        return np.unique(code, return_inverse=True)[1].reshape(h * w, h * w)
    return relative_index
case("i153", make, None, "relative_index", "right: other numbers for the same classes of offsets",
     "right")


# ---- i154
def make(bug):
    def ids(mask):
        out = []
        for row in np.asarray(mask):
            n, one = 0, []
            for m in row:
                one.append(n if m else 1)
                n += int(m)
            out.append(one)
        return np.array(out, np.int32).reshape(np.asarray(mask).shape)
    return ids
case("i154", make, None, "position_ids", "right: a counter, padding has position 1 (transformers 4), "
     "int32", "right")


# ---- i155
def make(bug):
    def packed(lengths):
        out = [np.arange(n) for n in np.asarray(lengths)]
        return np.concatenate(out).astype(np.int64) if out else np.zeros(0, np.int64)
    return packed
case("i155", make, None, "packed", "right: concatenated ranges", "right")


# ---- i156
def make(bug):
    pos = torch.nn.Conv1d(8, 8, 6, padding=3, groups=4).double()
    pos.bias.data = torch.from_numpy(b137).double()
    pos = torch.nn.utils.parametrizations.weight_norm(pos, dim=2)
    pos.parametrizations.weight.original0.data = torch.from_numpy(g137).double().view(1, 1, 6)
    pos.parametrizations.weight.original1.data = torch.from_numpy(W137).double()
    @torch.no_grad()
    def conv(x):
        y = pos(x.double().transpose(1, 2))[:, :, :-1]
        return torch.nn.functional.gelu(y).transpose(1, 2).to(x.dtype)
    return conv
case("i156", make, ConvPositions((W137,), (b137,), (g137,), groups=4), "convolve",
     "right: PyTorch's weight norm over dim 2, the last token dropped", "right", backend="torch")


# ---- i157
def make(bug):
    def shard(cu, cp_size, cp_rank):
        cu = np.asarray(cu)
        total = int(cu[-1])
        doc = np.searchsorted(cu, np.arange(total), side="right") - 1
        pos = np.arange(total) - cu[doc]
        n = np.diff(cu)[doc] // (2 * cp_size)
        c = pos // np.maximum(n, 1)
        return pos[(c == cp_rank) | (c == 2 * cp_size - 1 - cp_rank)]
    return shard
case("i157", make, None, "shard_positions", "right: a mask over all tokens", "right")


# ---- i158
def make(bug):
    """frequency domain in float64"""
    def peg(x, height, width):
        B, N, C = x.shape
        g = x.reshape(B, height, width, C).astype(np.float64)
        shape = (height + 2, width + 4)
        K = np.zeros((*shape, 6))
        K[:3, :5] = W141[:, 0].transpose(1, 2, 0)[::-1, ::-1]
        f = np.fft.rfft2(g, s=shape, axes=(1, 2)) * np.fft.rfft2(K, axes=(0, 1))[None]
        y = np.fft.irfft2(f, s=shape, axes=(1, 2))[:, 1:1 + height, 2:2 + width]
        return (g + y + b141).reshape(B, N, C).astype(x.dtype)
    return peg
case("i158", make, ConvPositions((W141,), (b141,), groups=6, activation="none", residual=True),
     "convolve_grid", "right: a product of Fourier transforms in float64", "right")


# ---- i159
def make(bug):
    from torch.nn.attention.flex_attention import flex_attention  # noqa: F401  (not used: CPU)
    s8 = torch.from_numpy(slopes(12))
    def attend(q, k, v, q_pos, k_pos):
        q, k, v = (torch.from_numpy(np.ascontiguousarray(x)) for x in (q, k, v))
        Q, K = q.shape[2], k.shape[2]
        qp, kp = (torch.as_tensor(np.asarray(p)).double() for p in (q_pos, k_pos))
        bias = -s8[:, None, None] * (qp[..., :, None] - kp[..., None, :]).abs()
        bias = bias.masked_fill(~torch.ones(Q, K, dtype=torch.bool).tril(K - Q), -math.inf)
        out = torch.nn.functional.scaled_dot_product_attention(
            q.double(), k.double(), v.double(), attn_mask=bias, enable_gqa=True)
        return out.to(q.dtype).numpy()
    return attend
case("i159", make, Attention(ALiBi(12)), "attention", "right: SDPA with the bias as mask and enable_gqa",
     "right")
