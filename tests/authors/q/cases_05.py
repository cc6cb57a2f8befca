import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def arr(seed, *shape, scale=0.5):
    return np.random.default_rng(seed).standard_normal(shape) * scale


# ---------------------------------------------------------------- layers
ROPE = P.RoPE(64, layout="half")


def model(types, **kw):
    return P.ModelEncoding("own", encodings={"rope": ROPE, "nope": None}, layer_types=types, **kw)


M36 = model(["rope", "rope", "rope", "nope"] * 9)
M26 = model(["nope" if (25 - i) % 4 == 0 else "rope" for i in range(26)])
M30 = model(["rope" if i % 6 != 5 else "nope" for i in range(32)])
HYB = P.ModelEncoding("hybrid", encodings={"full_attention": ROPE},
                      layer_types=["full_attention" if i % 4 == 3 else "linear_attention" for i in range(24)])
MIMO = P.ModelEncoding("own", encodings={"a": ROPE, "b": ROPE.replace(base=1e6), "nope": None},
                       layer_types=["nope" if i in (0, 5, 11, 17, 23) else "a" if i % 2 else "b" for i in range(24)])


def make(bug):
    def layers(n_layers):
        return [bool((i if bug else i + 1) % 4) for i in range(n_layers)]
    return layers
case("q101", make, M36, "layers", "The interval is counted from layer 0: layers 0, 4, 8, ... are without RoPE instead of 3, 7, 11, ...", "interval-from-zero",
     "(i + 1) % 4")


def make(bug):
    def layers(n_layers):
        on = np.ones(n_layers, bool)
        if bug:
            on[3::4] = False
        else:
            on[::-1][::4] = False
        return on
    return layers
case("q102", make, M26, "layers", "The layers without RoPE are counted from the first layer, but this model counts from the last; the two agree only for a "
     "multiple of 4 layers.", "counted-from-front", "count from the last layer")


def make(bug):
    def layers(n_layers):
        pattern = "LLLLLG"
        kinds = [pattern[i % 6] for i in range(n_layers)]
        if bug:
            kinds[-1] = "G"
        return [k == "L" for k in kinds]
    return layers
case("q103", make, M30, "layers", "The last layer is made a global layer without RoPE although the pattern gives it RoPE.", "last-layer-forced",
     "repeat the pattern to the end")


def make(bug):
    def layers(n_layers):
        full = [i % 4 == 3 for i in range(n_layers)]
        return [True] * n_layers if bug else full
    return layers
case("q104", make, HYB, "layers", "Every layer is given RoPE; three of four are linear attention, which has no positional encoding.", "linear-layers",
     "only layers 3, 7, 11, ... have attention with RoPE")


def make(bug):
    def layers(n_layers):
        skip = {5, 11, 17, 23} | (set() if bug else {0})
        return tuple(i not in skip for i in range(n_layers))
    return layers
case("q105", make, MIMO, "layers", "The additional layer 0 of the schedule is forgotten; only the periodic layers are without encoding.", "extra-layer-forgotten",
     "layer 0 has none either")


def make(bug):
    def layers(n_layers):
        bits = int("0001" * 9, 2)                                                 # 1 marks NoPE, first layer first
        return [not bits >> (n_layers - 1 - i) & 1 for i in range(n_layers)]
    return layers
case("q106", make, M36, "layers", "The schedule is one integer whose bits mark layers without RoPE.", "right")


# ---------------------------------------------------------------- softmax_scale
V3, V2, G27 = P.preset("deepseek-v3"), P.preset("deepseek-v2"), P.preset("gemma-2-27b")
MUP = P.ModelEncoding("mup", encodings={"full_attention": P.RoPE(96, layout="half")}, softmax_scale=1 / 96)
L7 = P.preset("llama-2-7b")


def make(bug):
    def scale():
        m = 0.1 * 1.0 * math.log(40.0) + 1.0
        return 192 ** -0.5 * (m if bug else m * m)
    return scale
case("q107", make, V3, "softmax_scale", "YaRN's mscale multiplies the scale once; the logits have it squared.", "mscale-once", "square it")


def make(bug):
    def scale():
        m = 0.1 * 0.707 * math.log(40) + 1
        return m * m / math.sqrt(128 if bug else 128 + 64)
    return scale
case("q108", make, V2, "softmax_scale", "The head size is that of the part without rotation (128); q . k runs over 128 + 64 channels.", "head-size-without-rope",
     "1/sqrt(192)")


def make(bug):
    cfg = dict(head_dim=128, query_pre_attn_scalar=144)
    return lambda: cfg["head_dim" if bug else "query_pre_attn_scalar"] ** -0.5
case("q109", make, G27, "softmax_scale", "1/sqrt(head_dim) where the model states query_pre_attn_scalar = 144.", "pre-attn-scalar-ignored", "144 ** -0.5")


def make(bug):
    log = math.log2 if bug else math.log
    return lambda: (1.0 + 0.1 * 0.707 * log(40.0)) ** 2 * 192 ** -0.5
case("q110", make, V2, "softmax_scale", "mscale has the logarithm to base 2.", "mscale-log2", "natural logarithm")


def make(bug):
    def scale():
        s = np.float32(1 / 96)
        if bug:
            s = (s.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return float(s) if bug else 1 / 96
    return scale
case("q111", make, MUP, "softmax_scale", "The scale went through bfloat16 (cut off): 0.4 percent smaller at most.", "scale-bfloat16", "keep it in float32 or float64")


def make(bug):
    return lambda: float(np.prod(np.full(4, 128 ** -0.125)))
case("q112", make, L7, "softmax_scale", "The product of four factors d ** (-1/8), as if split between q, k and their two roots.", "right")


# ---------------------------------------------------------------- M-RoPE
Q2, Q25, Q3, ERNIE = (P.mrope_rule(n) for n in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "ernie4_5_vl_moe"))


def grids(g):
    return [tuple(int(n) for n in r) for r in np.asarray(() if g is None else g).reshape(-1, 3)]


def block(t, h, w):
    return np.indices((t, h, w)).reshape(3, -1)


def continued(pos, mask, n_steps, bug=False):
    """Positions of the generated tokens after pos (3, B, S)."""
    mask = np.asarray(mask) == 1
    if bug:
        start = mask.sum(1)
    else:
        start = np.where(mask, pos, -1).max(axis=(0, 2)) + 1
    new = start[:, None] + np.arange(n_steps)
    return np.concatenate([pos, np.broadcast_to(new, (3, *new.shape))], axis=2)


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        left = {1: grids(image_grids), 2: grids(video_grids)}
        pos = np.zeros((3, *types.shape), np.int64)
        for b in range(len(types)):
            parts, at = [np.zeros((3, 0), np.int64)], 0
            for kind, run in itertools.groupby(types[b][mask[b]].tolist()):
                n = len(list(run))
                if kind not in left:
                    parts.append(np.tile(at + np.arange(n), (3, 1)))
                    at += n
                    continue
                while n:
                    t, h, w = left[kind].pop(0)
                    part = at + block(t, h // 2, w // 2)
                    parts.append(part)
                    n -= part.shape[1]
                    at = at + max(t, h, w) if bug else int(part.max()) + 1
            pos[:, b, mask[b]] = np.concatenate(parts, 1)
        return continued(pos, mask, n_steps)
    return ids
case("q113", make, Q2, "mrope_position_ids", "What follows an image starts at its start plus max(t, h, w) in patches, before the merge by 2.", "extent-unmerged",
     "one more than the largest position")


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        imgs, vids = iter(grids(image_grids)), iter(grids(video_grids))
        pos = np.zeros((3, *types.shape), np.int64)
        for b, row in enumerate(types):
            cols = np.flatnonzero(mask[b])
            s, nxt = 0, 0
            while s < len(cols):
                kind = row[cols[s]]
                if kind in (1, 2):
                    t, h, w = next(imgs if kind == 1 else vids)
                    part = nxt + block(t, h // 2, w // 2)
                    pos[:, b, cols[s : s + part.shape[1]]] = part
                    s, nxt = s + part.shape[1], part.max() + 1
                else:
                    pos[:, b, cols[s]] = nxt
                    s, nxt = s + 1, nxt + 1
        return continued(pos, mask, n_steps, bug)
    return ids
case("q114", make, Q2, "mrope_position_ids", "Generated tokens go on at the number of the prompt's tokens; after images the largest position is smaller.",
     "decode-at-length", "largest position plus one")


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        left = {1: grids(image_grids), 2: grids(video_grids)}
        pos = np.zeros((3, *types.shape), np.int64)
        for b in range(len(types)):
            s = int(np.argmax(mask[b])) if mask[b].any() else 0
            nxt = s if bug else 0
            real = np.flatnonzero(mask[b]).tolist()
            while real:
                kind = int(types[b, real[0]])
                part = np.full((3, 1), nxt)
                if kind in left:
                    t, h, w = left[kind].pop(0)
                    part = nxt + block(t, h // 2, w // 2)
                pos[:, b, real[: part.shape[1]]] = part
                del real[: part.shape[1]]
                nxt = int(part.max()) + 1
        return continued(pos, mask, n_steps)
    return ids
case("q115", make, Q2, "mrope_position_ids", "The first real token of a left-padded row gets its column number instead of 0.", "padding-counted", "start at 0")


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        images, videos = grids(image_grids), grids(video_grids)
        pos = np.zeros((3, *types.shape), np.int64)
        n_img = n_vid = 0
        for b in range(len(types)):
            if bug:
                n_img = n_vid = 0
            cells = []
            real = types[b][mask[b]]
            while len(cells) < len(real):
                c = 1 + max((max(x) for x in cells), default=-1)
                kind = real[len(cells)]
                if kind == 1:
                    t, h, w = images[n_img]
                    n_img += 1
                elif kind == 2:
                    t, h, w = videos[n_vid]
                    n_vid += 1
                else:
                    cells.append((c, c, c))
                    continue
                cells += [(c + x, c + y, c + z) for x in range(t) for y in range(h // 2) for z in range(w // 2)]
            pos[:, b, mask[b]] = np.array(cells[: len(real)], np.int64).reshape(-1, 3).T
        return continued(pos, mask, n_steps)
    return ids
case("q116", make, Q2, "mrope_position_ids", "The counters of images and videos are reset in every row of the batch, so later rows use the grids of the first row.",
     "grids-of-first-row", "count through the batch")


def timed():
    def make_ids(times, order=0):
        def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
            types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
            imgs, vids = grids(image_grids), grids(video_grids)
            secs = [1.0] * len(vids) if seconds_per_grid is None else [float(s) for s in np.ravel(seconds_per_grid)]
            pos = np.zeros((3, *types.shape), np.int64)
            for b in range(len(types)):
                real, s, c = np.flatnonzero(mask[b]), 0, 0
                while s < len(real):
                    kind = types[b, real[s]]
                    part = np.full((3, 1), c)
                    if kind == 1:
                        t, h, w = imgs.pop(0)
                        part = c + block(t, h // 2, w // 2)
                    elif kind == 2:
                        t, h, w = vids.pop(0)
                        part = block(t, h // 2, w // 2)
                        part[0] = times(part[0], secs.pop(order))
                        part = part + c
                    pos[:, b, real[s : s + part.shape[1]]] = part
                    s, c = s + part.shape[1], int(part.max()) + 1
            return continued(pos, mask, n_steps)
        return ids
    return make_ids


def exact_times(k, sec):
    return np.trunc(k.astype(np.float32) * np.float32(2.0 * sec)).astype(int)


def make(bug):
    return timed()((lambda k, sec: k * int(2.0 * sec)) if bug else exact_times)
case("q117", make, Q25, "mrope_position_ids", "The interval between frames (rate times seconds) is truncated to an integer before it is multiplied by the frame number.",
     "interval-truncated", "truncate the product with the frame number")


def make(bug):
    return timed()(exact_times, -1 if bug else 0)
case("q118", make, Q25, "mrope_position_ids", "The seconds of the videos are popped from the end of the list, the grids from its start.", "seconds-from-end",
     "take both from the start")


def make(bug):
    return timed()((lambda k, sec: np.rint(k * 2.0 * sec).astype(int)) if bug else exact_times)
case("q119", make, Q25, "mrope_position_ids", "Times of frames are rounded to the nearest integer instead of truncated.", "times-rounded", "truncate")


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        imgs = [(0, h // 2, w // 2) for t, h, w in grids(image_grids) for _ in range(t)]
        frames = [(f, h // 2, w // 2) for t, h, w in grids(video_grids) for f in range(t)]
        pos = np.zeros((3, *types.shape), np.int64)
        for b in range(len(types)):
            real, s, c = np.flatnonzero(mask[b]), 0, 0
            while s < len(real):
                kind = types[b, real[s]]
                if kind in (1, 2):
                    f, h, w = (imgs if kind == 1 else frames).pop(0)
                    part = c + block(1, h, w)
                    if bug:
                        part[0] += f
                else:
                    part = np.full((3, 1), c)
                pos[:, b, real[s : s + part.shape[1]]] = part
                s, c = s + part.shape[1], int(part.max()) + 1
        return continued(pos, mask, n_steps)
    return ids
case("q120", make, Q3, "mrope_position_ids", "Frames between timestamps also get their number in the video added to the time position; here every frame is like an image.",
     "frame-number-added", "the time of a frame is its start")


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        imgs = [(t, 1, h // 2, w // 2) for t, h, w in grids(image_grids)]
        vids = [(t // 2, 2 if bug else 1, h // 2, w // 2) for t, h, w in grids(video_grids)]
        pos = np.zeros((3, *types.shape), np.int64)
        for b in range(len(types)):
            real, s, c = np.flatnonzero(mask[b]), 0, 0
            while s < len(real):
                kind, part = types[b, real[s]], np.full((3, 1), c)
                if kind:
                    t, step, h, w = (imgs if kind == 1 else vids).pop(0)
                    part = c + block(t, h, w) * np.array([step, 1, 1])[:, None]
                pos[:, b, real[s : s + part.shape[1]]] = part
                s, c = s + part.shape[1], int(part.max()) + 1
        return continued(pos, mask, n_steps)
    return ids
case("q121", make, ERNIE, "mrope_position_ids", "Two frames are merged into a token, but the time position still counts frames: 0, 2, 4, ...", "time-in-frames",
     "count merged frames")


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        left = [None, grids(image_grids), grids(video_grids)]
        pos = np.zeros((3, *types.shape), np.int64)
        for b in range(len(types)):
            real, s, c = np.flatnonzero(mask[b]), 0, 0
            while s < len(real):
                kind, part = types[b, real[s]], np.full((3, 1), c)
                if kind:
                    t, h, w = left[kind].pop(0)
                    part = c + block(t, h // 2, w // 2)
                n = part.shape[1]
                pos[:, b, real[s : s + n]] = part
                s, c = s + n, int(part[0].max() if bug else part.max()) + 1
        return continued(pos, mask, n_steps)
    return ids
case("q122", make, Q2, "mrope_position_ids", "The next start is one more than the largest time position; after an image that is the start plus one, whatever its size.",
     "next-start-from-time", "the largest position on any axis")


def make(bug):
    def packed(token_types, image_grids, video_grids, seconds_per_grid, lengths):
        types = np.asarray(token_types)
        left = [None, grids(image_grids), grids(video_grids)]
        pos, s, c = np.zeros((3, len(types)), np.int64), 0, 0
        while s < len(types):                                                      # one stream without documents
            kind, part = types[s], np.full((3, 1), c)
            if kind:
                t, h, w = left[kind].pop(0)
                part = c + block(t, h // 2, w // 2)
            pos[:, s : s + part.shape[1]] = part
            s, c = s + part.shape[1], int(part.max()) + 1
        first = 0
        for n in np.asarray(lengths).tolist():
            if n:
                start = pos[0, first]
                if bug:
                    pos[0, first : first + n] -= start
                else:
                    pos[:, first : first + n] -= start
            first += n
        return pos
    return packed
case("q123", make, Q2, "mrope_packed", "At the start of a document the offset is removed from the time axis alone; height and width go on.", "reset-of-time-only",
     "subtract it from all axes")


def make(bug):
    def packed(token_types, image_grids, video_grids, seconds_per_grid, lengths):
        types = np.asarray(token_types)
        ends = set(np.cumsum(lengths).tolist())
        left = [None, grids(image_grids), grids(video_grids)]
        out, s, c, before = [np.zeros((3, 0), np.int64)], 0, 0, -1
        while s < len(types):
            kind = int(types[s])
            if s in ends and not (bug and kind and kind == before):
                c = 0
            part = np.full((3, 1), c)
            if kind:
                t, h, w = left[kind].pop(0)
                part = c + block(t, h // 2, w // 2)
            out.append(part)
            s, c, before = s + part.shape[1], int(part.max()) + 1, kind
        return np.concatenate(out, 1)
    return packed
case("q124", make, Q2, "mrope_packed", "Runs of tokens of one type are found before documents are separated: a document that begins with an image after one that ends "
     "with an image goes on counting.", "run-across-documents", "start at 0 at every boundary")


def make(bug):
    def packed(token_types, image_grids, video_grids, seconds_per_grid, lengths):
        types = np.asarray(token_types)
        docs = np.split(types, np.cumsum(np.asarray(lengths, int))[:-1])
        images, videos = grids(image_grids), grids(video_grids)
        out = []
        for doc in docs:
            if bug:
                images, videos = grids(image_grids), grids(video_grids)
            s, c = 0, 0
            while s < len(doc):
                part = np.full((3, 1), c)
                if doc[s]:
                    t, h, w = (images if doc[s] == 1 else videos).pop(0)
                    part = c + block(t, h // 2, w // 2)
                out.append(part)
                s, c = s + part.shape[1], int(part.max()) + 1
        return np.concatenate(out, 1)[:, : len(types)] if out else np.zeros((3, 0), np.int64)
    return packed
case("q125", make, Q2, "mrope_packed", "The lists of grids are read from their start in every document, so later documents use the grids of the first.", "grids-per-document",
     "go on in the lists")


# right ones
def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        flat = types[mask]                                                          # all real tokens of the batch, in order
        size = {1: grids(image_grids), 2: grids(video_grids)}
        row_of = np.nonzero(mask)[0]
        deltas, spans, s = [], [], 0
        while s < len(flat):                                                        # local positions and the span of each piece
            if flat[s] in size:
                t, h, w = size[int(flat[s])].pop(0)
                deltas.append(block(t, h // 2, w // 2))
                spans.append((s, max(t, h // 2, w // 2)))
            else:
                deltas.append(np.zeros((3, 1), int))
                spans.append((s, 1))
            s += deltas[-1].shape[1]
        pos = np.zeros((3, *types.shape), np.int64)
        if spans:
            at, length = np.array(spans).T
            start = np.cumsum(length) - length                                      # as if the batch were one sequence
            rows = row_of[at]
            first = np.r_[True, rows[1:] != rows[:-1]]
            base = np.maximum.accumulate(np.where(first, start, 0))
            counts = [d.shape[1] for d in deltas]
            pos[:, mask] = np.concatenate(deltas, 1) + np.repeat(start - base, counts)
        return continued(pos, mask, n_steps)
    return ids
case("q126", make, Q2, "mrope_position_ids", "The batch is numbered as one sequence by a cumulative sum of the spans of text tokens, images and videos; then the start of "
     "each row is subtracted.", "right")


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
        imgs, vids = grids(image_grids), grids(video_grids)
        out = np.zeros((3, types.shape[0], types.shape[1] + n_steps), np.int64)
        for b in range(len(types)):
            place, state = np.flatnonzero(mask[b]), None                            # state: (kind, start, cell, shape)
            c = 0
            for s in place:
                kind = types[b, s]
                if not kind:
                    out[:, b, s] = c
                    c += 1
                    continue
                if state is None:
                    t, h, w = (imgs if kind == 1 else vids)[0]
                    state = [c, 0, (1 if kind == 2 else t, h // 2, w // 2)]
                start, cell, shape = state
                here = np.array(np.unravel_index(cell, shape)) + start
                out[:, b, s] = here
                c = max(c, int(here.max()) + 1)
                state[1] += 1
                if state[1] == math.prod(shape):
                    state = None
                    if kind == 1:
                        imgs.pop(0)
                    else:
                        t, h, w = vids.pop(0)
                        if t > 1:
                            vids.insert(0, (t - 1, h, w))
            out[:, b, types.shape[1] :] = c + np.arange(n_steps)
        return out
    return ids
case("q127", make, Q3, "mrope_position_ids", "One token at a time with unravel_index; a video is a grid whose number of frames is reduced by one after every frame.", "right")
