"""Position ids."""
import numpy as np
import torch


def from_mask(attention_mask):
    m = np.asarray(attention_mask).astype(np.int64)
    return np.where(m == 1, m.cumsum(-1), 0)


def from_left_pad(attention_mask):
    m = torch.as_tensor(attention_mask)
    s = m.shape[-1]
    pad = s - m.long().sum(-1, keepdim=True)
    return (torch.arange(s) - pad).clamp(min=0)


def from_mask_small(attention_mask):
    m = torch.as_tensor(attention_mask).to(torch.int8)
    ids = m.cumsum(-1, dtype=torch.int8) - 1
    return ids.masked_fill(m == 0, 0).long()


def from_first_token(attention_mask):
    m = np.asarray(attention_mask).astype(bool)
    first = m.argmax(-1)
    ids = np.arange(m.shape[-1]) - first[:, None]
    return np.maximum(ids, 0)


def roberta_ids(input_ids):
    mask = (np.asarray(input_ids) > 1).astype(np.int64)
    return np.cumsum(mask, axis=1) * mask + 1


def make_positions(input_ids):
    pad = 1
    t = torch.as_tensor(input_ids)
    return t.ne(pad).long().cumsum(1) + pad


def packed_all(lengths):
    return np.arange(int(np.sum(lengths)))


def packed_search(lengths):
    cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    i = np.arange(cu[-1])
    doc = np.maximum(np.searchsorted(cu, i, side="left") - 1, 0)
    return i - cu[doc]


def packed_steps(lengths):
    n = np.asarray(lengths, dtype=np.int64)
    total = int(n.sum())
    step = np.ones(total, dtype=np.int64)
    if total == 0:
        return step
    cu = np.cumsum(n)
    step[0] = 0
    inner = cu[:-1]
    ok = inner < total
    step[inner[ok]] = 1 - n[:-1][ok]
    return np.cumsum(step)


def step_positions(prompt_len, n_steps):
    start = np.max(prompt_len)
    ids = start + np.arange(n_steps)
    return np.broadcast_to(ids, (*np.shape(prompt_len), n_steps)).copy()


def next_positions(prompt_len, n_steps):
    p = np.asarray(prompt_len, dtype=np.int64)
    return p[..., None] - 1 + np.arange(n_steps)


def ring_positions(cu_seqlens, cp_size, cp_rank):
    out = []
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        c = (int(b) - int(a)) // (2 * cp_size)
        out += [np.arange(cp_rank * c, (cp_rank + 1) * c),
                np.arange((cp_size + cp_rank) * c, (cp_size + cp_rank + 1) * c)]
    return np.concatenate(out) if out else np.zeros(0, np.int64)


def zigzag_positions(cu_seqlens, cp_size, cp_rank):
    cu = np.asarray(cu_seqlens, dtype=np.int64)
    parts = []
    for start, end in zip(cu[:-1], cu[1:]):
        chunks = np.split(np.arange(start, end), 2 * cp_size)
        parts.append(np.concatenate([chunks[cp_rank], chunks[-1 - cp_rank]]))
    return np.concatenate(parts)
