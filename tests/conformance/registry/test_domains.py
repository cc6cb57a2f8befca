"""Every encoding refuses positions, sizes and numbers outside its domain, in documented words."""

import dataclasses
import functools
import time

import numpy as np
import pytest

import posenc_ref
import posenc_ref.backends
from posenc_ref import from_dict
from posenc_ref.conformance.registry import entries, entry_of
from tests.night import by_day

FIRST = [next(iter(entry.examples)) for entry in entries()]
EXAMPLES = by_day([name for entry in entries() for name in entry.examples], FIRST)
MATRIX, MASKED = np.array([[0.0, 1.0]]).view(np.matrix), np.ma.MaskedArray([0, 1], [False, True])
#: Positions that every encoding refuses, with a part of the message; encodings that look numbers
#: up may refuse the dtype first.
BAD = {
    "NaN": (np.array([0.0, np.nan]), "finite"),
    "infinite": (np.array([0.0, -np.inf]), "finite"),
    "far": (np.array([0.0, 2.0**41]), "at most"),
    "far integers": (np.array([0, 2**41]), "at most"),
    "lowest integer": (np.array([0, -(2**63)]), "at most"),
    "largest unsigned": (np.array([0, 2**64 - 1], np.uint64), "at most"),
    "half precision": (np.array([0.0, 1.0], np.float16), "float16"),
    "long double": (np.array([0, 1], np.longdouble), "float128"),
    "complex": (np.array([0j, 1]), "complex128"),
    "words": (np.array(["a", "b"]), "dtype"),
    "booleans": (np.array([True, False]), "bool"),
    "a boolean": (True, "boolean"),
    "objects": (np.array([0, 1], object), "object"),
    "dates": (np.array([0, 1], "datetime64[s]"), "datetime64"),
    "records": (np.zeros(2, [("a", "i4")]), "void"),
    "nothing": (None, "NoneType"),
    "text": ("01", "str"),
    "a set": ({0, 1}, "set"),
    "a generator": ((i for i in range(2)), "generator"),
    "ragged": ([[0], [0, 1]], "equal length"),
    "long integer": ([0, 10**400], "object"),
    "long range": (range(2**40), "at most"),
    "far range": (range(0, 2**70, 2**69), "at most"),
    "very far range": (range(0, 2 * 10**400, 10**400), "many digits"),
    "broadcast": (np.broadcast_to(np.int64(1), (2**40,)), "at most 2147483648 positions"),
    "matrix": (MATRIX, "matrix: pass np.asarray(it)"),
    "masked": (MASKED, "MaskedArray: pass its filled(value)"),
}


def stacked(positions, axes):
    """The same positions on every axis, where they are a small array."""
    plain = type(positions) is np.ndarray and positions.size < 9 and axes > 1
    return np.stack([positions] * axes) if plain else positions


def calls(entry, name):
    """The ways to give an example positions for two tokens."""
    e, inputs = entry.examples[name], entry.group(name).cases[0].inputs
    good = np.arange(2)
    if e.family == "table":
        return [lambda bad: e.table(stacked(bad, e.num_axes))]
    if e.family == "rotary":
        x = inputs["x"][:, :, :2]
        return [lambda bad: getattr(e, entry.surface)(x, stacked(bad, e.num_axes))]
    if e.family == "bias":
        fn = e.bias
    else:
        q, k = (inputs[side][:, :, :2] for side in "qk")
        fn = functools.partial(posenc_ref.scores, e, q, k)
    return [lambda bad: fn(bad, good), lambda bad: fn(good, bad)]


@functools.cache
def entry_with(name):
    return next(entry for entry in entries() if name in entry.examples)


def refusal(fn, *arguments):
    """What a TypeError or ValueError of ``fn`` says, an empty string where there is none."""
    try:
        fn(*arguments)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", EXAMPLES)
def test_bad_positions_are_refused(name):
    entry = entry_with(name)
    integers = entry.examples[name].integers if entry.encoding.family != "rotary" else False
    for what, (bad, said) in BAD.items():
        for call in calls(entry, name):
            problem = refusal(call, bad)
            assert problem, f"{what} is accepted"
            assert said in problem or (integers and "must be integers" in problem), problem
            assert "positions" in problem, problem


#: What limits the positions of encodings that have a limit.
LIMITS = ("rows", "tokens")


@pytest.mark.parametrize("name", EXAMPLES)
def test_tokens_outside_a_finite_table_are_refused(name):
    entry = entry_with(name)
    e = entry.examples[name]
    count = next((n for limit in LIMITS if (n := getattr(e, limit, None)) is not None), None)
    if count is None or getattr(e, "num_axes", 1) > 1:
        assert entry.encoding.__name__ not in ("DecomposedRelative", "SwinBias", "TUPE")
        return
    first = getattr(e, "offset", 0)
    for call in calls(entry, name):
        call(np.array([0, count - first - 1]))
        for outside in (-first - 1, count - first):
            problem = refusal(call, np.array([0, outside]))
            assert "positions" in problem, (outside, problem)


SIZES = (0, -1, True, 2.0, "2", None, 2**17, 2**64, 10**400)
NUMBERS = (np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, 10**400, "1", True, np.array(1.0))


def altered(e):
    """Yield each numeric field of an encoding with numbers that it might refuse."""
    for field in dataclasses.fields(e):
        old = getattr(e, field.name)
        if isinstance(old, bool) or not isinstance(old, int | float):
            continue
        for value in SIZES if isinstance(old, int) else NUMBERS:
            yield field.name, value


def used(e):
    """Values of the encoding at three positions."""
    at = np.arange(3)
    if e.family == "rotary":
        at = at if e.num_axes == 1 else np.stack([at] * e.num_axes)
        x = np.ones((1, 3, e.head_dim), np.float32)
        return getattr(e, entry_of(e).surface)(x, at)
    if e.family == "table":
        return e.table(at if e.num_axes == 1 else np.stack([at] * e.num_axes))
    return e.bias(at, at) if e.family == "bias" else np.zeros(1)


@pytest.mark.parametrize("name", EXAMPLES)
def test_numbers_outside_a_domain_are_refused_at_once_or_work(name):
    """Nothing hangs, overflows to infinity, or is accepted and then fails with another error."""
    e = entry_with(name).examples[name]
    lookup = getattr(e, "rows", getattr(e, "tokens", None)) is not None
    for field, value in altered(e):
        began = time.process_time()
        try:
            other = e.replace(**{field: value})
        except (TypeError, ValueError) as error:
            refused = str(error)
        else:
            refused = ""
        assert time.process_time() - began < 2, (field, value)
        if refused:
            assert field in refused or "frequenc" in refused, refused
            continue
        assert from_dict(other.to_dict()) == other
        with np.errstate(over="raise", invalid="raise"):
            problem = refusal(used, other)
        # Three positions may lie outside a table that another offset moves.
        assert not problem or (lookup and "must lie in" in problem), (field, value, problem)
        assert problem or np.isfinite(used(other)).all(), (field, value)


def test_far_offsets_and_scales_are_refused_when_an_encoding_is_made():
    weight = np.ones((3, 2))
    for make, said in (
        (lambda: posenc_ref.Learned(weight, offset=2**64), "offset must be at most 1099511627776"),
        (lambda: posenc_ref.Learned(weight, offset=-(2**41)), "offset must be at most"),
        (lambda: posenc_ref.FourierFeatures(
            weight, unit="turn", include_input=False, position_scale=1.7e308),
         "matrix and position_scale must give frequencies of at most"),
        (lambda: posenc_ref.ALiBi(2**40), "num_heads must be at most 65536, got 1099511627776"),
        (lambda: posenc_ref.RoPE(2**40, layout="half"), "head_dim must be at most 65536"),
        (lambda: posenc_ref.PoPE(8, base=0.5), "base must be greater than 1, got 0.5"),
        (lambda: posenc_ref.ALiBi(-(10**400)), "num_heads must be at least 1, got an integer of"),
    ):  # fmt: skip
        problem = refusal(make)
        assert said in problem, problem


def test_the_domain_of_a_mixed_rotation_follows_each_axis():
    """The sum of the frequencies of two axes may be 0 although both turn fast."""
    mixed = posenc_ref.MixedRoPE(2, np.array([[2.0**20], [-(2.0**20)]]), layout="half")
    at = np.array([[2.0**30], [0.0]])
    assert "positions must be finite and at most 1048576" in refusal(mixed.cos_sin, at)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda b: b.bias(range(2**20), range(2**20)), "the bias must have at most 4294967296"),
        (lambda b: b.toeplitz(2**40, 2**40), "the bias of each offset must have at most"),
        (lambda b: b.toeplitz(-1, 4), "q_len must be at least 1, got -1"),
        (lambda b: b.toeplitz(True, 4), "q_len must be an integer, got True"),
        (lambda b: b.toeplitz(4, 2.0), "k_len must be an integer, got 2.0"),
        (lambda b: posenc_ref.backends.fused(b)(2**40, 2**40), "must have at most 4294967296"),
        (lambda b: posenc_ref.backends.fused(b)(2**70, 1), "q_len must be at most"),
        (lambda b: b.scores(*[np.broadcast_to(np.float32(0), (8, 2**18, 4))] * 2, [0], [0]),
         "the logits must have at most 4294967296 elements, got shape (8, 262144, 262144)"),
    ],
)  # fmt: skip
def test_lengths_are_bounded_before_memory_is_taken(call, said):
    problem = refusal(call, posenc_ref.ALiBi(8))
    assert said in problem, problem


X = np.ones((1, 4), np.float32)
UNLIKE = [X.view(np.matrix), np.ma.MaskedArray(X, np.zeros(X.shape, bool))]


@pytest.mark.parametrize("x", UNLIKE, ids=["matrix", "masked"])
def test_matrices_and_masked_arrays_are_refused(x):
    """Their ``*`` and their missing elements mean something else."""
    rope = posenc_ref.RoPE(4, layout="half")
    fused = posenc_ref.backends.fused(rope)
    for call in (
        lambda: rope.apply(x, [1]),
        lambda: rope.inverse(x, [1]),
        lambda: fused(x, [1]),
        lambda: fused(X, [1], out=x),
        lambda: fused.prepare([1], like=x),
        lambda: fused.prepare([1], like=X)(x),
        lambda: posenc_ref.Sinusoidal(4).add(x, [1]),
        lambda: posenc_ref.Learned(x.astype(np.float64)),
        lambda: posenc_ref.scores(rope, x, x, [1], [1]),
    ):
        problem = refusal(call)
        assert problem, "accepted"
        assert type(x).__name__ in problem or "must be a NumPy array" in problem, problem
