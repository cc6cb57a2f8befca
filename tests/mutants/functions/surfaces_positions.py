"""Functions that make positions: padding, packing, decoding, shards, token ids."""

import numpy as np

from tests.mutants._case import correct, wrong

TABLE = np.zeros((40, 4), np.float32)
ROBERTA = {"encoding": "Learned", "weight": TABLE, "padding_idx": 1}


# --- position_ids --------------------------------------------------------------------------------


@wrong("padding", surface="position_ids", encoding=None, thread="ndif-team/nnsight#673")
def mask_not_looked_at(mask):
    """arange over padding and all."""
    return np.broadcast_to(np.arange(mask.shape[1]), mask.shape).copy()


@wrong("padding", surface="position_ids", encoding=None, thread="unslothai/unsloth#4078")
def mask_of_the_longest_row(mask):
    """One cache_position, that of the longest prompt, is shared by all rows."""
    longest = np.argmax(mask.sum(1))
    return np.broadcast_to(np.cumsum(mask[longest]) - 1, mask.shape).copy()


@wrong("padding", surface="position_ids", encoding=None, thread="huggingface/transformers#48028")
def mask_minus_all_padding(mask):
    """The number of padding tokens is subtracted, also where they come last."""
    return np.arange(mask.shape[1]) - (1 - mask).sum(1, keepdims=True)


@wrong("position-origin", surface="position_ids", encoding=None, thread="class: cumsum without - 1")
def mask_counted_from_one(mask):
    """cumsum alone."""
    return np.cumsum(mask, axis=1)


@wrong("state", surface="position_ids", encoding=None, thread="vllm-project/vllm#37884")
class MaskIntoABuffer:
    """A persistent buffer is added to in place."""

    def __init__(self):
        self.buffer = np.zeros((64, 64), np.int64)

    def __call__(self, mask):
        b, s = mask.shape
        self.buffer[:b, :s] += np.maximum(np.cumsum(mask, axis=1) - 1, 0)
        return self.buffer[:b, :s].copy()


@correct(surface="position_ids", encoding=None, thread="class: padding at position 1")
def mask_with_padding_at_one(mask):
    """transformers 4: masked positions are 1."""
    ids = np.cumsum(mask, axis=-1) - 1
    ids[mask == 0] = 1
    return ids


@correct(surface="position_ids", encoding=None, thread="huggingface/transformers#48028")
def mask_row_by_row(mask):
    """Counts in a loop, and refuses rows of padding."""
    out = []
    for row in mask.tolist():
        if not any(row):
            raise ValueError("a row without tokens")
        seen = np.cumsum(row) - 1
        out.append([max(int(p), 0) for p in seen])
    return np.array(out)


# --- packed --------------------------------------------------------------------------------------


@wrong("packing", surface="packed", encoding=None, thread="class: documents share one arange")
def packed_in_one_go(lengths):
    """Positions run on over document borders."""
    return np.arange(np.sum(lengths))


@wrong("packing", surface="packed", encoding=None, thread="class: segment ids for positions")
def packed_segment_ids(lengths):
    """The number of the document is taken for the position."""
    return np.repeat(np.arange(len(lengths)), lengths)


@wrong("packing", surface="packed", encoding=None, thread="class: reset at the separator")
def packed_reset_after_the_first_token(lengths):
    """The first token of a document still counts to the one before."""
    total, ends = int(np.sum(lengths)), np.cumsum(lengths).tolist()
    out, p = [], 0
    for t in range(total):
        out.append(p)
        p = 1 if t in ends and t > 0 else p + 1
    return np.array(out, np.int64)


@wrong("packing", surface="packed", encoding=None, thread="class: rectangular reshape")
def packed_as_a_rectangle(lengths):
    """Documents are taken for as long as the longest."""
    return np.arange(np.sum(lengths)) % max(int(np.max(lengths, initial=1)), 1)


@correct(surface="packed", encoding=None, thread="class: a list of aranges")
def packed_concatenated(lengths):
    """One arange for each document."""
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(int(n)) for n in lengths)])


# --- decode_positions ----------------------------------------------------------------------------


@wrong(
    "decode-offset", surface="decode_positions", encoding=None, thread="keras-team/keras-hub#1544"
)
def decode_from_zero(prompt_len, n_steps):
    """Generated tokens are counted from 0."""
    return np.zeros_like(prompt_len)[..., None] + np.arange(n_steps)


@wrong(
    "decode-offset", surface="decode_positions", encoding=None, thread="class: last prompt token"
)
def decode_repeats_the_last_position(prompt_len, n_steps):
    """The first new token gets the position of the last one of the prompt."""
    return np.asarray(prompt_len)[..., None] - 1 + np.arange(n_steps)


@wrong("padding", surface="decode_positions", encoding=None, thread="unslothai/unsloth#4078")
def decode_from_the_padded_length(prompt_len, n_steps):
    """All rows go on at the padded width."""
    start = np.broadcast_to(np.max(prompt_len), np.shape(prompt_len))
    return start[..., None] + np.arange(n_steps)


@correct(surface="decode_positions", encoding=None, thread="class: one prompt")
def decode_one_prompt(prompt_len, n_steps):
    """Refuses several prompts."""
    return list(range(int(prompt_len), int(prompt_len) + n_steps)) if n_steps else np.arange(0)


# --- shard_positions -----------------------------------------------------------------------------


def documents(cu_seqlens):
    """Lengths of the documents."""
    return [int(n) for n in np.diff(cu_seqlens)]


@wrong("shard-offset", surface="shard_positions", encoding=None, thread="class: local arange")
def shard_counts_its_own(cu_seqlens, cp_size, cp_rank):
    """A rank counts the tokens that it holds."""
    return np.concatenate([np.arange(n // cp_size) for n in documents(cu_seqlens)])


@wrong("shard-offset", surface="shard_positions", encoding=None, thread="class: contiguous parts")
def shard_contiguous(cu_seqlens, cp_size, cp_rank):
    """Contiguous parts, where attention balances zig-zag halves."""
    return np.concatenate(
        [cp_rank * (n // cp_size) + np.arange(n // cp_size) for n in documents(cu_seqlens)]
    )


@wrong("packing", surface="shard_positions", encoding=None, thread="class: packed batch cut whole")
def shard_without_documents(cu_seqlens, cp_size, cp_rank):
    """Zig-zag halves with positions that run on over documents."""
    parts = []
    for start, n in zip(np.asarray(cu_seqlens).tolist(), documents(cu_seqlens), strict=False):
        c = n // (2 * cp_size)
        for i in (cp_rank, 2 * cp_size - 1 - cp_rank):
            parts.append(start + i * c + np.arange(c))
    return np.concatenate(parts)


@wrong("shard-offset", surface="shard_positions", encoding=None, thread="class: second half")
def shard_with_its_halves_exchanged(cu_seqlens, cp_size, cp_rank):
    """The late half comes first."""
    parts = []
    for n in documents(cu_seqlens):
        c = n // (2 * cp_size)
        for i in (2 * cp_size - 1 - cp_rank, cp_rank):
            parts.append(i * c + np.arange(c))
    return np.concatenate(parts)


@correct(surface="shard_positions", encoding=None, thread="class: two slices per document")
def shard_of_slices(cu_seqlens, cp_size, cp_rank):
    """Two slices of each document's positions."""
    parts = []
    for n in documents(cu_seqlens):
        p, c = np.arange(n), n // (2 * cp_size)
        parts += [p[cp_rank * c : (cp_rank + 1) * c], p[n - (cp_rank + 1) * c : n - cp_rank * c]]
    return np.concatenate(parts)


# --- ids_from_tokens -----------------------------------------------------------------------------


@wrong(
    "padding", surface="ids_from_tokens", encoding=ROBERTA, thread="huggingface/transformers#1761"
)
def ids_over_padding(ids):
    """arange from padding_idx + 1, over padding and all."""
    return np.broadcast_to(np.arange(ids.shape[1]) + 2, ids.shape).copy()


@wrong("padding", surface="ids_from_tokens", encoding=ROBERTA, thread="class: mask not multiplied")
def ids_go_on_over_padding(ids):
    """Padding behind the text keeps the last position."""
    return np.cumsum(ids != 1, axis=1) + 1


@wrong("table-offset", surface="ids_from_tokens", encoding=ROBERTA, thread="class: from row 0")
def ids_from_row_zero(ids):
    """Real tokens are counted from row 0."""
    real = ids != 1
    return np.where(real, np.cumsum(real, axis=1) - 1, 1)


@wrong(
    "table-offset", surface="ids_from_tokens", encoding=ROBERTA, thread="class: padding row shared"
)
def ids_share_the_padding_row(ids):
    """The first token gets the padding row."""
    real = ids != 1
    return np.where(real, np.cumsum(real, axis=1), 1)


@wrong("state", surface="ids_from_tokens", encoding=ROBERTA, thread="vllm-project/vllm#37884")
class IdsAccumulate:
    """padding_idx + 1 is added to a persistent buffer, in place."""

    def __init__(self):
        self.buffer = np.zeros((8, 64), np.int64)

    def __call__(self, ids):
        b, s = ids.shape
        self.buffer[:b, :s] += (np.cumsum(ids != 1, axis=1) * (ids != 1)) + 1
        return self.buffer[:b, :s].copy()


@correct(surface="ids_from_tokens", encoding=ROBERTA, thread="huggingface/transformers#1761")
def ids_of_fairseq(ids):
    """cumsum of the mask times the mask, plus padding_idx."""
    mask = (ids != 1).astype(np.int32)
    return (np.cumsum(mask, axis=1) * mask).astype(np.int64) + 1
