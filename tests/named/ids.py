"""Position ids of RoBERTa and its kin."""

import numpy as np

from ._case import right, wrong

ZERO, COUNTED = "RoBERTa ids from zero", "RoBERTa ids counting padding"

WEIGHT = np.random.default_rng(7).standard_normal((64, 4)).astype(np.float32)
ROBERTA = {"encoding": "Learned", "weight": WEIGHT, "padding_idx": 1}
PADDED_BY_0 = {**ROBERTA, "padding_idx": 0}
PADDED_BY_3 = {**ROBERTA, "padding_idx": 3}


@wrong(ZERO, "table-offset", "gets row 0", surface="ids_from_tokens", encoding=ROBERTA)
def counted_from_zero(input_ids):
    mask = (input_ids != 1).astype(np.int64)
    return np.where(mask == 1, np.cumsum(mask, axis=1) - 1, 1)


@wrong(ZERO, "table-offset", "gets row 0", surface="ids_from_tokens", encoding=ROBERTA)
def counted_from_zero_everywhere(input_ids):
    mask = (input_ids != 1).astype(np.int64)
    return np.maximum(np.cumsum(mask, axis=1) - 1, 0) * mask


@wrong(ZERO, "table-offset", "gets row 0", surface="ids_from_tokens", encoding=PADDED_BY_3,
       backend="torch")  # fmt: skip
def counted_from_zero_by_torch(input_ids):
    mask = (input_ids != 3).long()
    return (mask.cumsum(dim=1) - 1) * mask + (1 - mask) * 3


@wrong(ZERO, "table-offset", "gets row 1", surface="ids_from_tokens", encoding=ROBERTA)
def counted_from_one(input_ids):
    mask = (input_ids != 1).astype(np.int64)
    return np.cumsum(mask, axis=1) * mask


@wrong(ZERO, "padding", "start at row 0", surface="ids_from_tokens", encoding=PADDED_BY_3)
def bert_ids(input_ids):
    return np.broadcast_to(np.arange(input_ids.shape[1]), input_ids.shape).copy()


@right(ZERO, surface="ids_from_tokens", encoding=ROBERTA)
def counted_from_two(input_ids):
    mask = (input_ids != 1).astype(np.int64)
    return np.cumsum(mask, axis=1) * mask + 1


@wrong(COUNTED, "padding", "padding is counted", surface="ids_from_tokens", encoding=ROBERTA)
def every_token_counts(input_ids):
    return np.broadcast_to(np.arange(2, input_ids.shape[1] + 2), input_ids.shape).copy()


@wrong(COUNTED, "padding", "padding is counted", surface="ids_from_tokens", encoding=ROBERTA)
def every_token_counts_but_padding_has_its_row(input_ids):
    ids = np.broadcast_to(np.arange(2, input_ids.shape[1] + 2), input_ids.shape)
    return np.where(input_ids == 1, 1, ids)


@wrong(COUNTED, "padding", "padding is counted", surface="ids_from_tokens", encoding=PADDED_BY_0,
       backend="torch")  # fmt: skip
def every_token_counts_by_torch(input_ids):
    import torch

    ids = torch.arange(1, input_ids.shape[1] + 1).expand(input_ids.shape)
    return ids.masked_fill(input_ids == 0, 0)


@wrong(COUNTED, "padding", "padding", surface="ids_from_tokens", encoding=ROBERTA)
def padding_goes_on_counting(input_ids):
    return np.cumsum(input_ids != 1, axis=1) + 1


@wrong(COUNTED, "padding", "padding is counted", surface="ids_from_tokens", encoding=PADDED_BY_3)
def cumulative_sum_of_ones(input_ids):
    return np.cumsum(np.ones_like(input_ids), axis=1) + 3


@right(COUNTED, surface="ids_from_tokens", encoding=PADDED_BY_3)
def real_tokens_count(input_ids):
    mask = (input_ids != 3).astype(np.int64)
    return np.cumsum(mask, axis=1) * mask + 3
