"""Wrong implementations for vectors that no case of the corpus is declared as.

Like the corpus they know nothing of the specification.  They are judged by vectors alone, because
some of their surfaces are no surface of `check`.
"""

import math

import numpy as np

from posenc_ref.conformance import load_vectors
from tests.mutants._case import Case, multi_axis, rope, schedule
from tests.mutants._parts import inv_freq, phase, turn_half, turn_pairs
from tests.mutants._scaled import LONG, SHORT

ALSO_WRONG = []


def also_wrong(*codes, surface="apply", encoding=None, thread="", name=None, **kwargs):
    """File the decorated function, judged like `check(..., **kwargs)` would."""

    def decorate(fn):
        called = name or fn.__name__.replace("_", "-")
        why = fn.__doc__.strip().splitlines()[0]
        case = Case(called, lambda: fn, surface, encoding, codes, thread, why, kwargs)
        ALSO_WRONG.append(case)
        return fn

    return decorate


# --- rotary --------------------------------------------------------------------------------------


@also_wrong(
    "range-reduction",
    encoding=rope(64),
    dtype="float64",
    name="turns-taken-off-with-a-float32-pi",
)
@also_wrong(
    "range-reduction",
    surface="cos_sin",
    encoding=rope(64),
    dtype="float64",
    name="tables-with-a-float32-pi",
)
def float32_pi(*args):
    """Float64 arithmetic whose whole turns are those of a float32 pi."""
    turn = 2 * np.float64(np.float32(np.pi))
    w = 10000.0 ** (-np.arange(0, 64, 2) / 64)
    a = args[-1][..., None] * w
    a = a - turn * np.rint(a / turn)
    if len(args) == 1:
        return np.cos(a), np.sin(a)
    return turn_half(args[0], a[:, None] if a.ndim == 3 else a)


@also_wrong("position-range", encoding=rope(64))
def nothing_left_of_the_origin(x, positions):
    """Negative positions are clamped to 0."""
    return turn_half(x, phase(np.maximum(positions, 0), inv_freq(64)))


@also_wrong("position-range", encoding=rope(64, "interleaved"))
def nothing_between_whole_positions(x, positions):
    """Fractional positions are truncated."""
    return turn_pairs(x, phase(np.trunc(positions), inv_freq(64)))


@also_wrong("not-a-rotation", encoding=rope(2, "interleaved"))
def reflects_its_only_pair(x, positions):
    """Both rows of the pair have the sine with a plus."""
    a = phase(positions, np.ones(1, np.float32))
    u, v = x[..., :1], x[..., 1:]
    return np.concatenate([u * np.cos(a) + v * np.sin(a), v * np.cos(a) + u * np.sin(a)], axis=-1)


@also_wrong(
    "output-layout",
    encoding=rope(32, output_layout="interleaved"),
    thread="vllm-project/vllm#26995",
)
def writes_where_it_read(x, positions):
    """Half-split pairs come out half-split."""
    return turn_half(x, phase(positions, inv_freq(32)))


def _vjp(encoding, codes, name, dx):
    also_wrong(*codes, surface="apply_vjp", encoding=encoding, name=name)(dx)


def _inverse(x, positions, dy):
    """The inverse for the gradient: divided by m."""
    low, high = (64 * math.log(4096 / (r * 2 * math.pi)) / 2 / math.log(150000.0) for r in (32, 1))
    ramp = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    w = inv_freq(64, 150000.0) * (1 - ramp + ramp / 32)
    return turn_half(dy, phase(positions, -w)) / (0.1 * math.log(32.0) + 1)


def _forward(x, positions, dy):
    """The forward rotation for the gradient, without the output's layout."""
    return turn_pairs(dy, phase(positions, inv_freq(16)))


GPT_OSS = rope(
    64,
    base=150000.0,
    scaling=schedule("YaRN", factor=32.0, original_max_position=4096, truncate=False),
)
_vjp(GPT_OSS, ("amplitude",), "gradient-by-the-inverse", _inverse)
_vjp(rope(16, "interleaved", output_layout="half"), ("sign",), "gradient-by-the-forward", _forward)

# Frequencies whose scaling was dropped.
_YARN = {"factor": 16.0, "original_max_position": 8192}
_SPLIT = {"factor": 40.0, "original_max_position": 4096, "mscale": 1.0, "mscale_all_dim": 0.5}
_LISTS = {"short_factor": SHORT, "long_factor": LONG, "original_max_position": 4096}
_STEP = {"low_freq_factor": 2.0, "high_freq_factor": 2.0, "original_max_position": 8192}
SCALED = {
    "by-parts": rope(128, scaling=schedule("NTKByParts", factor=4.0, original_max_position=2048)),
    "su": rope(64, scaling=schedule("SuNTK", factor=8.0)),
    "su-mixed": rope(64, scaling=schedule("SuNTK", factor=8.0, power=0.625)),
    "static-dynamic-ntk": rope(
        128, scaling=schedule("DynamicNTK", factor=2.0, max_position=4096, policy="static")
    ),
    "qwen-yarn": rope(
        128, base=1e6, scaling=schedule("YaRN", factor=4.0, original_max_position=32768)
    ),
    "split-mscale": rope(64, "interleaved", scaling=schedule("YaRN", **_SPLIT)),
    "geometric-yarn": rope(
        64, base=208533496.0, scaling=schedule("YaRN", blend="geometric", **_YARN)
    ),
    "llama3-step": rope(128, base=5e5, scaling=schedule("Llama3Scaling", factor=8.0, **_STEP)),
    "long-list": rope(
        96, scaling=schedule("LongRoPE", **_LISTS, attention_factor=[1.0, 1.25], policy="long")
    ),
    "learned-frequencies": rope(
        8, scaling=schedule("GivenFrequencies", frequencies=[1.25, 0.375, 0.0625, -0.03125])
    ),
}


def _without_scaling(encoding):
    def frequencies():
        """The plain frequencies."""
        return inv_freq(encoding["head_dim"], encoding.get("base", 10000.0))

    return frequencies


for _name, _encoding in SCALED.items():
    also_wrong(
        "scaling-missing",
        surface="frequencies",
        encoding=_encoding,
        name=f"{_name}-dropped",
    )(_without_scaling(_encoding))


def _ntk(alpha, dim=64, base=10000.0):
    return inv_freq(dim, base * alpha ** (dim / (dim - 2)))


QWEN = rope(64, scaling=schedule("QwenNTK", train_length=2048))


@also_wrong("scaling-formula", surface="frequencies", encoding=QWEN)
def qwen_steps_rounded_down(seq_len):
    """floor(log2(L / L0) + 1) where the step is rounded up."""
    return _ntk(2.0 ** math.floor(math.log2(max(seq_len / 2048, 1)) + 1) - 1)


@also_wrong("scaling-formula", surface="frequencies", encoding=QWEN)
def qwen_steps_one_token_early(seq_len):
    """alpha grows at each multiple instead of past it, and is 3 from the start."""
    return _ntk(2.0 ** (math.floor(math.log2(max(seq_len / 2048, 1))) + 2) - 1)


@also_wrong(
    "scaling-formula",
    surface="frequencies",
    encoding=rope(64, scaling=schedule("DynamicNTK", factor=4.0, max_position=2048)),
)
def dynamic_ntk_by_the_ratio_alone(seq_len):
    """alpha = L / max_position, the factor left out."""
    return _ntk(max(seq_len, 2048) / 2048)


@also_wrong(
    "scaling-parameter",
    encoding=rope(
        96,
        base=1e6,
        scaling=schedule(
            "LongRoPE",
            short_factor=SHORT,
            long_factor=LONG,
            original_max_position=3000,
            attention_factor=1.24,
        ),
    ),
)
def longrope_switches_at_4096(x, positions):
    """The switch of another model."""
    chosen = LONG if np.max(positions) >= 4096 else SHORT
    return 1.24 * turn_half(x, phase(positions, inv_freq(96, 1e6) / np.float32(chosen)))


@also_wrong(
    "scaling-missing",
    encoding=rope(32, scaling=schedule("Proportional", fraction=0.75, factor=8.0)),
)
def proportional_without_its_factor(x, positions):
    """The first twelve pairs turn at full speed."""
    w = inv_freq(32)
    w[12:] = 0
    return turn_half(x, phase(positions, w))


@also_wrong(
    "base",
    encoding=multi_axis(16, (4, 4), spacing="restart", base=[100.0, 10000.0]),
)
def one_base_for_both_axes(x, positions):
    """The base of the second axis for both."""
    w = inv_freq(8)
    a = np.concatenate([positions[axis][..., None] * w for axis in (0, 1)], axis=-1)
    return turn_half(x, a[:, None].astype(np.float32))


# The weights of the declared RoPE-Mixed are read from the vectors, like a checkpoint.
def _mixed(weight):
    def last_axis_only(x, positions):
        """Each pair follows the axis with the larger weight."""
        axis = np.argmax(np.abs(weight), axis=0)
        p = np.moveaxis(positions[axis], 0, -1)
        w = np.take_along_axis(weight, axis[None], axis=0)[0]
        return turn_pairs(x, (p * w)[:, None].astype(np.float32))

    return last_axis_only


def declared(ident):
    """A vector of the group: what its encoding is, learned numbers included."""
    return next(c for c in load_vectors() if c.group == ident)


_case = declared("rope-mixed-16")
also_wrong(
    "not-a-rotation",
    encoding=_case.declared,
    name="one-axis-for-each-pair-of-a-mixed-rope",
)(_mixed(_case.encoding.weight))


# --- xPos ----------------------------------------------------------------------------------------


def xpos(layout, power, gamma=0.4):
    """xPos with a power of zeta that may be wrong."""

    def apply(x, positions):
        """The decay of queries and keys is not the declared one."""
        turn = turn_half if layout == "half" else turn_pairs
        zeta = (np.arange(0, 16, 2) / 16 + gamma) / (1 + gamma)
        size = zeta ** (power * np.asarray(positions)[:, None] / 512)
        size = np.tile(size, 2) if layout == "half" else np.repeat(size, 2, axis=-1)
        return turn(x, phase(positions, inv_freq(16))) * size.astype(np.float32)

    return apply


OTHER = {"half": "interleaved", "interleaved": "half"}
for _layout, _other in OTHER.items():
    _xpos = {"encoding": "XPos", "head_dim": 16, "layout": _layout}
    for _kind, _power in (("queries", -1), ("keys", 1)):
        for _bug, _code, _fn in (
            ("the-other-way-round", "amplitude", xpos(_layout, _power)),
            ("in-other-pairs", "layout", xpos(_other, -_power)),
        ):
            also_wrong(
                _code,
                surface=f"apply_{_kind}",
                encoding=_xpos,
                name=f"xpos-{_layout}-{_kind}-{_bug}",
            )(_fn)


def _plain_scores(turn, w, scale=1.0):
    def logits(q, k):
        """Rotated products with a scale, or a decay, that is not the declared one."""
        at = np.arange(q.shape[2])
        q, k = (turn(x, phase(at, w)) for x in (q, k))
        return (np.float32(scale) * (q @ np.swapaxes(k, -1, -2))).astype(np.float32)

    return logits


_xpos = {"encoding": "XPos", "head_dim": 16, "layout": "interleaved"}
_centred = {
    "encoding": "XPos", "head_dim": 16, "layout": "half", "base": 5e5, "scale_base": 64.0,
    "gamma": 0.25, "centre": 10.0,
}  # fmt: skip
_yarn = schedule("YaRN", factor=4.0, original_max_position=32, attention_factor=1.5)
LOGITS = {
    "xpos-without-decay": (_xpos, _plain_scores(turn_pairs, inv_freq(16), 0.25)),
    "centred-xpos-without-decay": (_centred, _plain_scores(turn_half, inv_freq(16, 5e5), 0.25)),
    "logits-without-scale": (
        rope(16, "interleaved"),
        _plain_scores(turn_pairs, inv_freq(16)),
    ),
    "logits-with-m-once": (
        rope(16, scaling=_yarn),
        _plain_scores(turn_half, inv_freq(16), 0.25 * 1.5),
    ),
    "logits-of-the-whole-head-rotated": (
        rope(16, rotary_dim=8),
        _plain_scores(turn_half, inv_freq(16), 0.25),
    ),
}
for _name, (_encoding, _fn) in LOGITS.items():
    also_wrong("amplitude", surface="scores", encoding=_encoding, name=_name)(_fn)  # fmt: skip
