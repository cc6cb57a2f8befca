"""Wrong NTK-aware, dynamic NTK and NTK-by-parts scaling."""

import math

import numpy as np

from tests.mutants._case import rope, schedule, wrong
from tests.mutants._parts import inv_freq, phase, turn_half, turn_pairs
from tests.mutants._scaled import blend, bounds, dynamic_base, ntk_base, ramp, seq_len, yarn

NTK = rope(64, scaling=schedule("NTKScaling", factor=4.0))
NTK_128 = rope(128, "interleaved", scaling=schedule("NTKScaling", factor=8.0))
DYNAMIC = rope(128, scaling=schedule("DynamicNTK", factor=2.0, max_position=4096))
DYNAMIC_64 = rope(64, scaling=schedule("DynamicNTK", factor=4.0, max_position=2048))
NEVER_SMALLER = rope(64, base=1000.0, scaling=DYNAMIC["scaling"])
BY_PARTS = rope(128, scaling=schedule("NTKByParts", factor=4.0, original_max_position=2048))


def rotate(x, positions, dim, base):
    """A half-split rotation with another base."""
    return turn_half(x, phase(positions, inv_freq(dim, base)))


def grown(x, positions, length):
    """DYNAMIC with another notion of length."""
    return rotate(x, positions, 128, dynamic_base(10000.0, 2.0, 4096, length, 128))


# --- static --------------------------------------------------------------------------------------


@wrong(
    "scaling-formula",
    "scaling-parameter",
    "base",
    encoding=NTK,
    thread="trap: ntk_factor multiplies theta, no exponent (diffusers)",
)
def ntk_without_the_exponent(x, positions):
    """base * factor."""
    return rotate(x, positions, 64, 10000.0 * 4.0)


@wrong(
    "scaling-formula",
    "scaling-parameter",
    "base",
    surface="frequencies",
    encoding=NTK_128,
    thread="class: d/(d-1) for d/(d-2)",
)
def ntk_exponent_over_d_minus_one():
    """base * factor ** (d / (d - 1))."""
    return inv_freq(128, 10000.0 * 8.0 ** (128 / 127))


@wrong(
    "scaling-formula",
    "scaling-parameter",
    "base",
    encoding=rope(128, rotary_dim=32, scaling=schedule("NTKScaling", factor=4.0)),
    thread="class: head_dim for rotary_dim in the exponent",
)
def ntk_exponent_of_the_whole_head(x, positions):
    """d/(d-2) with the head's 128 in a model that rotates 32."""
    y = rotate(x[..., :32], positions, 32, 10000.0 * 4.0 ** (128 / 126))
    return np.concatenate([y, x[..., 32:]], axis=-1)


@wrong(
    "scaling-formula",
    "scaling-parameter",
    "base",
    encoding=NTK_128,
    thread="class: number of pairs for number of channels in the exponent",
    held_out=True,
)
def ntk_exponent_counted_in_pairs(x, positions):
    """P/(P-2) with P = 64 pairs."""
    return turn_pairs(x, phase(positions, inv_freq(128, 10000.0 * 8.0 ** (64 / 62))))


@wrong(
    "scaling-missing",
    surface="cos_sin",
    encoding=NTK_128,
    thread="class: alpha not read",
    held_out=True,
)
def ntk_dropped(positions):
    """Plain tables."""
    a = np.asarray(positions, np.float32)[:, None] * inv_freq(128)
    return np.cos(a), np.sin(a)


@wrong(
    "scaling-formula", "position-scale", encoding=NTK, thread="class: linear scaling for NTK-aware"
)
def linear_where_ntk_is_declared(x, positions):
    """Divides the positions by the factor."""
    return rotate(x, np.asarray(positions) / 4.0, 64, 10000.0)


@wrong("scaling-formula", encoding=NTK, thread="trap: Su's fixed NTK-RoPE for NTK-aware")
def ntk_scales_the_first_pair_too(x, positions):
    """(base s)^(-2j/d) s^(-2/d): the same slope, the first pair slowed as well."""
    w = inv_freq(64, 10000.0 * 4.0) * np.float32(4.0 ** (-2 / 64))
    return turn_half(x, phase(positions, w))


@wrong(
    "scaling-parameter",
    "base",
    encoding=NTK_128,
    thread="class: factor applied twice",
    held_out=True,
)
def ntk_factor_applied_twice(x, positions):
    """Raises the base by the factor's square."""
    return turn_pairs(x, phase(positions, inv_freq(128, ntk_base(10000.0, 64.0, 128))))


# --- dynamic -------------------------------------------------------------------------------------


@wrong(
    "scaling-parameter",
    "scaling-formula",
    "base",
    encoding=DYNAMIC,
    thread="vllm-project/vllm#5093",
)
def dynamic_ntk_is_static(x, positions):
    """One base, that of the largest length, for short inputs too."""
    return grown(x, positions, 2 * 4096)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    surface="frequencies",
    encoding=DYNAMIC_64,
    thread="vllm-project/vllm#5093",
    held_out=True,
)
def dynamic_ntk_frequencies_are_static(seq_len):
    """Ignores the length it is given."""
    return inv_freq(64, dynamic_base(10000.0, 4.0, 2048, 4 * 2048, 64))


@wrong(
    "scaling-missing",
    "scaling-formula",
    "scaling-parameter",
    encoding=DYNAMIC,
    thread="trap: the terms cancel to one (a stored vLLM commit)",
)
def dynamic_ntk_never_grows(x, positions):
    """The base stays what it is at any length."""
    return rotate(x, positions, 128, 10000.0)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=DYNAMIC,
    thread="class: largest position for the length",
)
def dynamic_ntk_one_token_short(x, positions):
    """Takes the largest position for the length."""
    return grown(x, positions, seq_len(positions) - 1)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=DYNAMIC_64,
    thread="class: length counts the token to come",
    held_out=True,
)
def dynamic_ntk_one_token_long(x, positions):
    """Takes the largest position plus two for the length."""
    base = dynamic_base(10000.0, 4.0, 2048, seq_len(positions) + 1, 64)
    return rotate(x, positions, 64, base)


@wrong(
    "scaling-formula",
    "scaling-parameter",
    "scaling-missing",
    encoding=DYNAMIC,
    thread="class: number of tokens in the call for the length",
)
def dynamic_ntk_of_the_tokens_in_the_call(x, positions):
    """Decode steps of one token never enlarge the base."""
    return grown(x, positions, x.shape[-2])


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=DYNAMIC_64,
    thread="class: - (factor - 1) forgotten",
)
def dynamic_ntk_jumps_at_the_limit(x, positions):
    """Multiplies by (s L / Lmax) ** (d/(d-2)) past the limit."""
    length = seq_len(positions)
    grow = 4.0 * length / 2048 if length > 2048 else 1.0
    return rotate(x, positions, 64, ntk_base(10000.0, grow, 64))


@wrong(
    "scaling-formula",
    "scaling-parameter",
    "nonfinite",
    encoding=NEVER_SMALLER,
    thread="vllm-project/vllm#52665",
)
def dynamic_ntk_shrinks_below_the_limit(x, positions):
    """Without max(L, Lmax) short inputs get a smaller base, at last a negative one."""
    grow = 2.0 * seq_len(positions) / 4096 - 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        w = inv_freq(64, np.float32(1000.0) * np.float32(grow) ** np.float32(64 / 62))
        return turn_half(x, phase(positions, w))


@wrong("scaling-formula", "scaling-parameter", encoding=DYNAMIC, thread="InternLM/lmdeploy#536")
def dynamic_ntk_in_powers_of_two(x, positions):
    """Qwen's steps: alpha = 2 ** ceil(log2(L / Lmax) + 1) - 1."""
    steps = math.ceil(math.log2(max(seq_len(positions), 1) / 4096) + 1)
    return rotate(x, positions, 128, ntk_base(10000.0, max(2.0**steps - 1, 1.0), 128))


@wrong(
    "scaling-formula",
    "position-scale",
    "scaling-parameter",
    encoding=DYNAMIC_64,
    thread="class: dynamic linear scaling for dynamic NTK",
    held_out=True,
)
def dynamic_linear(x, positions):
    """Squeezes a long input into the trained length."""
    squeeze = max(seq_len(positions) / 2048, 1.0)
    return rotate(x, np.asarray(positions) / squeeze, 64, 10000.0)


@wrong(
    "state",
    encoding=DYNAMIC,
    thread="huggingface/transformers#25306",
)
class DynamicNtkLatched:
    """The base of the longest call is kept for shorter ones."""

    def __init__(self):
        self.longest = 0

    def __call__(self, x, positions):
        self.longest = max(self.longest, seq_len(positions))
        return grown(x, positions, self.longest)


@wrong(
    "state",
    encoding=DYNAMIC,
    thread="transformers 5.23, modeling_rope_utils.py, dynamic_rope_update",
)
class DynamicNtkStartsAfreshBelowTheLimit:
    """The base of the longest call is kept until a call fits into the original length."""

    def __init__(self):
        self.longest = 4096

    def __call__(self, x, positions):
        length = seq_len(positions)
        self.longest = 4096 if length < 4096 else max(self.longest, length)
        return grown(x, positions, self.longest)


@wrong(
    "state",
    surface="frequencies",
    encoding=DYNAMIC_64,
    thread="huggingface/transformers#25306",
    held_out=True,
)
class DynamicNtkFrequenciesLatched:
    """Recomputes only when the length grows, and never goes back."""

    def __init__(self):
        self.cached, self.w = 2048, inv_freq(64)

    def __call__(self, seq_len):
        if seq_len > self.cached:
            self.cached = seq_len
            self.w = inv_freq(64, dynamic_base(10000.0, 4.0, 2048, seq_len, 64))
        return self.w


# --- by parts ------------------------------------------------------------------------------------


@wrong("scaling-formula", encoding=BY_PARTS, thread="trap: YaRN's ramp called NTK-by-parts")
def yarn_where_by_parts_is_declared(x, positions):
    """The two-way ramp of YaRN, without its factor."""
    return turn_half(x, phase(positions, yarn(128, 10000.0, 4.0, 2048)))


@wrong(
    "scaling-formula",
    encoding=rope(
        128, scaling=schedule("YaRN", factor=4.0, original_max_position=2048, attention_factor=1.0)
    ),
    thread="trap: YaRN's ramp called NTK-by-parts",
    held_out=True,
)
def by_parts_where_yarn_is_declared(x, positions):
    """Linear, NTK-aware and plain frequencies, blended by two ramps."""
    w, d = inv_freq(128), 128
    keep = ramp(*bounds(d, 10000.0, 2048, 1.25, 0.75), 64)
    slow = inv_freq(d, ntk_base(10000.0, 4.0, d)) * (1 - keep) + w / 4 * keep
    r = ramp(*bounds(d, 10000.0, 2048, 16.0, 2.0), 64)
    return turn_half(x, phase(positions, w * (1 - r) + slow * r))


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=BY_PARTS,
    thread="class: the NTK stage left out",
)
def by_parts_without_the_middle(x, positions):
    """Blends plain and linear by the second ramp only."""
    r = ramp(*bounds(128, 10000.0, 2048, 16.0, 2.0), 64)
    return turn_half(x, phase(positions, blend(inv_freq(128), 4.0, r)))
