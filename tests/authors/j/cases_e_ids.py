"""j163-j186: position ids, packing, shards, M-RoPE ids, layers, scales, scores, attention."""
import math

import numpy as np

from posenc_ref import MRoPEPositions, ModelEncoding, MultiAxisRoPE, RoPE, XPos, YaRN

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def plain(base, d):
    return float(base) ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def rot_half(x, angle, m=1.0):
    h = x.shape[-1] // 2
    c, s = m * np.cos(angle), m * np.sin(angle)
    a, b = x[..., :h].astype(np.float64), x[..., h:].astype(np.float64)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


# ---- j163
def make(bug):
    def ids(mask):
        mask = np.asarray(mask).astype(np.int64)
        if bug:
            first = mask.argmax(-1)[:, None]
            return np.maximum(np.arange(mask.shape[1])[None] - first, 0)
        return np.where(mask == 1, np.cumsum(mask, -1) - 1, 0)

    return ids


case("j163", make, None, "position_ids",
     "positions count from the first real token of the row and go on through masked tokens in the middle, which must "
     "not be counted", "holes-counted", "cumsum(mask) - 1")


# ---- j164
def make(bug):
    def ids(mask):
        out = []
        for row in np.asarray(mask).tolist():
            n, r = 0, []
            for t in row:
                r.append(n if t else 0)
                n += 1 if t else 0
                if bug and not t:
                    n = 0                     # a hole starts a new segment
            out.append(r)
        return np.array(out, dtype=np.int64).reshape(np.shape(mask))

    return ids


case("j164", make, None, "position_ids",
     "a masked token in the middle of a row starts the count again at 0, as if a new document began", "hole-restarts",
     "go on counting after a masked token")


# ---- j165
def make(bug):
    def ids(mask):
        m = np.asarray(mask).astype(np.int64)
        lengths = m.sum(-1, keepdims=True)
        s = m.shape[1]
        if bug:
            return np.clip(np.arange(s)[None] - (s - lengths), 0, None)     # always "left-padded"
        return np.where(m > 0, m.cumsum(-1) - 1, 0)

    return ids


case("j165", make, None, "position_ids",
     "every row is taken for left-padded: S - length is subtracted from the index, which is wrong for right-padded rows",
     "right-padding-as-left", "count the mask with cumsum")


# ---- j166
def make(bug):
    def packed(lengths):
        lengths = np.asarray(lengths, np.int64)
        total = int(lengths.sum())
        step = np.ones(total, np.int64)
        ends = np.cumsum(lengths)
        if total:
            step[0] = 0
            for i, e in enumerate(ends[:-1].tolist()):
                if e < total and e > 0:
                    if bug:
                        step[e] = 1 - lengths[i]
                    else:
                        j = i
                        while lengths[j] == 0:
                            j -= 1
                        step[e] = 1 - lengths[j]
        return np.cumsum(step)

    return packed


case("j166", make, None, "packed",
     "the jump at the start of a document is 1 - length of the document before it in the list; behind an empty "
     "document that length is 0 and the count does not go back", "empty-document-overwrites-jump",
     "skip empty documents")


# ---- j167
def make(bug):
    def packed(lengths):
        lengths = list(map(int, np.asarray(lengths).tolist()))
        cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        t = np.arange(cu[-1])
        doc = np.searchsorted(cu, t, side="left" if bug else "right") - 1
        doc = np.maximum(doc, 0)
        return t - cu[doc]

    return packed


case("j167", make, None, "packed",
     "the document of a token is found with searchsorted(cu_seqlens, t, side='left'), so the first token of a "
     "document still counts as the last of the one before", "searchsorted-left", "side='right'")


# ---- j168
def make(bug):
    def decode(prompt_len, n_steps):
        p = np.asarray(prompt_len, np.int64)
        if bug and p.ndim:
            p = np.full_like(p, p.max(initial=0))
        return p[..., None] + np.arange(n_steps)

    return decode


case("j168", make, None, "decode_positions",
     "all rows continue at the length of the longest prompt (the padded length) instead of at their own",
     "decode-from-padded-length", "use the real length of each row")


# ---- j169
def make(bug):
    def decode(prompt_len, n_steps):
        p = np.asarray(prompt_len, np.int64)
        steps = np.arange(n_steps)
        if bug and n_steps > 1:
            steps = np.maximum(steps - 1, 0)
        return p[..., None] + steps

    return decode


case("j169", make, None, "decode_positions",
     "the counter is advanced before the second step is done, not after the first, so the first two generated tokens share a position",
     "first-two-steps-equal", "advance the position after every token")


# ---- j170
def make(bug):
    def shard(cu, size, rank):
        cu = np.asarray(cu, np.int64).tolist()
        out = [np.zeros(0, np.int64)]
        for a, b in zip(cu, cu[1:]):
            c = (b - a) // (2 * size)
            for j in (rank, 2 * size - 1 - rank):
                start = j * c + (a if bug else 0)
                out.append(np.arange(start, start + c))
        return np.concatenate(out)

    return shard


case("j170", make, None, "shard_positions",
     "positions are indices into the packed batch: the start of the sequence in cu_seqlens is not subtracted",
     "shard-global-index", "count from the start of each sequence")


# ---- j171
def make(bug):
    def shard(cu, size, rank):
        cu = np.asarray(cu, np.int64)
        out = [np.zeros(0, np.int64)]
        for n in np.diff(cu).tolist():
            c = n // (2 * size)
            second = size + rank if bug else 2 * size - 1 - rank
            out += [rank * c + np.arange(c), second * c + np.arange(c)]
        return np.concatenate(out)

    return shard


case("j171", make, None, "shard_positions",
     "the second chunk of rank r is chunk cp_size + r instead of 2 cp_size - 1 - r: the chunks are not mirrored",
     "shard-not-mirrored", "second chunk: 2 * cp_size - 1 - rank")


# ---- j172
def make(bug):
    def shard(cu, size, rank):
        cu = np.asarray(cu, np.int64)
        lengths = np.diff(cu)
        out = [np.zeros(0, np.int64)]
        for i, n in enumerate(lengths.tolist()):
            c = (int(lengths[0]) if bug else n) // (2 * size)
            keep = n // (2 * size)
            for j in (rank, 2 * size - 1 - rank):
                out.append(j * c + np.arange(keep))
        return np.concatenate(out)

    return shard


case("j172", make, None, "shard_positions",
     "the size of a chunk is computed from the first sequence and used for all sequences of the batch",
     "shard-chunk-of-first", "compute the chunk size for each sequence")


def runs_of(row):
    out, s = [], 0
    for i in range(1, len(row) + 1):
        if i == len(row) or row[i] != row[s]:
            out.append((row[s], i - s))
            s = i
    return out


def qwen_ids(types, images, videos, seconds, mask, steps, *, tps=None, merge=2, bug=None):
    """M-RoPE ids of Qwen2-VL and Qwen2.5-VL, one row at a time."""
    types, mask = np.asarray(types), np.asarray(mask).astype(bool)
    B, S = types.shape
    images = np.asarray(images, int).reshape(-1, 3).tolist()
    videos = np.asarray(videos, int).reshape(-1, 3).tolist()
    secs = [1.0] * len(videos) if seconds is None else np.asarray(seconds, float).ravel().tolist()
    out = np.zeros((3, B, S + steps), np.int64)
    ni = nv = 0
    for b in range(B):
        if bug == "restart":
            ni = 0
        cols, start = [], 0
        for kind, n in runs_of(types[b][mask[b]].tolist()):
            if kind == 0:
                cols += [(start + i,) * 3 for i in range(n)]
                start += n
                continue
            while n > 0:
                if kind == 1:
                    t, h, w = images[ni]
                    ni += 1
                    rate = 1.0
                else:
                    t, h, w = videos[nv]
                    sec = secs[nv]
                    nv += 1
                    rate = tps * sec if tps else 1.0
                h, w = h // merge, w // merge
                if bug == "swap" and h != w:
                    grid = [(a, c, r) for a in range(t) for r in range(w) for c in range(h)]
                else:
                    grid = [(a, r, c) for a in range(t) for r in range(h) for c in range(w)]
                for a, r, c in grid:
                    time = int(np.trunc(np.float32(a) * np.float32(rate)))
                    if bug == "int-seconds" and kind == 2 and tps:
                        time = int(a * int(sec) * tps)
                    cols.append((start + time, start + r, start + c))
                n -= t * h * w
                last = max(max(x) for x in cols[-t * h * w:])
                if bug == "hw-only":
                    start = start + max(h, w)
                elif bug == "count":
                    start = start + t * h * w
                else:
                    start = last + 1
        arr = np.array(cols, np.int64).reshape(-1, 3).T
        out[:, b, :S][:, mask[b]] = arr
        nxt = (int(arr.max()) + 1) if arr.size else 0
        if bug == "delta":
            nxt = nxt + (S - int(mask[b].sum()))
        out[:, b, S:] = nxt + np.arange(steps)
    return out


def mrope(tps, bug):
    return lambda t, i, v, s, m, n: qwen_ids(t, i, v, s, m, n, tps=tps, bug=bug)


# ---- j173
def make(bug):
    return mrope(None, "hw-only" if bug else None)


case("j173", make, MRoPEPositions(), "mrope_position_ids",
     "the text after a video starts at start + max(height, width), so after a video with more frames than that it "
     "repeats positions of the video", "after-video-by-hw", "continue at the largest position of all axes + 1")


# ---- j174
def make(bug):
    return mrope(2.0, "int-seconds" if bug else None)


case("j174", make, MRoPEPositions(tokens_per_second=2.0), "mrope_position_ids",
     "the seconds between frames are cut to whole seconds before they are multiplied by tokens_per_second",
     "seconds-truncated", "truncate k * seconds * tokens_per_second only")


# ---- j175
def make(bug):
    return mrope(None, "restart" if bug else None)


case("j175", make, MRoPEPositions(), "mrope_position_ids",
     "the index of the next image is set back to 0 at every row of the batch, so the rows after the first use the "
     "grids of the first row's images", "image-index-restarts", "carry the image index through the batch")


# ---- j176
def make(bug):
    return mrope(None, "delta" if bug else None)


case("j176", make, MRoPEPositions(), "mrope_position_ids",
     "the generated tokens of a padded row start later by the number of padding tokens: rope_deltas is computed "
     "against the real length and added to the padded one", "decode-counts-padding",
     "continue at the largest position + 1")


# ---- j177
def make(bug):
    return mrope(None, "swap" if bug else None)


case("j177", make, MRoPEPositions(), "mrope_position_ids",
     "the tokens of an image that is not square are numbered with height and width swapped (column by column)",
     "grid-column-major", "loop over rows, then columns")


# ---- j178
def make(bug):
    def fn(types, images, videos, seconds, lengths):
        types = np.asarray(types)
        images = np.asarray(images, int).reshape(-1, 3)
        videos = np.asarray(videos, int).reshape(-1, 3)
        parts, at, ni, nv, offset = [], 0, 0, 0, 0
        for n in np.asarray(lengths).tolist():
            row = types[at:at + n]
            at += n
            if n == 0:
                continue
            # the media of this document
            def used(kind, grids, first):
                need, k = int((row == kind).sum()), first
                while need > 0:
                    t, h, w = grids[k]
                    need -= t * (h // 2) * (w // 2)
                    k += 1
                return k
            ei, ev = used(1, images, ni), used(2, videos, nv)
            ids = qwen_ids(row[None], images[ni:ei], videos[nv:ev], None, np.ones((1, n)), 0)[:, 0]
            ni, nv = ei, ev
            if bug:
                ids[1:] += offset          # only the time axis starts at 0 again
                offset = int(ids[1:].max()) + 1
            parts.append(ids)
        return np.concatenate(parts, 1) if parts else np.zeros((3, 0), np.int64)

    return fn


case("j178", make, MRoPEPositions(), "mrope_packed",
     "only the time axis starts at 0 in a new document; height and width go on from the document before",
     "packed-hw-not-reset", "start all three axes at 0")


LAYERS = tuple("full_attention_nope" if (i + 1) % 4 == 0 else "full_attention" for i in range(22))
NOPE = ModelEncoding("port", encodings={"full_attention": RoPE(64, layout="half", base=5e5), "full_attention_nope": None},
                     layer_types=LAYERS)


# ---- j180
def make(bug):
    def layers(n):
        use = [(i + 1) % 4 != 0 for i in range(n)]
        if bug:
            use[-1] = False         # "the last layer is always global, without positions"
        return use

    return layers


case("j180", make, NOPE, "layers",
     "the last layer is treated as a layer without RoPE, which it is only if the number of layers is a multiple of 4",
     "last-layer-nope", "apply the interval alone")


# ---- j181
DEEP = ModelEncoding("latent", encodings={"full_attention": RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128,
                     scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0))},
                     layer_types=("full_attention",) * 4, softmax_scale=(0.1 * math.log(40.0) + 1) ** 2 / math.sqrt(192))


def make(bug):
    def scale():
        m = 0.1 * math.log(40.0) + 1
        return 192 ** -0.5 * (m if bug else m * m)

    return scale


case("j181", make, DEEP, "softmax_scale",
     "the softmax scale has mscale once; DeepSeek multiplies by mscale squared", "mscale-not-squared",
     "scale * mscale * mscale")


# ---- j182
def make(bug):
    def scale():
        m = 0.1 * math.log(40.0) + 1
        return (128 if bug else 192) ** -0.5 * m * m

    return scale


case("j182", make, DEEP, "softmax_scale",
     "the softmax scale is 1/sqrt(qk_nope_head_dim) = 1/sqrt(128); q and k have 192 channels",
     "scale-of-nope-part", "divide by sqrt(nope + rope)")


# ---- j184
def make(bug):
    w = plain(10000.0, 64)
    z = (np.arange(0, 64, 2) / 64 + 0.4) / 1.4

    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        qa, ka = np.arange(K - Q, K), np.arange(K)
        qc = qa.mean() if bug else K / 2           # the middle of each tensor's own positions
        kc = ka.mean() if bug else K / 2
        sq = np.tile(z ** ((qa - qc)[:, None] / 512), 2)
        sk = np.tile(z ** (-(ka - kc)[:, None] / 512), 2)
        a, b = rot_half(q, qa[:, None] * w) * sq, rot_half(k, ka[:, None] * w) * sk
        return (a @ b.swapaxes(-1, -2) / 8.0).astype(q.dtype)

    return scores


case("j184", make, XPos(64, layout="half"), "scores",
     "the decay of xPos is centred on the middle of the queries for q and on the middle of the keys for k; with fewer "
     "queries than keys the two centres differ", "xpos-two-centres", "use one centre for q and k")


# ---- j185
def make(bug):
    w = plain(10000.0, 64)

    def attention(q, k, v, q_positions, k_positions):
        qp, kp = np.asarray(q_positions, np.float64), np.asarray(k_positions, np.float64)
        lift = lambda p: p[:, None] * w if p.ndim == 1 else (p[..., None] * w)[:, None]
        a, b = rot_half(q, lift(qp)), rot_half(k, lift(kp))
        H, G = q.shape[1], k.shape[1]
        head = np.arange(H) % G if bug else np.arange(H) // (H // G)
        Q, K = q.shape[2], k.shape[2]
        l = a @ b[:, head].swapaxes(-1, -2) / 8.0
        see = np.arange(K)[None] <= np.arange(K - Q, K)[:, None]
        l = np.where(see, l, -np.inf)
        e = np.exp(l - l.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return (p @ v[:, head].astype(np.float64)).astype(q.dtype)

    return attention


case("j185", make, RoPE(64, layout="half"), "attention",
     "query head h reads key head h mod H_kv (tile) instead of h // (H / H_kv) (repeat_interleave)",
     "gqa-tile", "repeat each key head for its group")


# ---- j186
def make(bug):
    w = plain(10000.0, 64)

    def attention(q, k, v, q_positions, k_positions):
        qp, kp = np.asarray(q_positions, np.float64), np.asarray(k_positions, np.float64)
        lift = lambda p: p[:, None] * w if p.ndim == 1 else (p[..., None] * w)[:, None]
        g = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, g, 1), np.repeat(v, g, 1)
        a, b = rot_half(q, lift(qp)), rot_half(k, lift(kp))
        if bug and g > 1:                   # rotated before and after the heads are repeated
            b[:, 1::g] = rot_half(b[:, 1::g], lift(kp))
        l = np.einsum("bhqd,bhkd->bhqk", a, b) * 0.125
        Q, K = l.shape[2:]
        l += np.triu(np.full((Q, K), -np.inf), K - Q + 1)
        p = np.exp(l - l.max(-1, keepdims=True))
        return np.einsum("bhqk,bhkd->bhqd", p / p.sum(-1, keepdims=True), v).astype(q.dtype)

    return attention


case("j186", make, RoPE(64, layout="half"), "attention",
     "with grouped heads the key of the second query head of each group is rotated twice (in place, through a shared "
     "view)", "gqa-key-rotated-twice", "rotate the keys before they are repeated")
