"""compare: tables, biases, logits and functions of other surfaces."""

import numpy as np
import pytest

from posenc_ref.conformance import Implementation, compare
from tests.conformance.handwritten import inv_freq, rope, sinusoid
from tests.night import by_day

DIM = 8
RANDOM = np.random.default_rng(6)
ROWS = RANDOM.normal(size=(512, DIM)).astype(np.float32)
OTHER_ROWS = ROWS.copy()
OTHER_ROWS[300, 3] += 0.01
BIAS = RANDOM.normal(size=(3, 8192)).astype(np.float32)
SLOPES = RANDOM.uniform(0.1, 1, 64).astype(np.float32)


def cos_sin(base=10000.0, copies=None, sign=1, frequencies=None):
    def fn(p):
        w = inv_freq(2 * DIM, base) if frequencies is None else frequencies
        angle = np.asarray(p, np.float32)[:, None] * w.astype(np.float32)
        tables = np.cos(angle), sign * np.sin(angle)
        if copies == "half":
            return tuple(np.tile(t, 2) for t in tables)
        return tables if copies is None else tuple(np.repeat(t, 2, axis=-1) for t in tables)

    return fn


def bias(step=0.0, row=0.0, masked=False):
    """A random number for every distance, in three heads; up to 4096 keys."""

    def fn(q_len, k_len):
        if k_len > 4096:
            raise ValueError("at most 4096 keys")
        at = np.arange(k_len - q_len, k_len)[:, None]
        distance = np.arange(k_len) - at
        found = BIAS[:, distance + 4096] + step * (distance == -7) + row * at
        return np.where(masked & (distance > 0), -np.inf, found).astype(np.float32)

    return fn


def alibi(power=8.0, heads=4):
    slopes = 2.0 ** (-power * np.arange(1, heads + 1) / heads)

    def fn(q_len, k_len):
        distance = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
        return (-slopes[:, None, None] * np.abs(distance)).astype(np.float32)

    return fn


def logits(turn, scale=1.0):
    def fn(q, k):
        n_q, n = q.shape[2], k.shape[2]
        q, k = turn(q, np.arange(n - n_q, n)), turn(k, np.arange(n))
        return (q @ np.swapaxes(k, -1, -2) * np.float32(scale * DIM**-0.5)).astype(q.dtype)

    return fn


#: A name, the surface, A and B, the expected codes, and the beginning of the result.
CASES = {
    "cos and sin": ("cos_sin", cos_sin(), cos_sin(), [], "tensors agree (bit for bit"),
    "base": ("cos_sin", cos_sin(500000.0), cos_sin(), ["base"], "tensors differ, visibly"),
    "sine": ("cos_sin", cos_sin(sign=-1), cos_sin(), ["sign"], "tensors differ, visibly"),
    "copies": (
        "cos_sin", cos_sin(copies="interleaved"), cos_sin(copies="half"), ["layout"],
        "tensors differ, visibly",
    ),
    "copies against none": (
        "cos_sin", cos_sin(copies="interleaved"), cos_sin(), [], "tensors agree",
    ),
    "other widths": (
        "cos_sin", lambda p: tuple(t[:, :5] for t in cos_sin()(p)), cos_sin(), ["shape"],
        "tensors differ, or could not be compared",
    ),
    "learned angles": (
        "cos_sin", cos_sin(frequencies=SLOPES[:8]), cos_sin(frequencies=SLOPES[:8]), [],
        "tensors agree (bit for bit",
    ),
    "frequencies": ("frequencies", lambda: SLOPES[:8], lambda: SLOPES[:8], [], "tensors agree"),
    "one frequency": (
        "frequencies", lambda: SLOPES[:8] * (1 + 1e-3 * (np.arange(8) == 2)).astype(np.float32),
        lambda: SLOPES[:8], ["frequency-spacing"], "tensors differ, visibly",
    ),
    "frequencies by length": (
        "frequencies", lambda n=None: inv_freq() / np.float32(1 + ((n or 1) > 10000)),
        lambda: inv_freq(), ["inaccurate"], "tensors differ, visibly",
    ),
    "sinusoids": ("table", sinusoid(), sinusoid(), [], "tensors agree"),
    "offset": (
        "table", sinusoid(positions=lambda p: p + 2), sinusoid(), ["position-origin"],
        "tensors differ, visibly (by more than 2**-9, the rounding of 1.0 to bfloat16) "
        "first at position 0",
    ),
    "looked up": ("table", lambda p: ROWS[p], lambda p: ROWS[p], [], "tensors agree"),
    "one number": (
        "table", lambda p: OTHER_ROWS[p], lambda p: ROWS[p], ["inaccurate"], "tensors differ",
    ),
    "ALiBi": ("bias", alibi(), alibi(), [], "tensors agree"),
    "slopes of ALiBi": ("bias", alibi(4.0), alibi(), ["slopes"], "tensors differ, visibly"),
    "random bias": ("bias", bias(), bias(), [], "tensors agree (bit for bit"),
    "one distance": (
        "bias", bias(step=0.1), bias(), ["inaccurate"],
        "tensors differ, visibly (by more than 2**-9, the rounding of 1.0 to bfloat16) "
        "first at distance 7",
    ),
    "constants of rows": (
        "bias", bias(row=1.0), bias(), [],
        "tensors differ, logits agree; logits agree up to a constant for each query",
    ),
    "B masks later keys": ("bias", bias(), bias(masked=True), [], "tensors agree"),
    "A masks later keys": (
        "bias", bias(masked=True), bias(), ["future-keys"], "tensors differ in ",
    ),
    "slopes": ("slopes", lambda n: SLOPES[:n], lambda n: SLOPES[:n], [], "tensors agree"),
    "other slopes": (
        "slopes", lambda n: SLOPES[:n] * np.float32(1 + (n > 8)), lambda n: SLOPES[:n],
        ["inaccurate"], "tensors differ, visibly (by more than 2**-9, the rounding of 1.0 to "
        "bfloat16) first at number of heads 9",
    ),
    "buckets": ("bucket", lambda r: np.abs(r) // 7, lambda r: np.abs(r) // 7, [], "tensors agree"),
    "other buckets": (
        "bucket", lambda r: np.abs(r) // 8, lambda r: np.abs(r) // 7, ["inaccurate"],
        "tensors differ, visibly (by more than 2**-9, the rounding of 1.0 to bfloat16) "
        "first at distance 7",
    ),
    "logits": ("scores", logits(rope()), logits(rope()), [], "tensors agree"),
    "scale": ("scores", logits(rope(), 2.0), logits(rope()), ["softmax-scale"], "tensors differ"),
    "logits without encoding": (
        "scores", lambda q, k: np.tanh(q @ np.swapaxes(k, -1, -2)),
        lambda q, k: np.tanh(q @ np.swapaxes(k, -1, -2)), [], "tensors agree",
    ),
}  # fmt: skip


def both(fn):
    return lambda q, k, q_at, k_at: (fn(q, q_at), fn(k, k_at))


def by_offset(fn):
    return lambda x, offset: fn(x, offset[:, None] + np.arange(x.shape[2]))


def normed(fn, order=1):
    def apply(x, weight, positions):
        size = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6))
        return fn(x / size * weight, positions) if order else fn(x / size, positions) * weight

    return apply


def ids(first=0):
    return lambda mask: np.where(mask == 1, np.cumsum(mask, axis=-1) - 1 + first, 0)


#: Surfaces that identify does not know.
OTHERS = {
    "q and k": ("apply_qk", both(rope()), both(rope()), [], "tensors agree"),
    "q and k, base": (
        "apply_qk", both(rope(base=500000.0)), both(rope()), ["base"], "tensors differ, visibly",
    ),
    "keys": (
        "apply_qk", lambda q, k, p, r: (rope()(q, p), rope(layout="interleaved")(k, r)),
        both(rope()), ["layout"], "tensors differ",
    ),
    "harmless factors": (
        "apply_qk", lambda q, k, p, r: (2 * rope()(q, p), rope()(k, r) / 2), both(rope()), [],
        "tensors differ, logits agree",
    ),
    "offset of rows": (
        "apply_offset", by_offset(rope(layout="interleaved")), by_offset(rope()), ["layout"],
        "tensors differ, visibly",
    ),
    "gradient": (
        "apply_vjp", lambda x, p, dy: rope(base=500.0)(dy, -p), lambda x, p, dy: rope()(dy, -p),
        ["base"], "tensors differ, visibly",
    ),
    "norm": ("normed_apply", normed(rope()), normed(rope()), [], "tensors agree"),
    "order of the norm": (
        "normed_apply", normed(rope(), 0), normed(rope()), ["inaccurate"], "tensors differ in ",
    ),
    "rows": (
        "rows", lambda n: sinusoid()(np.arange(n) + 1), lambda n: sinusoid()(np.arange(n)),
        ["table-offset"], "tensors differ, visibly",
    ),
    "added": (
        "add", lambda x: x + 2 * ROWS[: x.shape[1]], lambda x: x + ROWS[: x.shape[1]],
        ["amplitude"], "tensors differ, visibly",
    ),
    "grid": (
        "grid", lambda h, w: ROWS[: h * w], lambda h, w: ROWS[: h * w], [], "tensors agree",
    ),
    "other grid": (
        "grid", lambda h, w: ROWS[: h * w].reshape(w, h, -1).swapaxes(0, 1).reshape(h * w, -1),
        lambda h, w: ROWS[: h * w], ["inaccurate"], "tensors differ in ",
    ),
    "positions": ("position_ids", ids(), ids(), [], "tensors agree"),
    "positions from 1": (
        "position_ids", ids(1), ids(), ["inaccurate"],
        "tensors differ in 8 of 8 calls, first in: no padding",
    ),
    "scale of logits": (
        "softmax_scale", lambda: 0.125, lambda: 0.5, ["inaccurate"], "tensors differ in 1 of 1",
    ),
}  # fmt: skip


CASES |= OTHERS
#: These take long.
NIGHT = {
    "ALiBi", "slopes of ALiBi", "logits", "scale", "base", "learned angles", "q and k",
    "q and k, base", "harmless factors", "offset of rows", "sinusoids", "rows", "cos and sin",
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(CASES, CASES.keys() - NIGHT))
def test_functions_of(name):
    surface, a, b, codes, result = CASES[name]
    near = surface in ("apply_qk", "apply_offset", "apply_vjp", "rows")
    most = 2**11 if near else None
    found = compare(a, b, surface, head_dim=DIM, names=("A", "B"), max_position=most)
    assert found.codes == codes, str(found)
    assert found.passed == (not codes)
    assert found.result.startswith(result)
    assert not (found.differs and found.agreement == "tensors agree")


@pytest.mark.nightly
def test_a_bias_of_logits_grows_with_the_context():
    found = compare(alibi(4.0), alibi(), "bias", max_position=2**12).difference
    # Head 3 has the slopes 2 ** -4 and 2 ** -8, head 0 1/2 and 1/4: the largest difference.
    assert found.errors[2**12] == (2**-1 - 2**-2) * (2**12 - 1)
    assert found.first == 1


def test_a_size_is_not_a_length():
    """A function of the size of a head is no function of the length of the sequence."""
    with pytest.raises(
        ValueError, match=r"cannot serve as the declaration: .* changes with the len"
    ):
        compare(lambda: inv_freq(), inv_freq, "frequencies")


def test_what_to_build_where_nothing_can_be_converted():
    found = compare(lambda: inv_freq(16, 500000.0), lambda: inv_freq(16), "frequencies")
    assert found.conversion == ["build the function with base=10000.0"]


def of_layout(layout, keys=1.0):
    """A rotation of queries and keys (2, 5, 5, 8), where no shape tells the layouts apart."""
    turn = rope()
    if layout == "bshd":
        turn = lambda x, p: rope()(x.swapaxes(1, 2), p).swapaxes(1, 2)  # noqa: E731
    call = lambda q, k, a, b: (turn(q, a), keys * turn(k, b))  # noqa: E731
    return Implementation(call, "apply_qk", layout, tensor_layout=layout, head_dim=DIM)


@pytest.mark.nightly
def test_tensor_layouts_of_equal_shapes():
    assert compare(of_layout("bshd"), of_layout("bhsd"), max_position=512).passed
    assert compare(of_layout("bshd", 2.0), of_layout("bhsd"), max_position=512).codes == [
        "amplitude"
    ]


@pytest.mark.nightly
def test_keys_are_compared_with_a_function_of_x():
    x = Implementation(rope(), "apply", "x", head_dim=DIM)
    assert compare(of_layout("bhsd"), x, max_position=512).passed
    for a, b in ((of_layout("bhsd", 2.0), x), (x, of_layout("bhsd", 2.0))):
        assert compare(a, b, max_position=512).codes == ["amplitude"]


def test_a_tensor_layout_needs_a_surface_that_has_them():
    with pytest.raises(ValueError, match="tensor_layout must be 'bhsd' on surface 'decode'"):
        compare(rope(), rope(), "decode", head_dim=DIM, tensor_layout=("bshd", None))


def test_one_wrong_row_of_a_long_table_changes_logits():
    """No end of a context has it."""
    long = np.tile(ROWS, (4, 1))
    other = long.copy()
    other[1300, 3] += 0.01
    found = compare(lambda p: other[p], lambda p: long[p], "table")
    assert found.agreement == "tensors differ"
    assert not found.passed
