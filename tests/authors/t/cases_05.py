import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

RNG = np.random.default_rng(1405)


def per_head(t):
    return t[:, None] if t.ndim == 3 else t


def offsets(n_q, n_k):
    """Query minus key (Q, K); the queries are the last tokens."""
    return np.arange(n_k - n_q, n_k)[:, None] - np.arange(n_k)


def rope_half(x, positions, base=10000.0):
    d = x.shape[-1]
    a = per_head(np.asarray(positions, np.float64)[..., None] * base ** (-np.arange(0, d, 2) / d))
    x1, x2 = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)


def spread(x, heads):
    return np.repeat(x, heads // x.shape[1], axis=1)


def softmax_v(logits, v, extra=None):
    top = logits.max(-1, keepdims=True)
    if extra is not None:
        top = np.maximum(top, extra)
    e = np.exp(logits - top)
    total = e.sum(-1, keepdims=True)
    if extra is not None:
        total = total + np.exp(extra - top)
    return (e / total) @ v


# ---------------------------------------------------------------- Transformer-XL
TW = RNG.normal(0, 0.3, (3, 16, 24))
TU, TV = RNG.normal(0, 1, (2, 3, 16))


def make(bug):
    def scores(q, k):
        n_q, n_k = q.shape[2], k.shape[2]
        rel = np.arange(n_k - 1, -n_k, -1)                    # distances, descending
        a = rel[:, None] * 10000.0 ** (-np.arange(0, 24, 2) / 24)
        r = np.concatenate([np.sin(a), np.cos(a)], -1)
        r = np.einsum("hdD,nD->hnd", TW, r)
        ac = (q + TU[:, None]) @ k.swapaxes(-1, -2)
        bd = (q + (TU if bug else TV)[:, None]) @ r.swapaxes(-1, -2)
        column = n_k - 1 - offsets(n_q, n_k)
        bd = np.take_along_axis(bd, np.broadcast_to(column, (*bd.shape[:2], *column.shape)), axis=-1)
        return ((ac + bd) / 4.0).astype(q.dtype)
    return scores
case("t061", make, P.TransformerXL(TW, TU, TV, sinusoid=P.Sinusoidal(24, layout="concat")), "scores",
     "The content bias r_w_bias is added to the queries of the position term as well, where r_r_bias belongs.",
     "content-bias-in-position-term", "Use q + r_r_bias with the relative rows.")


# ---------------------------------------------------------------- DeBERTa
DK, DQ = RNG.standard_normal((2, 4, 16, 8))


def make(bug):
    pos_att_type = "c2p|p2c"
    kinds = pos_att_type if bug else [t.strip() for t in pos_att_type.split("|")]
    scale_factor = 1 + len(kinds)

    def scores(q, k):
        row = np.clip(offsets(q.shape[2], k.shape[2]) + 8, 0, 15)
        full = (q.shape[0], q.shape[1], *row.shape)
        c2p = np.take_along_axis(q @ DK.swapaxes(-1, -2), np.broadcast_to(row, full), axis=-1)
        by_key = k @ DQ.swapaxes(-1, -2)
        p2c = np.take_along_axis(by_key, np.broadcast_to(row.T, (*full[:2], *row.T.shape)), axis=-1).swapaxes(-1, -2)
        return ((q @ k.swapaxes(-1, -2) + c2p + p2c) / math.sqrt(8 * scale_factor)).astype(q.dtype)
    return scores
case("t062", make, P.DeBERTa(DK, DQ), "scores",
     "pos_att_type is the string 'c2p|p2c' and is not split: the number of its letters enters the scale, 1/sqrt(8 d) instead of 1/sqrt(3 d).",
     "scale-from-string-length", "Split pos_att_type at '|' and count the terms.")


# ---------------------------------------------------------------- CoPE
CE = RNG.standard_normal((12, 16))


def make(bug):
    def scores(q, k):
        logits = (q.astype(np.float64) @ k.swapaxes(-1, -2)) / 4.0
        seen = offsets(q.shape[2], k.shape[2]) >= 0
        gates = np.where(seen, 1 / (1 + np.exp(-logits)), 0.0)
        pos = np.cumsum(gates, -1) if bug else np.cumsum(gates[..., ::-1], -1)[..., ::-1]
        pos = np.minimum(pos, 11)
        low = np.floor(pos).astype(np.int64)
        high = np.ceil(pos).astype(np.int64)
        by_row = q @ CE.T
        w = pos - low
        return (logits + np.take_along_axis(by_row, low, -1) * (1 - w)
                + np.take_along_axis(by_row, high, -1) * w).astype(q.dtype)
    return scores
case("t063", make, P.CoPE(CE), "scores",
     "The gates are summed from the first key up to the key; the position of a key is the sum from it to the query.",
     "cumsum-direction", "Flip, take the cumulative sum, and flip back.")


# ---------------------------------------------------------------- layers
SMOL = P.from_config(dict(model_type="smollm3", hidden_size=2048, num_attention_heads=16, num_key_value_heads=4,
                          num_hidden_layers=36, rope_theta=5e6, no_rope_layer_interval=4,
                          max_position_embeddings=65536))


def make(bug):
    def layers(n_layers):
        interval = 4
        return [(i if bug else i + 1) % interval != 0 for i in range(n_layers)]
    return layers
case("t064", make, SMOL, "layers",
     "Layers are counted from 0 in no_rope_layer_interval, so layers 0, 4, 8, ... have no rotation instead of 3, 7, 11, ...",
     "layer-interval-off-by-one", "Use (layer_idx + 1) % no_rope_layer_interval.")


# ---------------------------------------------------------------- attention
def make(bug):
    m = 2.0 ** -np.arange(1, 9)

    def attention(q, k, v, q_positions, k_positions):
        H, n_q, n_k = q.shape[1], q.shape[2], k.shape[2]
        k, v = spread(k, H), spread(v, H)
        dist = np.abs(np.asarray(q_positions, np.float64)[..., :, None] - np.asarray(k_positions, np.float64)[..., None, :])
        dist = dist[None] if dist.ndim == 2 else dist[:, None]
        logits = q.astype(np.float64) @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) - m[:, None, None] * dist
        hidden = np.triu(np.ones((n_q, n_k), bool), k=1 if bug else 1 + n_k - n_q)
        return softmax_v(np.where(hidden, -np.inf, logits), v).astype(q.dtype)
    return attention
case("t065", make, P.ALiBi(8), "attention",
     "With more keys than queries, the causal mask is aligned at the top left: query i sees keys 0 .. i only.",
     "mask-top-left", "Shift the diagonal by the number of earlier keys.")


def make(bug):
    BLOCK = 64

    def attention(q, k, v, q_positions, k_positions):
        B, H, n_q, d = q.shape
        n_k = k.shape[2]
        qr = rope_half(q, q_positions) / math.sqrt(d)
        kr, v = spread(rope_half(k, k_positions), H), spread(v, H).astype(np.float64)
        own = np.arange(n_k - n_q, n_k)[:, None]
        m = np.full((B, H, n_q, 1), -1e30)
        l = np.zeros((B, H, n_q, 1))
        acc = np.zeros((B, H, n_q, v.shape[-1]))
        for s in range(0, n_k, BLOCK):
            e = min(s + BLOCK, n_k)
            logits = np.where(np.arange(s, e) <= own, qr @ kr[:, :, s:e].swapaxes(-1, -2), -np.inf)
            new = np.maximum(m, logits.max(-1, keepdims=True))
            p = np.exp(logits - new)
            alpha = np.exp(m - new)
            l = (l if bug and s else l * alpha) + p.sum(-1, keepdims=True)
            acc = acc * alpha + p @ v[:, :, s:e]
            m = new
        return (acc / l).astype(q.dtype)
    return attention
case("t066", make, P.RoPE(32, layout="half"), "attention",
     "In the tiled softmax, the accumulator is rescaled when the maximum grows but the running denominator is not.",
     "denominator-not-rescaled", "Multiply l by exp(m_old - m_new) as well.")


def make(bug):
    def attention(q, k, v, q_positions, k_positions, sinks):
        H, n_q, n_k, d = q.shape[1], q.shape[2], k.shape[2], q.shape[3]
        scale = d ** -0.5
        logits = rope_half(q, q_positions) @ spread(rope_half(k, k_positions), H).swapaxes(-1, -2)
        s = np.broadcast_to(np.asarray(sinks, np.float64)[:, None, None], (*logits.shape[:3], 1))
        mask = np.where(offsets(n_q, n_k) >= 0, 0.0, -np.inf)
        if bug:
            both = np.concatenate([logits + mask, s], -1) * scale
        else:
            both = np.concatenate([logits * scale + mask, s], -1)
        e = np.exp(both - both.max(-1, keepdims=True))
        w = (e / e.sum(-1, keepdims=True))[..., :-1]
        return (w @ spread(v, H)).astype(q.dtype)
    return attention
case("t067", make, P.Attention(P.RoPE(32, layout="half"), sinks=True), "attention",
     "The sinks are concatenated to the logits before these are scaled, so they are multiplied by 1/sqrt(d) too.",
     "sinks-scaled", "Scale the products first, then append the sinks.")


# ---------------------------------------------------------------- positions
def make(bug):
    def position_ids(attention_mask):
        mask = np.asarray(attention_mask).astype(np.int64)
        if bug:
            S = mask.shape[1]
            return np.maximum(np.arange(S) - (S - mask.sum(1, keepdims=True)), 0)
        return np.maximum(mask.cumsum(-1) - 1, 0)
    return position_ids
case("t068", make, None, "position_ids",
     "The number of padding tokens is subtracted from every position, which is right for padding on the left only.",
     "padding-assumed-left", "Use the cumulative sum of the mask minus 1.")

ROBERTA = RNG.standard_normal((40, 8)).astype(np.float32)


def make(bug):
    pad = 1

    def ids(input_ids):
        mask = (np.asarray(input_ids) != pad).astype(np.int64)
        count = np.cumsum(mask, axis=1)
        return (count if bug else count * mask) + pad
    return ids
case("t069", make, P.Learned(ROBERTA, padding_idx=1), "ids_from_tokens",
     "The cumulative sum is not multiplied by the mask, so padding behind a text repeats the position of its last token instead of padding_idx.",
     "padding-not-masked", "Multiply the cumulative sum by the mask before padding_idx is added.")


def make(bug):
    def packed(lengths):
        lengths = np.asarray(lengths, np.int64)
        if not bug:
            lengths = lengths[lengths > 0]
        step = np.ones(int(lengths.sum()), np.int64)
        if step.size == 0:
            return step
        step[0] = 0
        at = np.cumsum(lengths)[:-1]
        ok = at < step.size
        step[at[ok]] = 1 - lengths[:-1][ok]
        return np.cumsum(step)
    return packed
case("t070", make, None, "packed",
     "The trick with a cumulative sum writes one step per document; behind an empty document the steps overwrite each "
     "other, and the next document does not start at 0.",
     "empty-document", "Drop empty documents first.")


def make(bug):
    def decode_positions(prompt_len, n_steps):
        n = np.asarray(prompt_len)
        start = np.full_like(n, n.max()) if bug else n
        return start[..., None] + np.arange(n_steps)
    return decode_positions
case("t071", make, None, "decode_positions",
     "Generated tokens of every row continue at the padded length of the batch, not at the row's own number of tokens.",
     "decode-from-padded-length", "Start each row at its own length.")


def make(bug):
    def shard_positions(cu_seqlens, cp_size, cp_rank):
        cu = np.asarray(cu_seqlens, np.int64)
        pos = np.concatenate([np.arange(b - a) for a, b in zip(cu[:-1], cu[1:])] or [np.zeros(0, np.int64)])
        bounds = [(0, cu[-1])] if bug else list(zip(cu[:-1], cu[1:]))
        out = []
        for a, b in bounds:
            for piece in (cp_rank, 2 * cp_size - 1 - cp_rank):
                n = (b - a) // (2 * cp_size)
                out.append(pos[a + piece * n:a + (piece + 1) * n])
        return np.concatenate(out).astype(np.int64)
    return shard_positions
case("t072", make, None, "shard_positions",
     "The whole packed buffer is cut into 2 * cp_size chunks instead of every sequence of it.",
     "chunks-of-the-buffer", "Cut each sequence by cu_seqlens.")


# ---------------------------------------------------------------- weights and scale
def make(bug):
    rot = 64 if bug else 32

    def permute(w, n_heads):
        heads = w.reshape(n_heads, -1, w.shape[1])
        turned, rest = heads[:, :rot], heads[:, rot:]
        turned = turned.reshape(n_heads, 2, rot // 2, -1).swapaxes(1, 2).reshape(n_heads, rot, -1)
        return np.concatenate([turned, rest], axis=1).reshape(w.shape)
    return permute
case("t073", make, P.RoPE(64, layout="half", rotary_dim=32), "permute_weights",
     "The exporter permutes the rows of the whole head, although only the first 32 of 64 channels are rotated.",
     "permutes-unrotated-rows", "Permute the rotary rows of each head and keep the rest.")

V3 = P.preset("deepseek-v3")


def make(bug):
    def softmax_scale():
        rs = {"factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0}
        mscale = 0.1 * rs["mscale_all_dim"] * math.log(rs["factor"]) + 1.0
        return (128 + 64) ** -0.5 * (mscale if bug else mscale * mscale)
    return softmax_scale
case("t074", make, V3, "softmax_scale",
     "The softmax scale is multiplied by mscale once; q and k both carry it, so it belongs there squared.",
     "mscale-not-squared", "Multiply by mscale * mscale.")


# ---------------------------------------------------------------- M-RoPE ids
def walk(types, images, videos, merge=2):
    """Positions (3, n) of one row without padding; images and videos are iterators of grids."""
    out, at, i = [], 0, 0
    while i < len(types):
        if types[i] not in (1, 2):
            out.append((at, at, at))
            at, i = at + 1, i + 1
            continue
        t, h, w = (int(n) for n in next(images if types[i] == 1 else videos))
        h, w = h // merge, w // merge
        out += [(at + a, at + b, at + c) for a in range(t) for b in range(h) for c in range(w)]
        i, at = i + t * h * w, at + max(t, h, w)
    return np.array(out, np.int64).reshape(-1, 3).T, at


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
        images, videos = iter(np.asarray(image_grids)), iter(np.asarray(video_grids))
        B, S = types.shape
        out = np.zeros((3, B, S + n_steps), np.int64)
        for b in range(B):
            row, after = walk(types[b][mask[b]].tolist(), images, videos)
            out[:, b, :S][:, mask[b]] = row
            out[:, b, S:] = (mask[b].sum() if bug else after) + np.arange(n_steps)
        return out
    return ids
case("t075", make, P.mrope_rule("qwen2_vl"), "mrope_position_ids",
     "Generated tokens continue at the number of tokens of the prompt; rope_deltas is dropped.",
     "rope-deltas-ignored", "Continue at the largest position plus one (length + rope_deltas).")


# ---------------------------------------------------------------- right
SK = RNG.standard_normal((12, 16))


def make(bug):
    def scores(q, k):
        row = np.clip(-offsets(q.shape[2], k.shape[2]), -8, 3) + 8
        hot = (row[..., None] == np.arange(12)).astype(np.float64)
        position = np.einsum("bhim,ijm->bhij", q @ SK.T, hot)
        return ((np.einsum("bhid,bhjd->bhij", q, k) + position) * 0.25).astype(q.dtype)
    return scores
case("t096", make, P.Shaw(SK, before=8), "scores",
     "A one-hot tensor of the clipped offsets in an einsum; the table has different reach before and after.", "right")


def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        B, H, n_q, d = q.shape
        G, n_k = k.shape[1], k.shape[2]
        qr = (rope_half(q, q_positions) * d ** -0.5).reshape(B, G, H // G, n_q, d)
        kr = rope_half(k, k_positions)
        state = None
        for s in reversed(range(0, n_k, 48)):                     # from the newest keys back
            e = min(s + 48, n_k)
            x = np.einsum("bgrqd,bgkd->bgrqk", qr, kr[:, :, s:e])
            x = np.where(np.arange(s, e) <= np.arange(n_k - n_q, n_k)[:, None], x, -1e300)
            m = x.max(-1)
            p = np.where(x > -1e299, np.exp(x - m[..., None]), 0.0)
            part = m, p.sum(-1), np.einsum("bgrqk,bgkd->bgrqd", p, v[:, :, s:e].astype(np.float64))
            if state is None:
                state = part
                continue
            top = np.maximum(state[0], m)
            f, g = np.exp(state[0] - top), np.exp(m - top)
            state = top, state[1] * f + part[1] * g, state[2] * f[..., None] + part[2] * g[..., None]
        return (state[2] / state[1][..., None]).reshape(B, H, n_q, -1).astype(q.dtype)
    return attention
case("t097", make, P.RoPE(32, layout="half"), "attention",
     "Tiled softmax from the newest keys to the oldest, grouped heads by reshaping the queries, masked tiles with weight zero.", "right")


def make(bug):
    def scores(q, k):
        n_q, n_k = q.shape[2], k.shape[2]
        w = 10000.0 ** (-np.arange(0, 24, 2) / 24)
        i = np.arange(n_k - n_q, n_k)[:, None] * w
        j = np.arange(n_k)[:, None] * w
        # sin(i - j) and cos(i - j) by the addition theorem: no tensor of relative rows
        out = (q + TU[:, None]) @ k.swapaxes(-1, -2)
        y = (q + TV[:, None]) @ TW
        ys, yc = y[..., :12], y[..., 12:]
        out = out + (ys * np.sin(i) + yc * np.cos(i)) @ np.cos(j).T + (yc * np.sin(i) - ys * np.cos(i)) @ np.sin(j).T
        return (out / 4.0).astype(q.dtype)
    return scores
case("t098", make, P.TransformerXL(TW, TU, TV, sinusoid=P.Sinusoidal(24, layout="concat")), "scores",
     "Linear in memory: the sinusoid of i - j is split by the addition theorem, and nothing is shifted.", "right")


def make(bug):
    table = P5

    def attention(q, k, v, q_positions, k_positions):
        H, n_q, n_k = q.shape[1], q.shape[2], k.shape[2]
        r = np.asarray(k_positions)[..., None, :] - np.asarray(q_positions)[..., :, None]
        n = np.maximum(-r, 0).astype(np.int64)
        log = 16 + np.floor(np.log(np.maximum(n, 16) / 16) / np.log(8) * 16 + 1e-9).astype(np.int64)
        b = np.moveaxis(table[np.where(n < 16, n, np.minimum(log, 31))].astype(np.float64), -1, -3)
        logits = q.astype(np.float64) @ spread(k, H).swapaxes(-1, -2) + b
        logits = np.where(offsets(n_q, n_k) >= 0, logits, -np.inf)
        return softmax_v(logits, spread(v, H)).astype(q.dtype)
    return attention
P5 = RNG.standard_normal((32, 4)).astype(np.float32)
case("t099", make, P.T5Bias(P5, bidirectional=False), "attention",
     "T5's attention is not scaled; the buckets come from the positions of the call.", "right")


def make(bug):
    def shift(x):
        q, k = x.shape
        wide = np.concatenate([x, np.zeros((q, q), x.dtype)], axis=1)      # rows of k + q
        flat = np.ascontiguousarray(wide).ravel()[q - 1:]
        step = wide.strides[1]
        return np.lib.stride_tricks.as_strided(flat, (q, k), ((q + k - 1) * step, step)).copy()
    return shift
case("t100", make, None, "relative_shift",
     "A strided view in which every row starts one element earlier; keys after the query get zeros.", "right")

CW = RNG.normal(0, 0.3, (12, 4, 6)).astype(np.float32)
CB = RNG.normal(0, 0.1, 12).astype(np.float32)
CG = RNG.uniform(0.5, 1.5, 6).astype(np.float32)


def make(bug):
    w = CW.astype(np.float64)
    w = w * CG / np.linalg.norm(w.reshape(48, 6), axis=0)
    full = np.zeros((12, 12, 6))
    for g in range(3):
        full[4 * g:4 * g + 4, 4 * g:4 * g + 4] = w[4 * g:4 * g + 4]
    erf = np.vectorize(math.erf, otypes=[np.float64])

    def convolve(x):
        padded = np.pad(x.astype(np.float64), ((0, 0), (3, 3), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, 6, axis=1)[:, :-1]
        y = np.einsum("bsck,ock->bso", windows, full) + CB
        return (0.5 * y * (1 + erf(y / math.sqrt(2)))).astype(x.dtype)
    return convolve
case("t101", make, P.ConvPositions((CW,), (CB,), (CG,), groups=3), "convolve",
     "Groups as a block-diagonal kernel, the even kernel as sliding windows without the last.", "right")


def make(bug):
    def layers(n_layers):
        no_rope_layers = [int((i + 1) % 4 != 0) for i in range(n_layers)]       # 1 where the layer rotates
        return [bool(flag) for flag in no_rope_layers]
    return layers
case("t102", make, SMOL, "layers",
     "The list no_rope_layers of SmolLM3 holds 1 where a layer rotates, in spite of its name.", "right")


def make(bug):
    def packed(token_types, image_grids, video_grids, seconds_per_grid, lengths):
        types = np.asarray(token_types)
        images, videos = iter(np.asarray(image_grids)), iter(np.asarray(video_grids))
        parts = [np.zeros((3, 0), np.int64)]
        end = 0
        for n in np.asarray(lengths).tolist():
            parts.append(walk(types[end:end + n].tolist(), images, videos)[0])
            end += n
        return np.concatenate(parts, axis=1)
    return packed
case("t103", make, P.mrope_rule("qwen2_vl"), "mrope_packed",
     "Token by token, with two iterators of grids that all documents share.", "right")


def make(bug):
    def position_ids(attention_mask):
        out = []
        for row in np.asarray(attention_mask).tolist():
            counter = itertools.count()
            out.append([next(counter) if m else 0 for m in row])
        return np.array(out)
    return position_ids
case("t104", make, None, "position_ids",
     "A counter for each row that moves at real tokens only; padding has 0.", "right")


def make(bug):
    def permute(w, n_heads):
        order = np.argsort(np.r_[0:64:2, 1:64:2], kind="stable")
        return np.concatenate([block[order] for block in np.split(w, n_heads)])
    return permute
case("t105", make, P.RoPE(64, layout="half"), "permute_weights",
     "The permutation is the inverse (argsort) of the one that separates even and odd channels.", "right")
