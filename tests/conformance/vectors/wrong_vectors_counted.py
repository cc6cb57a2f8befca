"""Wrong tables, biases, permutations and counts for vectors; see wrong_vectors.py."""

import numpy as np

from tests.conformance.vectors.wrong_vectors import also_wrong, declared
from tests.mutants._case import sinusoidal, t5
from tests.mutants._parts import interleave, inv_freq, t5_bucket

# --- tables --------------------------------------------------------------------------------------


def _table(order, n=32.0, offset=0.0, scale=1.0):
    def table(positions):
        """A table with one of its declared settings left out."""
        w = np.float32(10000.0) ** (-np.arange(32, dtype=np.float32) / np.float32(n))
        a = ((np.asarray(positions, np.float32) + np.float32(offset))[:, None] * w) * scale
        return order(np.sin(a), np.cos(a)).astype(np.float32)

    return table


def _no_zeros(sin, cos):
    """33 columns in all, none of them zero."""
    return _concat(sin[:, :17], cos[:, :16])


def _concat(first, second):
    return np.concatenate([first, second], axis=-1)


also_wrong(
    "position-origin",
    surface="table",
    encoding=sinusoidal(64, layout="concat", denominator="half-1", offset=1),
    name="fairseq-table-from-zero",
)(_table(_concat, 31.0))
also_wrong(
    "position-scale",
    surface="table",
    encoding=sinusoidal(64, layout="concat", first="cos", position_scale=1000.0),
    name="timesteps-from-zero-to-one",
)(_table(lambda sin, cos: _concat(cos, sin)))
also_wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad"),
    name="a-seventeenth-sine-for-the-zero-column",
)(_table(_no_zeros, 15.0))
also_wrong(
    "denominator",
    surface="table",
    encoding=sinusoidal(64, denominator=30.0, offset=3, position_scale=0.25, scale=2.0),
    name="declared-denominator-ignored",
    thread="huggingface/diffusers#12791",
)(_table(interleave, 32.0, 3.0, 0.25))


@also_wrong("amplitude", surface="add", encoding=sinusoidal(16))
def embeddings_scaled_by_the_root_of_their_size(x):
    """x * sqrt(dim) + PE."""
    a = np.arange(x.shape[1], dtype=np.float32)[:, None] * inv_freq(16)
    return x * np.float32(4) + interleave(np.sin(a), np.cos(a)).astype(np.float32)


def _lookup(weight, offset):
    def rows(positions):
        """Rows one offset away."""
        return weight[positions + offset]

    return rows


_learned = declared("learned-12")
_opt = declared("learned-12-offset-2")
_roberta = declared("learned-12-tokens")
LOOKUPS = {
    "rows-from-one": (_learned, np.roll(_learned.encoding.weight, -1, axis=0)),
    "padding-rows-not-skipped": (_opt, _opt.encoding.weight),
}
for _name, (_case, _weight) in LOOKUPS.items():
    also_wrong("wrong-row", surface="table", encoding=_case.declared, name=_name)(
        _lookup(_weight, 0)
    )


@also_wrong("position-origin", surface="ids_from_tokens", encoding=_roberta.declared,
            thread="huggingface/transformers#1761")  # fmt: skip
def positions_over_padding(input_ids):
    """arange over the padding."""
    return np.broadcast_to(np.arange(input_ids.shape[1]), input_ids.shape) + 0


# --- biases --------------------------------------------------------------------------------------


def _series(num_heads):
    """2^(-8h/n) for every n, from h = 0."""
    return 2.0 ** (-8.0 * np.arange(num_heads) / num_heads).astype(np.float32)


for _n, _max in ((1, 8.0), (40, 8.0), (112, 8.0), (24, 16.0)):
    also_wrong("slopes", surface="slopes", name=f"one-series-from-one-for-{_n}-heads",
               encoding={"encoding": "ALiBi", "num_heads": _n, "max_bias": _max},
               thread="paiml/aprender#2143")(_series)  # fmt: skip


def _bucket_of(name, declared, fn, code):
    also_wrong(code, surface="bucket", encoding=declared, name=name)(fn)


def _buckets(n, reach, both, sign=1):
    def bucket(relative_position):
        """Buckets with another reach, number or sign than declared."""
        return t5_bucket(sign * relative_position, both, n, reach)

    return bucket


_EMPTY = np.zeros((32, 2), np.float32)
_WIDE = np.zeros((64, 2), np.float32)
_bucket_of("reach-of-128-for-256", t5(_EMPTY, max_distance=256), _buckets(32, 128, True),
           "bucket-clamp")  # fmt: skip
_bucket_of("buckets-of-256-mirrored", t5(_EMPTY, max_distance=256), _buckets(32, 256, True, -1),
           "bucket-sign")  # fmt: skip
_bucket_of("decoder-buckets-of-256-mirrored", t5(_EMPTY, max_distance=256, bidirectional=False),
           _buckets(32, 256, False, -1), "bucket-sign")  # fmt: skip
_bucket_of("half-of-64-buckets", t5(_WIDE, num_buckets=64, max_distance=256),
           _buckets(32, 256, True), "bucket-spacing")  # fmt: skip


def _scaled_bias(scale, add):
    def logits(q, k):
        """The scale of another encoding."""
        return np.float32(scale) * (q @ np.swapaxes(k, -1, -2)) + add(q.shape[2]).astype(np.float32)

    return logits


def _alibi_bias(n):
    distance = np.abs(np.arange(n)[:, None] - np.arange(n))
    return -np.array([2.0**-4, 2.0**-8])[:, None, None] * distance


_t5 = declared("t5-scores")
_t5_table = np.asarray(_t5.encoding.table)


def _t5_bias(n):
    r = np.arange(n) - np.arange(n)[:, None]
    return np.moveaxis(_t5_table[t5_bucket(r)], -1, 0)


also_wrong("bias-scale", surface="scores", encoding={"encoding": "ALiBi", "num_heads": 2},
           name="alibi-inside-the-scale")(
    _scaled_bias(8**-0.5, lambda n: 8**-0.5 * _alibi_bias(n))
)  # fmt: skip
also_wrong("amplitude", surface="scores", encoding=_t5.declared, name="t5-logits-scaled")(
    _scaled_bias(8**-0.5, _t5_bias)
)  # fmt: skip


# --- moved and counted ---------------------------------------------------------------------------


@also_wrong("layout", surface="convert_layout", thread="huggingface/transformers#47403")
def permutes_the_other_way_round(x, source, target, rotary_dim):
    """The inverse permutation."""
    d = np.arange(rotary_dim)
    perm = d.reshape(2, -1).T.ravel() if target == "half" else d.reshape(-1, 2).T.ravel()
    return np.concatenate([x[..., perm], x[..., rotary_dim:]], axis=-1)


@also_wrong("layout", surface="permute_weights", thread="ooples/AiDotNet#2074")
def weights_left_as_they_are(w, n_heads):
    """No permutation at all."""
    return w


@also_wrong("layout", surface="permute_weights", thread="huggingface/transformers#47403")
def heads_mixed_by_the_permutation(w, n_heads):
    """All heads permuted as if they were one."""
    return w.reshape(2, -1, w.shape[1]).swapaxes(0, 1).reshape(w.shape)


@also_wrong("position-origin", surface="position_ids", thread="unslothai/unsloth#4078")
def positions_of_the_padded_row(attention_mask):
    """arange over the padding; right where padding comes last."""
    return np.arange(attention_mask.shape[1]) * attention_mask


@also_wrong("position-origin", surface="packed")
def documents_count_on(lengths):
    """One range over all documents."""
    return np.arange(np.sum(lengths))


@also_wrong("decode-offset", surface="decode_positions")
def steps_from_the_longest_prompt(prompt_len, n_steps):
    """Every row goes on from the padded length."""
    return np.max(prompt_len) + np.zeros_like(prompt_len)[:, None] + np.arange(n_steps)


@also_wrong("position-origin", surface="shard_positions")
def ranks_count_their_own_tokens(cu_seqlens, cp_size, cp_rank):
    """0, 1, 2, ... within each sequence of the shard."""
    return np.concatenate([np.arange(n) for n in np.diff(cu_seqlens) // cp_size])


@also_wrong("wrong-row", surface="shard_positions")
def contiguous_shards(cu_seqlens, cp_size, cp_rank):
    """Each rank holds one piece of every sequence."""
    sizes = np.diff(cu_seqlens) // cp_size
    return np.concatenate([cp_rank * n + np.arange(n) for n in sizes])


@also_wrong("position-origin", surface="mrope_positions", thread="kekzl/imp#1174")
def pictures_count_like_text(token_types, image_grids, video_grids):
    """One position for all axes."""
    at = np.arange(token_types.shape[1])
    return np.broadcast_to(at, (3, *token_types.shape))


@also_wrong("axis-order", surface="grid_positions", thread="facebookresearch/mae#18")
def columns_before_rows(height, width, merge_size):
    """Width first."""
    rows, columns = np.divmod(np.arange(height * width), width)
    return np.stack([columns, rows])
