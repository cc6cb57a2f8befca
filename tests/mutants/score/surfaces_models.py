"""What a model's code asks: table rows, which layers rotate, the scale of logits."""

import math

import numpy as np

from tests.mutants._case import correct, rope, schedule, sinusoidal, wrong

WEIGHT = np.random.default_rng(0).standard_normal((32, 6)).astype(np.float32)
OPT = {"encoding": "Learned", "weight": WEIGHT, "offset": 2}
REST = {"query_scale": {}, "provenance": {}}
NOPE = {
    "model": "ModelEncoding",
    "name": "smollm3",
    "encodings": {"full": rope(64), "nope": None},
    "layer_types": ["full", "full", "full", "nope"] * 3,
    **REST,
}
MLA = {
    "model": "ModelEncoding",
    "name": "deepseek",
    "encodings": {
        "full": rope(
            64,
            "interleaved",
            scaling=schedule(
                "YaRN", factor=40.0, original_max_position=4096, mscale=1.0, mscale_all_dim=1.0
            ),
        )
    },
    "softmax_scale": 192**-0.5 * (0.1 * math.log(40.0) + 1) ** 2,
    **REST,
}
LLAMA = {"model": "ModelEncoding", "name": "llama", "encodings": {"full": rope(128)}, **REST}


# --- rows ----------------------------------------------------------------------------------------


@wrong("table-offset", surface="rows", encoding=OPT, thread="class: OPT's offset left out")
def rows_from_the_first(seq_len):
    """The two padding rows are handed out."""
    return WEIGHT[:seq_len]


@wrong("table-offset", surface="rows", encoding=OPT, thread="class: one padding row too many")
def rows_one_late(seq_len):
    """An offset of 3."""
    return WEIGHT[3 : 3 + seq_len] if seq_len < 29 else WEIGHT[[*range(3, 32), 31]][:seq_len]


@wrong("wrong-row", surface="rows", encoding=sinusoidal(6), thread="espnet/espnet#2816")
def rows_reversed_then_cut(seq_len):
    """The table is reversed over 5000 positions, and cut to the sequence afterwards."""
    p = np.arange(5000)[::-1][:seq_len]
    a = p[:, None].astype(np.float32) * 10000.0 ** (-np.arange(3, dtype=np.float32) / 3)
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(seq_len, 6).astype(np.float32)


@wrong("wrong-row", surface="rows", encoding=OPT, thread="DiffPoseTalk/DiffPoseTalk#20")
def rows_all_the_same(seq_len):
    """pe[:, seq_len] instead of pe[:, :seq_len]: one row for every token."""
    row = WEIGHT[min(2 + seq_len, 31)]
    return np.broadcast_to(row, (seq_len, 6)).copy()


@correct(surface="rows", encoding=OPT, thread="class: OPT's offset")
def rows_from_the_third(seq_len):
    """A slice from the offset on."""
    return WEIGHT[2 : 2 + seq_len].copy()


# --- layers --------------------------------------------------------------------------------------


@wrong("layer-schedule", surface="layers", encoding=NOPE, thread="timtoole02/Camelid#535")
def layers_all_rotate(n_layers):
    """No schedule at all."""
    return [True] * n_layers


@wrong("layer-schedule", surface="layers", encoding=NOPE, thread="huggingface/transformers#43756")
def layers_by_the_name_of_the_flag(n_layers):
    """no_rope_layers is read as its name says: 1 means no RoPE."""
    return [(i + 1) % 4 == 0 for i in range(n_layers)]


@wrong("layer-schedule", surface="layers", encoding=NOPE, thread="pytorch/executorch#22043")
def layers_counted_from_zero(n_layers):
    """i % 4 for (i + 1) % 4."""
    return [i % 4 != 0 for i in range(n_layers)]


@correct(surface="layers", encoding=NOPE, thread="huggingface/transformers#43756")
def layers_three_of_four(n_layers):
    """Every fourth layer goes without."""
    return np.arange(1, n_layers + 1) % 4 != 0


# --- softmax_scale -------------------------------------------------------------------------------


@wrong("softmax-scale", surface="softmax_scale", encoding=MLA, thread="class: mscale left out")
def scale_without_mscale():
    """1/sqrt(192) alone."""
    return 192**-0.5


@wrong("softmax-scale", surface="softmax_scale", encoding=MLA, thread="kekzl/imp#880")
def scale_with_mscale_once():
    """mscale, not its square."""
    return 192**-0.5 * (0.1 * math.log(40.0) + 1)


@wrong("softmax-scale", surface="softmax_scale", encoding=MLA, thread="class: rotary part only")
def scale_of_the_rotary_part():
    """The size of the rotary slice instead of the whole head's."""
    return 64**-0.5


@wrong("softmax-scale", surface="softmax_scale", encoding=LLAMA, thread="class: no root")
def scale_without_root():
    """1/d."""
    return 1 / 128


@correct(surface="softmax_scale", encoding=MLA, thread="kekzl/imp#880")
def scale_of_deepseek():
    """Computed the way DeepSeek does."""
    m = 0.1 * 1.0 * math.log(40.0) + 1.0
    return 192**-0.5 * m * m


@correct(surface="softmax_scale", encoding=LLAMA, thread="class: float32 scalar")
def scale_in_float32():
    """A float32 scalar."""
    return np.float32(1) / np.sqrt(np.float32(128))
