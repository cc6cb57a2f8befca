"""Position ids, ids of padded tokens, packed documents, shards, decoding."""
import numpy as np
import torch


# ---- p01 (wrong): arange for every row: left-padded rows are shifted
def ids_arange(attention_mask):
    b, s = attention_mask.shape
    return np.where(attention_mask != 0, np.arange(s)[None].repeat(b, 0), 0)


# ---- p02 (wrong): padding gets 1 (transformers 4) although 0 is declared
def ids_padding_one(attention_mask):
    position_ids = attention_mask.long().cumsum(-1) - 1
    return position_ids.masked_fill(attention_mask == 0, 1)


# ---- p03 (wrong): only the left padding is subtracted, so a hole in the middle counts
def ids_left_padding_only(attention_mask):
    m = np.asarray(attention_mask).astype(bool)
    first = m.argmax(-1)
    pos = np.arange(m.shape[-1]) - first[..., None]
    return np.where(m, pos, 0)


# ---- p04 (wrong): the sum is made in the dtype of the mask (int8)
def ids_int8(attention_mask):
    m = np.asarray(attention_mask).astype(np.int8)
    return np.where(m == 1, np.cumsum(m, axis=-1, dtype=m.dtype).astype(np.int64) - 1, 0)


# ---- p05 (wrong): cumsum over the batch axis
def ids_axis_zero(attention_mask):
    m = torch.as_tensor(attention_mask).long()
    return ((m.cumsum(0) - 1) * m).clamp(min=0)


# ---- p06 (wrong): a persistent output buffer is added to, not overwritten (vllm#37884)
class PersistentIds:
    def __init__(self):
        self.buffer = np.zeros((0, 0), dtype=np.int64)

    def __call__(self, attention_mask):
        m = np.atleast_2d(np.asarray(attention_mask)).astype(np.int64)
        b, s = m.shape
        if self.buffer.shape[0] < b or self.buffer.shape[1] < s:
            grown = tuple(np.maximum(self.buffer.shape, m.shape))
            self.buffer = np.zeros(grown, dtype=np.int64)
        out = self.buffer[:b, :s]
        out += np.where(m == 1, np.cumsum(m, axis=-1) - 1, 0)
        return out.copy().reshape(np.shape(attention_mask))


ids_accumulating = PersistentIds()



# ---- p07 (wrong): RoBERTa: padding is not masked out of the sum's result
def roberta_unmasked(input_ids, padding_idx=1):
    mask = (input_ids != padding_idx).astype(np.int64)
    return np.cumsum(mask, axis=1) + padding_idx


# ---- p08 (wrong): arange + padding_idx + 1 (transformers#1761)
def roberta_arange(input_ids, padding_idx=1):
    s = input_ids.shape[-1]
    return torch.arange(padding_idx + 1, padding_idx + 1 + s).expand(input_ids.shape)


# ---- p09 (wrong): counts from padding_idx, not padding_idx + 1
def roberta_off_by_one(input_ids, padding_idx=1):
    mask = np.asarray(input_ids) != padding_idx
    return np.where(mask, np.cumsum(mask, -1) - 1 + padding_idx, padding_idx)


# ---- p10 (wrong): documents of length 0: reset points by index assignment
def packed_zero_length(lengths):
    lengths = np.asarray(lengths)
    total = int(lengths.sum())
    step = np.ones(total, dtype=np.int64)
    step[:1] = 0
    ends = np.cumsum(lengths)[:-1]
    ends = ends[ends < total]
    step[ends] = 1 - lengths[: len(ends)]
    return np.cumsum(step)


# ---- p11 (wrong): the prompt's last position is used again
def decode_from_last(prompt_len, n_steps):
    return np.asarray(prompt_len)[..., None] - 1 + np.arange(n_steps)


# ---- p12 (wrong): two neighbouring chunks instead of one from each end
def shard_neighbours(cu_seqlens, cp_size, cp_rank):
    out = []
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        c = (int(b) - int(a)) // (2 * cp_size)
        out.append(np.arange(2 * cp_rank * c, 2 * (cp_rank + 1) * c))
    return np.concatenate(out) if out else np.zeros(0, int)


# ---- p13 (wrong): the ids continue over the documents of a shard
def shard_global(cu_seqlens, cp_size, cp_rank):
    out = []
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        a, c = int(a), (int(b) - int(a)) // (2 * cp_size)
        for part in (cp_rank, 2 * cp_size - 1 - cp_rank):
            out.append(a + np.arange(part * c, (part + 1) * c))
    return np.concatenate(out) if out else np.zeros(0, int)


# ---- right -----------------------------------------------------------------------------------
# p14: loops
def right_ids_loop(attention_mask):
    m = np.atleast_2d(np.asarray(attention_mask))
    out = np.zeros(m.shape, np.int64)
    for b in range(m.shape[0]):
        n = 0
        for s in range(m.shape[1]):
            if m[b, s]:
                out[b, s] = n
                n += 1
    return out.reshape(np.shape(attention_mask))


# p15: fairseq's make_positions
def right_roberta(input_ids, padding_idx=1):
    mask = input_ids.ne(padding_idx).int()
    return (torch.cumsum(mask, dim=-1).type_as(mask) * mask).long() + padding_idx


# p16: concatenated ranges of a generator
def right_packed(lengths):
    return np.fromiter((i for n in lengths for i in range(int(n))), dtype=np.int64)
