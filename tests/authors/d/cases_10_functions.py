"""Cases d171-d178, d181, d182: plain functions of positions."""

import numpy as np

CASES = []


def W(id, make, encoding, surface, key, cause, remedy, **settings):
    CASES.append(
        dict(
            id=id,
            fn=make(True),
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=make(False),
        )
    )


def R(id, fn, encoding, surface, cause, **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=True,
            cause=cause,
            cause_key="right",
            remedy="",
            mended=None,
        )
    )


# ---------------------------------------------------------------- plain functions


def d171(bug):
    def shift(x):
        q, k = x.shape
        i, j = np.arange(q)[:, None], np.arange(k)[None]
        col = (k if bug else q) - 1 - i + j
        return np.take_along_axis(x, np.minimum(col, k - 1), 1) * (col < k)

    return shift


W(
    "d171",
    d171,
    None,
    "relative_shift",
    "past-ignored",
    "Row i is shifted by K - 1 - i columns instead of Q - 1 - i: right for Q = K; with a memory "
    "(K > Q) every key gets the score of a distance K - Q too small, and the last keys get 0.",
    "x[i, Q - 1 - i + j]",
)


def d172(bug):
    def scores(q, rel):
        n = len(q)
        out = np.zeros((n, n), q.dtype)
        for i in range(n):
            for j in range(n):
                m = n - 1 - (i - j)
                if bug and j > i:
                    m = n - 1 + (i - j)
                out[i, j] = q[i].astype(float) @ rel[m].astype(float)
        return out

    return scores


W(
    "d172",
    d172,
    None,
    "relative_scores",
    "mirrored-future",
    "Keys after the query use the row of the mirrored offset (j - i) as if the table were symmetric: "
    "rel[S - 1 - |i - j|]; keys up to the query are right.",
    "rel[S - 1 - (i - j)]",
)


def d173(bug):
    def packed(lengths):
        n = np.asarray(lengths, np.int64)
        if not bug:
            return np.concatenate([np.zeros(0, np.int64), *map(np.arange, n)])
        total = int(n.sum())
        step = np.ones(total, np.int64)
        step[:1] = 0
        start = 0
        for a, b in zip(n[:-1], n[1:]):
            start += a
            if start < total:
                step[start] = 1 - a
        return np.cumsum(step)

    return packed


W(
    "d173",
    d173,
    None,
    "packed",
    "empty-document",
    "Positions are reset by writing 1 - previous length at every start and summing: an empty document "
    "overwrites the reset at the same start, so the next document goes on counting; without empty "
    "documents it is right.",
    "Concatenate arange(length), or skip empty documents.",
)


def d174(bug):
    def ids(attention_mask):
        m = np.asarray(attention_mask).astype(np.int64)
        if bug:
            first = np.argmax(m, axis=1)
            return np.maximum(np.arange(m.shape[1]) - first[:, None], 0)
        return np.where(m, np.cumsum(m, 1) - 1, 0)

    return ids


W(
    "d174",
    d174,
    None,
    "position_ids",
    "holes-counted",
    "Positions are arange minus the index of the first real token: padding inside a row is counted, so "
    "tokens after it are too far; left and right padding are right.",
    "cumsum(mask) - 1",
)


def d175(bug):
    def steps(prompt_len, n_steps):
        n = np.asarray(prompt_len)
        if bug and n.ndim:
            n = np.full_like(n, n.max())
        return n[..., None] + np.arange(n_steps)

    return steps


W(
    "d175",
    d175,
    None,
    "decode_positions",
    "longest-prompt",
    "All rows of a batch continue at the length of the longest prompt (the padded length) instead of "
    "their own; equal prompts and single numbers are right.",
    "prompt_len[:, None] + step",
)


def d176(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        cu, out = np.asarray(cu_seqlens), []
        for a, b in zip(cu[:-1], cu[1:]):
            c = (b - a) // (2 * cp_size)
            last = 2 * cp_size - 1 - cp_rank
            for n in (cp_rank, last):
                out.append((a if bug else 0) + n * c + np.arange(c))
        return np.concatenate([np.zeros(0, np.int64), *out]).astype(np.int64)

    return shard


W(
    "d176",
    d176,
    None,
    "shard_positions",
    "packed-index",
    "The result is the index in the packed batch instead of the position in the own sequence: the "
    "sequences after the first do not restart at 0.",
    "Subtract the start of the sequence.",
)

# ---------------------------------------------------------------- right ones


def d177(x):
    q, k = x.shape
    return np.concatenate([np.zeros((q, 1), x.dtype), x], 1).reshape(-1)[q:].reshape(q, k)


R(
    "d177",
    d177,
    None,
    "relative_shift",
    "Transformer-XL's pad and reshape; keys after the query hold other values.",
)


def d178(q, rel):
    s = q @ rel.T
    n = len(q)
    flat = np.pad(s, ((0, 0), (0, 1))).ravel()[n - 1 :]
    step = 2 * n - 1
    return np.stack([flat[i * step : i * step + n] for i in range(n)])


R(
    "d178",
    d178,
    None,
    "relative_scores",
    "One product with all rows, then slices of the flat padded array (skew).",
)


def d181(attention_mask):
    out = np.zeros(np.shape(attention_mask), np.int32)
    for row, m in zip(out, np.asarray(attention_mask)):
        row[np.flatnonzero(m)] = np.arange(int(m.sum()))
    return out


R("d181", d181, None, "position_ids", "Numbers the real tokens of each row; int32.")


def d182(cu_seqlens, cp_size, cp_rank):
    out = []
    for n in np.diff(cu_seqlens):
        chunks = np.arange(n).reshape(2 * cp_size, -1) if n else np.zeros((2 * cp_size, 0), int)
        out += [chunks[cp_rank], chunks[-1 - cp_rank]]
    return np.concatenate(out) if out else np.zeros(0, int)


R("d182", d182, None, "shard_positions", "Rows of a reshaped arange, the second from the end.")
