import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- r057 Transformer-XL: distance with the wrong sign
_g = np.random.default_rng(57)
X57 = dict(projection=_g.normal(size=(2, 8, 12)) * 0.4, content_bias=_g.normal(size=(2, 8)), position_bias=_g.normal(size=(2, 8)))

def make(bug):
    D = 12
    inv = 1 / 10000.0 ** (np.arange(0, D, 2) / D)
    W, u, v = X57["projection"], X57["content_bias"], X57["position_bias"]

    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        i, j = np.arange(K - Q, K), np.arange(K)
        offsets = np.arange(-(K - 1), K)                    # every distance once
        a = (-offsets if bug else offsets)[:, None] * inv
        R = np.concatenate([np.sin(a), np.cos(a)], -1)
        r = np.einsum("nD,hdD->hnd", R, W)
        ac = np.einsum("bhqd,bhkd->bhqk", q + u[:, None], k)
        bd = np.einsum("bhqd,hnd->bhqn", q + v[:, None], r)
        col = i[:, None] - j + K - 1
        bd = np.take_along_axis(bd, np.broadcast_to(col, bd.shape[:2] + col.shape), -1)
        return ((ac + bd) / math.sqrt(q.shape[-1])).astype(q.dtype)
    return scores

case("r057", make, P.TransformerXL(**X57, sinusoid=P.Sinusoidal(12, layout="concat")), "scores",
     "Sinusoids are taken at key minus query, so the sine columns have the opposite sign.",
     "txl-offset-sign", "The offset is query minus key.")


# ---- r058 DeBERTa: p2c without the transposed gather
_g = np.random.default_rng(58)
KR, QR = _g.normal(size=(2, 8, 8)), _g.normal(size=(2, 8, 8))

def make(bug):
    span = 4

    def scores(q, k):
        B, H, Q, d = q.shape
        K = k.shape[2]
        scale = 1 / math.sqrt(3 * d)
        rel = np.arange(K - Q, K)[:, None] - np.arange(K)
        row = np.clip(rel + span, 0, 2 * span - 1)
        full = lambda t: np.broadcast_to(t, (B, H) + t.shape)
        c2p = np.take_along_axis(q @ KR.transpose(0, 2, 1), full(row), -1)
        att = k @ QR.transpose(0, 2, 1)                     # (B, H, K, 2 span)
        back = np.clip(-rel + span, 0, 2 * span - 1) if bug else row
        p2c = np.take_along_axis(att, full(back.T), -1).swapaxes(-1, -2)
        return ((q @ k.swapaxes(-1, -2) + c2p + p2c) * scale).astype(q.dtype)
    return scores

case("r058", make, P.DeBERTa(KR, QR), "scores",
     "In the position-to-content term, the relative position is negated as in the paper's equation, which the released code and its checkpoints do not do.",
     "deberta-p2c-negated", "Gather with the same relative position as content-to-position.")


# ---- r059 Shaw: table of 2K + 1 rows used as 2K
A59 = np.random.default_rng(59).normal(size=(9, 16))

def make(bug):
    K_ = 4

    def scores(q, k):
        Q, n = q.shape[2], k.shape[2]
        dist = np.arange(n)[None] - np.arange(n - Q, n)[:, None]
        idx = np.clip(dist, -K_, K_ - 1 if bug else K_) + K_
        a = A59[idx]                                        # (Q, K, d)
        s = np.einsum("bhqd,bhkd->bhqk", q, k) + np.einsum("bhqd,qkd->bhqk", q, a)
        return (s / np.sqrt(q.shape[-1])).astype(q.dtype)
    return scores

case("r059", make, P.Shaw(A59, before=4), "scores",
     "Offsets are clipped to -K .. K - 1, so the last row of the table, for all keys K or more after the query, is never used.",
     "shaw-clip-off-by-one", "Clip to -K .. K: the table has 2K + 1 rows.")


# ---- r060 CoPE: mask after the gates
C60 = np.random.default_rng(60).normal(size=(10, 8))

def make(bug):
    def scores(q, k):
        B, H, Q, d = q.shape
        K = k.shape[2]
        q = q.astype(np.float64)
        logits = q @ k.swapaxes(-1, -2) / math.sqrt(d)
        gates = 1 / (1 + np.exp(-logits))
        if not bug:
            gates = gates * (np.arange(K) <= np.arange(K - Q, K)[:, None])
        pos = np.minimum(gates[..., ::-1].cumsum(-1)[..., ::-1], len(C60) - 1)
        lo, hi = np.floor(pos).astype(int), np.ceil(pos).astype(int)
        by = q @ C60.T
        w = pos - lo
        e = np.take_along_axis(by, hi, -1) * w + np.take_along_axis(by, lo, -1) * (1 - w)
        return (logits + e).astype(k.dtype)
    return scores

case("r060", make, P.CoPE(C60), "scores",
     "Gates are computed before the causal mask, so keys after the query are counted in the positions.",
     "cope-unmasked-gates", "Mask the logits with -inf before the sigmoid.")


# ---- r061 GQA: tile instead of repeat
def make(bug):
    D = 32
    f = 10000.0 ** (-np.arange(0, D, 2) / D)

    def rope(x, p):
        a = np.asarray(p, np.float64)[..., None] * f
        a = a[:, None] if a.ndim == 3 else a
        x1, x2 = np.split(x.astype(np.float64), 2, -1)
        return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)

    def attention(q, k, v, q_positions, k_positions):
        Q, K = q.shape[2], k.shape[2]
        n_rep = q.shape[1] // k.shape[1]
        q_, k_ = rope(q, q_positions), rope(k, k_positions)
        if bug:
            k_, v_ = np.tile(k_, (1, n_rep, 1, 1)), np.tile(v, (1, n_rep, 1, 1))
        else:
            k_, v_ = np.repeat(k_, n_rep, 1), np.repeat(v, n_rep, 1)
        s = q_ @ k_.swapaxes(-1, -2) / math.sqrt(D)
        s = np.where(np.arange(K) <= np.arange(K - Q, K)[:, None], s, -np.inf)
        w = np.exp(s - s.max(-1, keepdims=True))
        return (w / w.sum(-1, keepdims=True) @ v_).astype(q.dtype)
    return attention

case("r061", make, P.Attention(P.RoPE(32, layout="half")), "attention",
     "Key and value heads are tiled instead of repeated: query head h reads key head h % H_kv.",
     "gqa-tile", "Query head h belongs to key head h // (H / H_kv).")


# ---- r062 sinks scaled with the logits
def make(bug):
    D = 16
    f = 150000.0 ** (-np.arange(0, D, 2) / D)

    def rope(x, p):
        a = np.asarray(p, np.float64)[..., None] * f
        a = a[:, None] if a.ndim == 3 else a
        x1, x2 = np.split(x.astype(np.float64), 2, -1)
        return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)

    def sdpa(q, k, v, q_positions, k_positions, sinks):
        B, H, Q, _ = q.shape
        K, rep = k.shape[2], H // k.shape[1]
        QK = rope(q, q_positions) @ np.repeat(rope(k, k_positions), rep, 1).swapaxes(-1, -2)
        S = np.broadcast_to(np.asarray(sinks, np.float64).reshape(1, H, 1, 1), (B, H, Q, 1))
        scale = D ** -0.5
        mask = np.triu(np.full((Q, K), -np.inf), K - Q + 1)
        if bug:
            QK = np.concatenate([QK + mask, S], -1) * scale
        else:
            QK = np.concatenate([QK * scale + mask, S], -1)
        W = np.exp(QK - QK.max(-1, keepdims=True))
        W = W / W.sum(-1, keepdims=True)
        return (W[..., :-1] @ np.repeat(v, rep, 1)).astype(q.dtype)
    return sdpa

case("r062", make, P.Attention(P.RoPE(16, layout="half", base=150000.0), sinks=True), "attention",
     "The sinks are joined to the products before the softmax scale, which then divides them by sqrt(d) as well.",
     "sink-scaled", "Append the sinks after the scale.")


# ---- r063 top-left causal mask
def make(bug):
    n = 4
    m = 2.0 ** (-8.0 / n * np.arange(1, n + 1))[:, None, None]

    def attention(q, k, v, q_positions, k_positions):
        Q, K = q.shape[2], k.shape[2]
        rep = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, rep, 1), np.repeat(v, rep, 1)
        qp, kp = np.asarray(q_positions, float), np.asarray(k_positions, float)
        dist = np.abs(qp[..., :, None] - kp[..., None, :])
        dist = dist if dist.ndim == 2 else dist[:, None]
        s = q.astype(np.float64) @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) - m * dist
        allowed = np.tril(np.ones((Q, K), bool), k=0 if bug else K - Q)
        s = np.where(allowed, s, -np.inf)
        w = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("bhqk,bhkd->bhqd", w / w.sum(-1, keepdims=True), v).astype(q.dtype)
    return attention

case("r063", make, P.Attention(P.ALiBi(4)), "attention",
     "The causal mask is aligned at the first key: with a cache, the queries do not see the last keys.",
     "causal-top-left", "Align the mask at the last key: tril with diagonal K - Q.")


# ---- r064 position ids that assume left padding
def make(bug):
    def position_ids(attention_mask):
        mask = np.asarray(attention_mask).astype(np.int64)
        if bug:
            n = mask.sum(-1, keepdims=True)
            return np.maximum(np.arange(mask.shape[-1]) - (mask.shape[-1] - n), 0)
        return np.where(mask == 1, mask.cumsum(-1) - 1, 0)
    return position_ids

case("r064", make, None, "position_ids",
     "The number of padding tokens is subtracted from every position, which is right for padding on the left only.",
     "assumes-left-padding", "Count real tokens: cumsum(mask) - 1.")


# ---- r065 packed: only the previous document
def make(bug):
    def packed(lengths):
        n = np.asarray(lengths, np.int64)
        start = np.concatenate([[0], n[:-1]]) if bug else np.cumsum(n) - n
        if n.size == 0:
            return np.zeros(0, np.int64)
        return np.arange(n.sum()) - np.repeat(start, n)
    return packed

case("r065", make, None, "packed",
     "The length of the previous document is subtracted, not the sum of all earlier ones: from the third document on, positions do not start at 0.",
     "packed-previous-length", "Subtract cumsum(lengths) - lengths.")


# ---- r066 decode: the padded length for all rows
def make(bug):
    def decode_positions(prompt_len, n_steps):
        n = np.asarray(prompt_len, np.int64)
        steps = np.arange(n_steps, dtype=np.int64)
        if n.ndim == 0:
            return n + steps
        start = np.full_like(n, n.max(initial=0)) if bug else n
        return start[:, None] + steps[None]
    return decode_positions

case("r066", make, None, "decode_positions",
     "All rows continue at the length of the longest prompt, which is the padded length of the batch.",
     "decode-padded-length", "Continue each row at its own number of real tokens.")


# ---- r067 shards: positions in the packed batch
def make(bug):
    def shard_positions(cu_seqlens, cp_size, cp_rank):
        cu = [int(c) for c in cu_seqlens]
        out = [np.zeros(0, np.int64)]
        for a, b in zip(cu[:-1], cu[1:]):
            ids = np.arange(a, b) if bug else np.arange(b - a)
            chunks = np.split(ids, 2 * cp_size)
            out += [chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]]
        return np.concatenate(out).astype(np.int64)
    return shard_positions

case("r067", make, None, "shard_positions",
     "The indices of the tokens in the packed batch are returned as positions, so they do not start at 0 in each sequence.",
     "shard-indices-as-positions", "Subtract the start of the sequence.")


# ---- r068, r069 M-RoPE
def mrope(advance, decode):
    """get_rope_index with the two places where ports differ: after a picture, and after the prompt."""
    def get_rope_index(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask)
        B, S = types.shape
        out = np.zeros((3, B, S + n_steps), np.int64)
        grids = {1: iter(np.asarray(image_grids).reshape(-1, 3).tolist()), 2: iter(np.asarray(video_grids).reshape(-1, 3).tolist())}
        for b in range(B):
            where = np.flatnonzero(mask[b] == 1)
            row, at, i = types[b, where], 0, 0
            cols = []
            while i < row.size:
                if row[i] == 0:
                    cols.append(np.full((3, 1), at))
                    at, i = at + 1, i + 1
                    continue
                t, h, w = next(grids[int(row[i])])
                gh, gw = h // 2, w // 2
                cols.append(np.indices((t, gh, gw)).reshape(3, -1) + at)
                at += advance(t, h, w)
                i += t * gh * gw
            if cols:
                pos = np.concatenate(cols, 1)
                out[:, b, where] = pos
            first = decode(pos.max() if cols else -1, where.size)
            out[:, b, S:] = first + np.arange(n_steps)
        return out
    return get_rope_index

MERGED = lambda t, h, w: max(t, h // 2, w // 2)
AFTER_MAX = lambda largest, length: largest + 1

def make(bug):
    return mrope((lambda t, h, w: max(t, h, w)) if bug else MERGED, AFTER_MAX)

case("r068", make, P.mrope_rule("qwen2_vl"), "mrope_position_ids",
     "The text after an image starts after the extent of the grid in patches, before 2 x 2 of them are merged.",
     "mrope-advance-unmerged", "Divide height and width by the merge size before taking the largest.")

def make(bug):
    return mrope(MERGED, (lambda largest, length: length) if bug else AFTER_MAX)

case("r069", make, P.mrope_rule("qwen2_vl"), "mrope_position_ids",
     "Generated tokens continue at the length of the prompt; rope_deltas is not added.",
     "mrope-delta-ignored", "Continue at the largest position plus one.")


# ---- r070 relative shift
def make(bug):
    def rel_shift(x):
        q, k = x.shape
        zero = np.zeros((q, 1), x.dtype)
        padded = np.concatenate([x, zero] if bug else [zero, x], axis=1)
        return padded.reshape(k + 1, q)[1:].reshape(q, k)
    return rel_shift

case("r070", make, None, "relative_shift",
     "The column of zeros is appended after the last distance instead of put before the first.",
     "shift-pad-right", "Concatenate (zeros, x).")


# ---- r071 permute: the other direction
def make(bug):
    def permute(w, n_heads):
        rows, hidden = w.shape
        d = rows // n_heads
        view = (n_heads, d // 2, 2, hidden) if bug else (n_heads, 2, d // 2, hidden)
        return w.reshape(view).swapaxes(1, 2).reshape(rows, hidden)
    return permute

case("r071", make, None, "permute_weights",
     "This is the permutation of the converter from Meta to Hugging Face, interleaved to half, and not its inverse.",
     "permute-wrong-direction", "View the rows of a head as (2, d/2) before transposing.")


# ---- r072 convolution: even kernel
_g = np.random.default_rng(72)
V72, B72, G72 = _g.normal(size=(8, 4, 6)) * 0.3, _g.normal(size=8), np.abs(_g.normal(size=6)) + 0.5

def make(bug):
    groups, K = 2, 6
    weight = V72 * (G72 / np.sqrt((V72 ** 2).sum((0, 1))))
    erf = np.vectorize(math.erf, otypes=[float])

    def conv_pos(x):
        B, S, C = x.shape
        pad = np.pad(x.astype(np.float64), ((0, 0), (K // 2, K // 2), (0, 0)))
        win = np.lib.stride_tricks.sliding_window_view(pad, K, axis=1)      # (B, S + 1, C, K)
        win = win.reshape(B, S + 1, groups, C // groups, K)
        y = np.einsum("bsgck,gock->bsgo", win, weight.reshape(groups, -1, C // groups, K)).reshape(B, S + 1, C) + B72
        y = y[:, 1:] if bug else y[:, :-1]
        return (0.5 * y * (1 + erf(y / math.sqrt(2)))).astype(x.dtype)
    return conv_pos

case("r072", make, P.ConvPositions((V72,), (B72,), (G72,), groups=2), "convolve",
     "The even kernel makes one token too many, and the first is dropped instead of the last.",
     "conv-drops-first", "SamePad removes the last token: y[:, :-1].")


# ---- r073 layers without positions
def make(bug):
    def uses_rope(n_layers):
        every = 4
        return [bool(i % every) if bug else bool((i + 1) % every) for i in range(n_layers)]
    return uses_rope

_M73 = P.ModelEncoding("nope-every-fourth", encodings={"rope": P.RoPE(64, layout="half"), "nope": None},
                       layer_types=("rope", "rope", "rope", "nope") * 6)
case("r073", make, _M73, "layers",
     "Every fourth layer has no positions, counted from layer 0 instead of layer 1: layers 0, 4, 8 skip the rotation, not 3, 7, 11.",
     "nope-interval-off-by-one", "Test (layer + 1) % interval.")


# ---- r074 RoBERTa: padding is counted
W74 = np.random.default_rng(74).normal(size=(80, 8)).astype(np.float32)

def make(bug):
    padding_idx = 1

    def create_position_ids(input_ids):
        mask = (np.asarray(input_ids) != padding_idx).astype(np.int64)
        steps = np.cumsum(mask, axis=-1)
        if not bug:
            steps = steps * mask
        return steps + padding_idx
    return create_position_ids

case("r074", make, P.Learned(W74, padding_idx=1), "ids_from_tokens",
     "The running count is not multiplied by the mask: padding after the text has the position of the last token instead of padding_idx.",
     "roberta-mask-not-applied", "cumsum(mask) * mask + padding_idx")


# ---- r075 norm over all heads
def make(bug):
    D = 32
    inv = 1e6 ** (-np.arange(0, D, 2) / D)

    def qk_norm_rope(x, weight, positions):
        z = x.astype(np.float64)
        axes = (1, 3) if bug else 3
        z = z / np.sqrt(np.mean(z * z, axis=axes, keepdims=True) + 1e-6) * weight
        a = np.asarray(positions, np.float64)[..., None] * inv
        a = np.concatenate([a, a], -1)
        a = a[:, None] if a.ndim == 3 else a
        rot = np.concatenate([-z[..., D // 2:], z[..., : D // 2]], -1)
        return (z * np.cos(a) + rot * np.sin(a)).astype(x.dtype)
    return qk_norm_rope

case("r075", make, P.RoPE(32, layout="half", base=1e6), "normed_apply",
     "The mean square is taken over all heads of a token, as in OLMo 2, instead of each head.",
     "qk-norm-all-heads", "Normalise each head by itself.")


# ---- right: online softmax
def make(bug):
    D, block = 32, 16
    f = 10000.0 ** (-np.arange(0, D, 2) / D)

    def rope(x, p):
        a = np.asarray(p, np.float64)[..., None] * f
        a = a[:, None] if a.ndim == 3 else a
        z = (x[..., ::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(1j * a)
        return np.stack([z.real, z.imag], -1).reshape(x.shape)

    def flash(q, k, v, q_positions, k_positions):
        B, H, Q, _ = q.shape
        K, rep = k.shape[2], H // k.shape[1]
        q_, k_ = rope(q, q_positions) / math.sqrt(D), np.repeat(rope(k, k_positions), rep, 1)
        v_ = np.repeat(v, rep, 1).astype(np.float64)
        m = np.full((B, H, Q, 1), -np.inf)
        l, acc = np.zeros_like(m), np.zeros((B, H, Q, v.shape[-1]))
        last = np.arange(K - Q, K)[:, None]
        for s in range(0, K, block):
            cols = np.arange(s, min(s + block, K))
            t = np.where(cols <= last, q_ @ k_[:, :, cols].swapaxes(-1, -2), -np.inf)
            new = np.maximum(m, t.max(-1, keepdims=True))
            safe = np.where(np.isfinite(new), new, 0.0)
            w, old = np.exp(t - safe), np.exp(m - safe)
            l, acc, m = l * old + w.sum(-1, keepdims=True), acc * old + w @ v_[:, :, cols], new
        return (acc / l).astype(q.dtype)
    return flash

case("r093", make, P.Attention(P.RoPE(32, layout="interleaved")), "attention",
     "Keys are read in blocks of 16 with a running maximum and sum.", "right")


# ---- right: relative keys by one-hot
T94 = np.random.default_rng(94).normal(size=(7, 8))

def make(bug):
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        row = np.clip(np.arange(K) - np.arange(K - Q, K)[:, None], -4, 2) + 4
        by_row = q @ T94.T
        rel = by_row[:, :, np.arange(Q)[:, None], row]
        return ((q @ k.swapaxes(-1, -2) + rel) * q.shape[-1] ** -0.5).astype(q.dtype)
    return scores

case("r094", make, P.Shaw(T94, before=4), "scores",
     "Queries are multiplied by the whole small table first, then the products are gathered.", "right")


# ---- right: DeepSeek's softmax scale
def make(bug):
    def softmax_scale():
        qk_nope, qk_rope, factor, mscale_all_dim = 128, 64, 40, 1.0
        scale = (qk_nope + qk_rope) ** -0.5
        m = 0.1 * mscale_all_dim * math.log(factor) + 1.0
        return scale * m * m
    return softmax_scale

case("r095", make, P.preset("deepseek-v3"), "softmax_scale",
     "The factor of YaRN is squared on the softmax scale, as in the released code.", "right")


# ---- right: packed M-RoPE, one document after another
def make(bug):
    index = mrope(MERGED, AFTER_MAX)

    def packed(token_types, image_grids, video_grids, seconds_per_grid, lengths):
        types = np.asarray(token_types)
        grids = {1: np.asarray(image_grids).reshape(-1, 3), 2: np.asarray(video_grids).reshape(-1, 3)}
        used, parts, start = {1: 0, 2: 0}, [np.zeros((3, 0), np.int64)], 0
        for n in lengths:
            doc = types[start: start + n]
            mine = {}
            for kind in (1, 2):
                need, first = int((doc == kind).sum()), used[kind]
                while need > 0:
                    need -= int(np.prod(grids[kind][used[kind]])) // 4
                    used[kind] += 1
                mine[kind] = grids[kind][first: used[kind]]
            parts.append(index(doc[None], mine[1], mine[2], None, np.ones((1, n), int), 0)[:, 0])
            start += n
        return np.concatenate(parts, axis=1)
    return packed

case("r096", make, P.mrope_rule("qwen2_vl"), "mrope_packed",
     "Each document is numbered by itself, with the grids that its tokens use up.", "right")


# ---- right: depthwise convolution as shifted sums
_g = np.random.default_rng(97)
W97, B97 = _g.normal(size=(6, 1, 5)), _g.normal(size=6)

def make(bug):
    def conv(x):
        y = x + B97
        for tap in range(5):
            shift = tap - 2
            src = x[:, max(shift, 0): x.shape[1] + min(shift, 0)]
            if src.shape[1] and abs(shift) < x.shape[1]:
                y[:, max(-shift, 0): max(-shift, 0) + src.shape[1]] += src * W97[:, 0, tap]
        return y.astype(x.dtype)
    return conv

case("r097", make, P.ConvPositions((W97,), (B97,), groups=6, activation="none", residual=True), "convolve",
     "Every tap adds a shifted copy of the sequence; nothing is padded.", "right")
