import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# --- s074: FIRE normalised by the sequence length
_h74, _b74, _o74 = (np.random.default_rng(740 + i).standard_normal(s).astype(np.float32) for i, s in enumerate(((16, 1), (16,), (4, 16))))
def make(bug):
    c, L, eps = 0.1, 16.0, 1e-6
    def forward(q_len, k_len):
        i = np.arange(k_len - q_len, k_len, dtype=np.float64)[:, None]
        rel = np.maximum(i - np.arange(k_len), 0)
        norm = np.full_like(i, k_len) if bug else i
        norm = np.maximum(norm, L)
        x = np.log(1 + c * rel) / (np.log(1 + c * norm) + eps)
        y = np.maximum(x[..., None] * _h74[:, 0] + _b74, 0) @ _o74.T.astype(np.float64)
        return np.moveaxis(y, -1, 0)
    return forward
case("s074", make, P.FIRE(_h74, _b74, _o74, c=0.1, length=16.0), "bias",
     "The distance is normalised by the length of the sequence for all queries; FIRE divides by a function of each query's own position.",
     "fire-sequence-length", "Normalise row i with max(i, L).")


# --- s075: BEiT, cls rows exchanged
_T75 = np.random.default_rng(75).standard_normal((5 * 7 + 3, 2)).astype(np.float32)
def make(bug):
    def gen_relative_position_index(h=3, w=4):
        n = (2 * h - 1) * (2 * w - 1) + 3
        area = h * w
        c = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
        rel = c[:, :, None] - c[:, None, :]
        idx = np.zeros((area + 1,) * 2, dtype=np.int64)
        idx[1:, 1:] = (rel[0] + h - 1) * (2 * w - 1) + rel[1] + w - 1
        if bug:
            idx[0:, 0], idx[0, 0:] = n - 3, n - 2
        else:
            idx[0, 0:], idx[0:, 0] = n - 3, n - 2
        idx[0, 0] = n - 1
        return idx
    def bias(q_len, k_len):
        index = gen_relative_position_index()[k_len - q_len:k_len, :k_len]
        return np.ascontiguousarray(_T75[index].transpose(2, 0, 1))
    return bias
case("s075", make, P.BEiTBias(_T75, window=(3, 4)), "bias",
     "The two rows of [CLS] are exchanged: pairs with [CLS] as the query get the bias of pairs with [CLS] as the key.",
     "cls-rows-exchanged", "Row n - 3 is for the [CLS] query, n - 2 for the [CLS] key.")


# --- s076: KERPLE power, r1 inside the power
def make(bug):
    p, a = np.array([0.5, 0.1, 1.3]), np.array([1.5, 0.6, 0.9])
    def bias(q_len, k_len):
        d = np.abs(np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)[None, :]).astype(np.float64)
        if bug:
            return -np.power(p[:, None, None] * d, a[:, None, None])
        return -p[:, None, None] * np.power(d, a[:, None, None])
    return bias
case("s076", make, P.Kerple([0.5, 0.1, 1.3], [1.5, 0.6, 0.9], form="power"), "bias",
     "The scale r1 multiplies the distance inside the power instead of the result.",
     "kerple-scale-inside", "Raise the distance alone to r2, then multiply by r1.")


# --- s077: Transformer-XL, one bias for both
_W77 = np.random.default_rng(77).standard_normal((2, 8, 16)) * 0.3
_u77, _v77 = np.random.default_rng(771).standard_normal((2, 2, 8))
def make(bug):
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        inv = 1 / 10000 ** (np.arange(0, 16, 2) / 16)
        pos = np.arange(K - 1, -K, -1)
        s = np.outer(pos, inv)
        R = np.concatenate([np.sin(s), np.cos(s)], -1)
        r = np.einsum("md,hed->hme", R, _W77)
        AC = np.einsum("bhie,bhje->bhij", q + _u77[:, None], k)
        BD = np.einsum("bhie,hme->bhim", q + (_u77 if bug else _v77)[:, None], r)
        col = (K - 1) - (np.arange(K - Q, K)[:, None] - np.arange(K))
        BD = np.take_along_axis(BD, np.broadcast_to(col, BD.shape[:2] + col.shape), axis=-1)
        return ((AC + BD) / math.sqrt(8)).astype(q.dtype)
    return scores
case("s077", make, P.TransformerXL(_W77, _u77, _v77, sinusoid=P.Sinusoidal(16, layout="concat")), "scores",
     "r_w_bias is added to the queries of both terms; the position term needs r_r_bias.",
     "one-bias-for-both", "Add v to the queries of the position term.")


# --- s078: DeBERTa scale
_kr78, _qr78 = np.random.default_rng(78).standard_normal((2, 2, 16, 8))
def make(bug):
    span = 8
    def scores(q, k):
        n, m = q.shape[2], k.shape[2]
        scale = math.sqrt(q.shape[-1] * (1 if bug else 3))
        idx = np.clip(np.arange(m - n, m)[:, None] - np.arange(m) + span, 0, 2 * span - 1)
        c2p = np.take_along_axis(q @ _kr78.swapaxes(-1, -2), np.broadcast_to(idx, q.shape[:2] + idx.shape), -1)
        p2c = np.take_along_axis(k @ _qr78.swapaxes(-1, -2), np.broadcast_to(idx.T, q.shape[:2] + idx.T.shape), -1).swapaxes(-1, -2)
        return ((q @ k.swapaxes(-1, -2) + c2p + p2c) / scale).astype(q.dtype)
    return scores
case("s078", make, P.DeBERTa(_kr78, _qr78), "scores",
     "Logits are divided by sqrt(d); with the terms c2p and p2c the divisor is sqrt(3 d).",
     "scale-factor-terms", "Multiply d by the number of terms.")


# --- s079: Shaw, index not moved
_s79 = np.random.default_rng(79).standard_normal((9, 8)).astype(np.float32)
def make(bug):
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        dist = np.clip(np.arange(K)[None, :] - np.arange(K - Q, K)[:, None], -4, 4)
        emb = _s79[dist if bug else dist + 4]
        logits = np.einsum("bhqd,bhkd->bhqk", q, k) + np.einsum("bhqd,qkd->bhqk", q, emb)
        return logits * np.float32(q.shape[-1] ** -0.5)
    return scores
case("s079", make, P.Shaw(_s79, before=4), "scores",
     "The clipped offset is used as an index without adding max_position: negative offsets index the table from its end.",
     "index-not-shifted", "Add max_relative_position to the clipped offset.")


# --- s080: CoPE sum from the start
_e80 = np.random.default_rng(80).standard_normal((12, 8)).astype(np.float32)
def make(bug):
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        logits = (q @ k.swapaxes(-1, -2)).astype(np.float64) / math.sqrt(q.shape[-1])
        mask = np.arange(K)[None] <= np.arange(K - Q, K)[:, None]
        gates = np.where(mask, 1 / (1 + np.exp(-logits)), 0)
        pos = np.cumsum(gates, -1) if bug else np.flip(np.cumsum(np.flip(gates, -1), -1), -1)
        pos = np.minimum(pos, len(_e80) - 1)
        lo, hi = np.floor(pos).astype(int), np.ceil(pos).astype(int)
        li = q.astype(np.float64) @ _e80.T
        w = pos - lo
        y = np.take_along_axis(li, hi, -1) * w + np.take_along_axis(li, lo, -1) * (1 - w)
        return (logits + y).astype(q.dtype)
    return scores
case("s080", make, P.CoPE(_e80), "scores",
     "The gates are summed from the first key on; the position of a key is the sum from the key to the query.",
     "cumsum-direction", "Flip before and after the cumulative sum.")


# --- s081: T5 through a fused attention with its default scale
_T81 = np.random.default_rng(81).standard_normal((32, 4)).astype(np.float32)
def make(bug):
    def bucket(r, nb=16, md=128):
        n = np.abs(r)
        big = 8 + np.floor(np.log(np.maximum(n, 1) / 8) / math.log(md / 8) * 8 + 1e-9).astype(int)
        return (r > 0) * nb + np.where(n < 8, n, np.minimum(big, nb - 1))
    def scores(q, k, softmax_scale=None):
        Q, K = q.shape[2], k.shape[2]
        if softmax_scale is None:
            softmax_scale = q.shape[-1] ** -0.5 if bug else 1.0
        b = _T81[bucket(np.arange(K)[None] - np.arange(K - Q, K)[:, None])]
        return np.matmul(q, k.swapaxes(2, 3)) * np.float32(softmax_scale) + b.transpose(2, 0, 1)[None]
    return lambda q, k: scores(q, k)
case("s081", make, P.T5Bias(_T81), "scores",
     "The fused attention is called without a scale and uses its default 1/sqrt(d); T5 does not scale q . k.",
     "default-sdpa-scale", "Pass scale=1.0.")


# --- s082: grouped queries with tile
def make(bug):
    inv = 10000.0 ** (-np.arange(0, 32, 2) / 32)
    def rope(x, p):
        a = np.asarray(p, np.float64)[..., None, :, None] * inv
        u, v = np.split(x.astype(np.float64), 2, -1)
        return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1)
    def attention(q, k, v, qp, kp):
        n_rep = q.shape[1] // k.shape[1]
        q, k = rope(q, qp), rope(k, kp)
        if bug:
            k, v = np.tile(k, (1, n_rep, 1, 1)), np.tile(v, (1, n_rep, 1, 1))
        else:
            k, v = np.repeat(k, n_rep, axis=1), np.repeat(v, n_rep, axis=1)
        Q, K = q.shape[2], k.shape[2]
        s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        s = np.where(np.tri(Q, K, K - Q, dtype=bool), s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).astype(v.dtype)
    return attention
case("s082", make, P.RoPE(32, layout="half"), "attention",
     "Key and value heads are tiled (0, 1, 0, 1) instead of repeated (0, 0, 1, 1), so query heads read the keys of other groups.",
     "kv-heads-tiled", "Use repeat_interleave on the head axis.")


# --- s083: is_causal aligned to the top left
def make(bug):
    slopes = np.array([2.0 ** -2, 2.0 ** -4, 2.0 ** -6, 2.0 ** -8])
    def sdpa(q, k, v, attn_bias, is_causal=True):
        L, S = q.shape[-2], k.shape[-2]
        w = np.einsum("bhld,bhsd->bhls", q, k) / math.sqrt(q.shape[-1]) + attn_bias
        if is_causal:
            keep = np.tril(np.ones((L, S), bool), k=0 if bug else S - L)
            w = np.where(keep, w, -np.inf)
        w = np.exp(w - w.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        return w @ v
    def attention(q, k, v, qp, kp):
        g = q.shape[1] // k.shape[1]
        qp, kp = np.asarray(qp, float), np.asarray(kp, float)
        dist = np.abs(qp[..., :, None] - kp[..., None, :])
        dist = dist[..., None, :, :]
        out = sdpa(q.astype(float), np.repeat(k, g, 1), np.repeat(v, g, 1), -slopes[:, None, None] * dist)
        return out.astype(v.dtype)
    return attention
case("s083", make, P.ALiBi(4), "attention",
     "The causal mask is aligned with the top left corner, so with a cache the queries see only the oldest keys.",
     "mask-top-left", "Align the mask with the last key: diagonal K - Q.")


# --- s084: the sink logit is scaled like q . k
def make(bug):
    freqs = 150000.0 ** (-np.arange(16) / 16)
    def attention(q, k, v, qp, kp, sinks):
        def rot(x, p):
            z = (x[..., :16] + 1j * x[..., 16:].astype(np.float64)) * np.exp(1j * (np.asarray(p, np.float64)[..., None, :, None] * freqs))
            return np.concatenate([z.real, z.imag], -1)
        B, H, Q, D = q.shape
        G = k.shape[1]
        qh = rot(q, qp).reshape(B, G, H // G, Q, D)
        kh = rot(k, kp)
        scale = D ** -0.5
        qk = np.einsum("bgmqd,bgkd->bgmqk", qh, kh)
        K = k.shape[2]
        hide = np.triu(np.ones((Q, K), bool), K - Q + 1)
        S = np.broadcast_to(np.asarray(sinks, np.float64).reshape(1, G, H // G, 1, 1), (B, G, H // G, Q, 1))
        if bug:
            full = np.concatenate([qk, S], -1) * scale
        else:
            full = np.concatenate([qk * scale, S], -1)
        full[..., :-1] = np.where(hide, -np.inf, full[..., :-1])
        full = np.exp(full - full.max(-1, keepdims=True))
        w = (full / full.sum(-1, keepdims=True))[..., :-1]
        return np.einsum("bgmqk,bgkd->bgmqd", w, v).reshape(B, H, Q, v.shape[-1]).astype(v.dtype)
    return attention
case("s084", make, P.Attention(P.RoPE(32, layout="half", base=150000.0), sinks=True), "attention",
     "The sinks are concatenated before the scaling, so the sink logit is divided by sqrt(d) as well.",
     "sink-scaled", "Scale q . k first, then append the sink.")


# --- s085: total padding subtracted
def make(bug):
    def position_ids(attention_mask):
        m = np.asarray(attention_mask)
        S = m.shape[-1]
        if bug:
            return np.clip(np.arange(S)[None, :] - (S - m.sum(-1, keepdims=True)), 0, None)
        return np.where(m == 1, m.cumsum(-1) - 1, 0)
    return position_ids
case("s085", make, None, "position_ids",
     "The number of padding tokens of a row is subtracted wherever they stand: rows padded on the right start below 0 and are clipped.",
     "padding-assumed-left", "Use the cumulative sum of the mask.")


# --- s086: image counter starts again in each row
def make(bug):
    def get_rope_index(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps, merge=2):
        types, mask = np.asarray(token_types), attention_mask
        B, S = types.shape
        mask = np.ones((B, S), int) if mask is None else np.asarray(mask)
        out = np.zeros((3, B, S + n_steps), np.int64)
        used = {1: 0, 2: 0}
        grids = {1: image_grids, 2: video_grids}
        for b in range(B):
            if bug:
                used = {1: 0, 2: 0}
            real = np.flatnonzero(mask[b])
            i, nxt = 0, 0
            while i < len(real):
                kind = int(types[b, real[i]])
                if kind == 0:
                    out[:, b, real[i]] = nxt
                    nxt, i = nxt + 1, i + 1
                    continue
                t, h, w = (int(n) for n in grids[kind][used[kind]])
                used[kind] += 1
                h, w = h // merge, w // merge
                pos = np.indices((t, h, w)).reshape(3, -1) + nxt
                here = real[i:i + pos.shape[1]]
                out[:, b, here] = pos[:, :len(here)]
                i += pos.shape[1]
                nxt = int(pos.max()) + 1
            out[:, b, S:] = nxt + np.arange(n_steps)
        return out
    return get_rope_index
case("s086", make, P.MRoPEPositions(), "mrope_position_ids",
     "The counters of images and videos start at 0 for every row, so later rows get the grids of the first row's images.",
     "image-index-reset", "Count images through the whole batch.")


# --- s087: context parallel: second chunk of the wrong end
def make(bug):
    def positions(cu_seqlens, cp_size, cp_rank):
        out = []
        for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
            chunks = np.arange(b - a).reshape(2 * cp_size, -1)
            other = cp_rank + cp_size if bug else -1 - cp_rank
            out.append(chunks[[cp_rank, other]].reshape(-1))
        return np.concatenate(out) if out else np.zeros(0, np.int64)
    return positions
case("s087", make, None, "shard_positions",
     "The second chunk of a rank is cp_size + rank; for load balance it is counted from the end, 2 * cp_size - 1 - rank.",
     "second-chunk-forward", "Take chunk 2 * cp_size - 1 - cp_rank.")


# --- s088: rel shift drops the wrong row
def make(bug):
    def rel_shift(x):
        Q, K = x.shape
        x = np.concatenate([np.zeros((Q, 1), x.dtype), x], axis=1)
        x = x.reshape(K + 1, Q)
        x = x[:-1] if bug else x[1:]
        return x.reshape(Q, K)
    return rel_shift
case("s088", make, None, "relative_shift",
     "After padding and reshaping, the last row is dropped instead of the first, which shifts every query by one row.",
     "shift-last-row", "Drop the first row of the reshaped matrix.")


# --- s089: weight norm over dimension 0
_v89 = np.random.default_rng(89).standard_normal((8, 4, 6)).astype(np.float64)
_b89, _g89 = np.random.default_rng(891).standard_normal(8), np.random.default_rng(892).random(6) + 0.5
_erf = np.vectorize(math.erf, otypes=[float])
def make(bug):
    axes = (1, 2) if bug else (0, 1)
    norm = np.sqrt((_v89 ** 2).sum(axis=axes, keepdims=True))
    weight = _v89 / norm * _g89
    def forward(x):
        B, S, C = x.shape
        xp = np.pad(x.astype(np.float64), ((0, 0), (3, 3), (0, 0)))
        win = np.lib.stride_tricks.sliding_window_view(xp, 6, axis=1)[:, :S]
        y = np.concatenate([np.einsum("bsck,ock->bso", win[:, :, 4 * g:4 * g + 4], weight[4 * g:4 * g + 4]) for g in range(2)], -1) + _b89
        return (0.5 * y * (1 + _erf(y / math.sqrt(2)))).astype(x.dtype)
    return forward
case("s089", make, P.ConvPositions((_v89,), (_b89,), (_g89,), groups=2), "convolve",
     "The weight norm divides by the norm of each output channel (dimension 0, the default); the checkpoint has dim=2, one norm for each tap.",
     "weight-norm-dim", "Take the norm over the two channel axes.")


# --- s090: DeepSeek mscale once
def make(bug):
    cfg = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "factor": 40, "mscale_all_dim": 1.0}
    def softmax_scale():
        scale = (cfg["qk_nope_head_dim"] + cfg["qk_rope_head_dim"]) ** -0.5
        mscale = 0.1 * cfg["mscale_all_dim"] * math.log(cfg["factor"]) + 1.0
        return scale * mscale if bug else scale * mscale * mscale
    return softmax_scale
case("s090", make, P.preset("deepseek-v3"), "softmax_scale",
     "The softmax scale is multiplied by mscale once; it stands for a factor on queries and on keys and has to be squared.",
     "mscale-not-squared", "Multiply by mscale * mscale.")


# --- s091: permutation in the other direction
def make(bug):
    def permute(w, n_heads):
        dim1, dim2 = w.shape
        if bug:
            return w.reshape(n_heads, dim1 // n_heads // 2, 2, dim2).swapaxes(1, 2).reshape(dim1, dim2)
        return w.reshape(n_heads, 2, dim1 // n_heads // 2, dim2).swapaxes(1, 2).reshape(dim1, dim2)
    return permute
case("s091", make, None, "permute_weights",
     "The permutation of the conversion script is applied in its original direction (interleaved to half); going back needs view(n_heads, 2, d/2).",
     "permute-direction", "Reshape to (n_heads, 2, head_dim // 2, hidden) before the transposition.")


# --- s092: NoPE interval off by one
_types92 = ("rope", "rope", "rope", "nope") * 6
def make(bug):
    def use_rope(n_layers, no_rope_layer_interval=4):
        if bug:
            return [i % no_rope_layer_interval != 0 for i in range(n_layers)]
        return [(i + 1) % no_rope_layer_interval != 0 for i in range(n_layers)]
    return use_rope
case("s092", make, P.ModelEncoding("nope-every-fourth", encodings={"rope": P.RoPE(64, layout="half"), "nope": None}, layer_types=_types92), "layers",
     "The layers without RoPE are counted from 0: layers 0, 4, 8 lose it instead of 3, 7, 11.",
     "nope-interval-origin", "Test (layer_idx + 1) % interval.")


# --- s093: generation continues after the padded width
def make(bug):
    def fn(prompt_len, n_steps):
        n = np.asarray(prompt_len)
        if n.ndim == 0:
            return int(n) + np.arange(n_steps)
        if bug:
            n = np.full_like(n, n.max())
        return n[:, None] + np.arange(n_steps)[None, :]
    return fn
case("s093", make, None, "decode_positions",
     "Generated tokens are numbered from the padded width of the batch (cache length), not from the number of real tokens of their row.",
     "padded-width", "Start at the sum of the row's attention mask.")


# --- s094: RoBERTa export assumes padding at the end
_W94 = np.random.default_rng(94).standard_normal((300, 4)).astype(np.float32)
def make(bug):
    def ids(input_ids, padding_idx=1):
        mask = (input_ids != padding_idx).astype(np.int64)
        if bug:
            return np.where(mask == 1, np.arange(input_ids.shape[-1]) + padding_idx + 1, padding_idx)
        return np.cumsum(mask, axis=-1) * mask + padding_idx
    return ids
case("s094", make, P.Learned(_W94, padding_idx=1), "ids_from_tokens",
     "Positions are the column numbers after padding_idx; padding on the left is counted, because the export replaced the cumulative sum by arange.",
     "arange-for-cumsum", "Use the cumulative sum of the non-padding mask.")
