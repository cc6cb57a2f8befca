"""Values that accepted calls must give, from 50-digit arithmetic or loops written here."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np

import posenc_ref as pr
from posenc_ref._namespace import dtype_name, is_array
from posenc_ref.accuracy import BUDGET, budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath
from posenc_ref.conformance.registry import entry_of

#: The most elements that are computed again in 50 digits.
MOST = 200


def host(array):
    """Return an array of any library as NumPy; bfloat16 as float32."""
    if type(array).__module__.startswith("torch"):
        array = array.detach()
        return (array.float() if dtype_name(array) == "bfloat16" else array).numpy()
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def constructed(given, e):
    """Require that an instance equals what its JSON form and its own copy give."""
    assert pr.from_dict(e.to_dict()) == e, "the JSON form gives another value"
    assert e.replace() == e, "a copy differs"


def method(given, found):
    """Compare the main method of a registered encoding with its formula in 50 digits."""
    e, values, out = found
    entry = entry_of(e) if isinstance(e, pr.Encoding) else None
    if entry is None:
        return
    if given["call"] == entry.surface and is_array(out):
        if not ("scale" in values and values["scale"] is not None):
            compare(entry, e, values, out, dtype_name(out))
    elif given["call"] == "frequencies" and e.family == "rotary" and len(out) <= 64:
        frequencies(entry, e, values.get("seq_len"), out)


def fast(given, found):
    """Compare a fast path with the formula in 50 digits."""
    e, values, out = found
    entry = entry_of(e)
    if entry is None or given["call"] != "__call__" or not is_array(out):
        return
    if given["with"].get("tensor_layout", "bhsd") == "bhsd":
        compare(entry, e, values, out, dtype_name(out))


def frequencies(entry, e, seq_len, out):
    """Require frequencies that are right to the last bit."""
    with mpmath().mp.workdps(DIGITS):
        want = entry.exact(e, seq_len)
        assert len(want) == len(out), f"{len(out)} frequencies of {len(want)}"
        for k, (weights, actual) in enumerate(zip(want, out.tolist(), strict=True)):
            if len(weights) != 1 or hasattr(e, "weight"):
                return
            (exact,) = weights.values()
            assert abs(exact - actual) <= abs(exact) * 2.0**-52 + 5e-324, (e, k, actual)


def compare(entry, e, values, out, dtype):
    """Require the values of the formula, within the error budget of the dtype."""
    actual = host(out)
    if dtype not in BUDGET or actual.size > MOST or not actual.size:
        return
    inputs = inputs_of(e, values, actual)
    if inputs is None:
        return
    if not all(np.isfinite(v).all() for v in (*inputs.values(), *learned(e))):
        return
    e = on_host(e)
    with np.errstate(all="ignore"):
        truth = entry.truth(e, inputs).output()
    if e.family == "rotary":
        actual = actual.reshape(inputs["x"].shape)
    assert truth.shape == actual.shape, f"{e!r}: shape {actual.shape} instead of {truth.shape}"
    with np.errstate(all="ignore"):
        score = truth.score(actual, dtype)
    sizes, tiny = np.abs(truth.hi), {"float64": 1e-300, "float16": 6e-5}.get(dtype, 1e-37)
    if sizes.max(initial=0.0) > 60_000 or ((sizes > 0) & (sizes < tiny)).any():
        return  # outside the normal numbers of some dtype; a judge gives no verdict either
    assert score <= budget(dtype), f"{e!r}: off by {score:.3g} units of rounding"


def learned(value):
    """Return the arrays of an encoding, of its parts and of its tuples, as NumPy."""
    if isinstance(value, pr.encoding.Value):
        value = tuple(getattr(value, f.name) for f in dataclasses.fields(value))
    if isinstance(value, tuple):
        return [array for inner in value for array in learned(inner)]
    return [host(value)] if is_array(value) else []


def on_host(e):
    """Return an encoding with its arrays as NumPy's."""
    fields = {f.name: getattr(e, f.name) for f in dataclasses.fields(e)}
    found = {k: host(v) for k, v in fields.items() if is_array(v)}
    for k, v in fields.items():
        if isinstance(v, tuple) and all(map(is_array, v)):
            found[k] = tuple(map(host, v))
    return e.replace(**found)


def inputs_of(e, values, actual):
    """Return the arrays of a call as the formula takes them, or None for a form it does not."""
    values = {k: host(v) if k in ("positions", "x", "q", "k", "q_positions", "k_positions")
              else v for k, v in values.items()}  # fmt: skip
    if "q_len" in values:
        found = {k: int(values[k]) for k in ("q_len", "k_len")}
        return found if found["q_len"] <= found["k_len"] else None
    if e.family == "rotary":
        at, x = values["positions"], values["x"]
        if values.get("seq_len") is not None and e.depends_on_length:
            return None
        if at.ndim != (1 if e.num_axes == 1 else 2) or x.ndim > 4 or at.shape[-1] != x.shape[-2]:
            return None
        x = x.astype(np.float64).reshape((1,) * (4 - x.ndim) + x.shape)
        return {"x": x, "positions": at[:, None] if e.num_axes > 1 else at}
    if e.family == "table":
        at = values["positions"]
        return {"positions": at} if at.ndim == (1 if e.num_axes == 1 else 2) else None
    if not {"q_positions", "k_positions"} <= set(values):
        return None
    at = {k: values[k] for k in ("q_positions", "k_positions")}
    if any(v.ndim != 1 for v in at.values()):
        return None
    if e.family == "bias":
        own = set(at["q_positions"].tolist()) <= set(at["k_positions"].tolist())
        return at if own or not e.up_to_constant else None
    counts = [at[f"{side}_positions"].tolist() for side in "qk"]
    in_order = counts[1] == [*range(len(counts[1]))] and counts[0] == counts[1][-len(counts[0]) :]
    if e.mixes_queries and not in_order:
        return None  # its formula counts the tokens of one sequence
    q, k = (values[side].astype(np.float64) for side in "qk")
    return {**at, "q": q, "k": k} if q.ndim == 4 and actual.ndim == 4 else None


# --- functions -----------------------------------------------------------------------------------


def function(given, found):
    """Compare the result of a function with a loop, where there is one."""
    values, out = found
    check = FUNCTIONS.get(given["call"])
    rounded = is_array(out) and dtype_name(out) == "bfloat16" and check is relative_scores
    if check is not None and not rounded:  # which NumPy shows as float32
        known = {k: host(v) if is_array(v) else v for k, v in values.items()}
        check(host(out) if is_array(out) else out, **known)


def _same(actual, want):
    assert np.array_equal(actual, np.array(want, dtype=actual.dtype).reshape(actual.shape)), (
        f"{np.asarray(actual).tolist()} instead of {want}"[:300]
    )


def _channel(layout, pairs, k, part, start):
    """Return the channel of part 0 or 1 of pair k."""
    return start + (2 * k + part if layout == "interleaved" else k + part * pairs)


def _moves(head_dim, source, target, rotary_dim, rotary_start):
    """Return the old channel of every new channel."""
    rotated = head_dim - rotary_start if rotary_dim is None else rotary_dim
    found = list(range(head_dim))
    for k in range(rotated // 2):
        for part in (0, 1):
            new = _channel(target, rotated // 2, k, part, rotary_start)
            found[new] = _channel(source, rotated // 2, k, part, rotary_start)
    return found


def layout_permutation(out, head_dim, source, target, rotary_dim=None, rotary_start=0):
    """Require the old channel of every new one."""
    _same(out, _moves(head_dim, source, target, rotary_dim, rotary_start))


def convert_layout(out, x, source, target, rotary_dim=None, rotary_start=0):
    """Require each channel in its place."""
    moved = _moves(x.shape[-1], source, target, rotary_dim, rotary_start)
    assert out.shape == x.shape
    for new, old in enumerate(moved):
        assert np.array_equal(out[..., new], x[..., old], equal_nan=x.dtype.kind in "fcmM"), new


def permute_weights(out, w, n_heads, source="half", target="interleaved", head_dim=None,
                    rotary_dim=None, rotary_start=0):  # fmt: skip
    """Require each row of each head in its place."""
    size = w.shape[0] // n_heads
    moved = _moves(size, source, target, rotary_dim, rotary_start)
    assert out.shape == w.shape
    for row in range(w.shape[0]):
        old = row // size * size + moved[row % size]
        assert np.array_equal(out[row], w[old], equal_nan=w.dtype.kind in "fcmM"), row


def packed(out, lengths):
    """Count the tokens of each document."""
    lengths = np.asarray(lengths).reshape(-1).tolist()
    if sum(lengths) <= 10_000:
        _same(out, [p for n in lengths for p in range(n)])


def position_ids(out, attention_mask, padding=0):
    """Count the real tokens of each row."""
    mask = np.asarray(attention_mask)
    if not mask.size:
        return
    for row, found in zip(mask.reshape(-1, mask.shape[-1]), out.reshape(-1, mask.shape[-1]),
                          strict=True):  # fmt: skip
        seen = 0
        for real, position in zip(row.tolist(), found.tolist(), strict=True):
            assert position == (seen if real else padding), (mask.tolist(), out.tolist())
            seen += bool(real)


def decode_positions(out, prompt_len, n_steps):
    """Count on from each prompt's length."""
    starts = np.asarray(prompt_len).tolist()
    if out.size <= 10_000:
        rows = [starts] if not isinstance(starts, list) else starts
        _same(out, [start + i for start in rows for i in range(n_steps)])


def _shard(cu_seqlens, cp_size, cp_rank):
    """Yield the index and position of every token of a rank."""
    cu = np.asarray(cu_seqlens).tolist()
    for first, stop in itertools.pairwise(cu):
        n = (stop - first) // (2 * cp_size)
        for chunk in (cp_rank, 2 * cp_size - 1 - cp_rank):
            for i in range(chunk * n, (chunk + 1) * n):
                yield first + i, i


def shard_indices(out, cu_seqlens, cp_size, cp_rank):
    """Take the first and the last chunk of each rank."""
    if out.size <= 10_000:
        _same(out, [index for index, _ in _shard(cu_seqlens, cp_size, cp_rank)])


def shard_positions(out, cu_seqlens, cp_size, cp_rank):
    """Take the positions of the same tokens."""
    if out.size <= 10_000:
        _same(out, [position for _, position in _shard(cu_seqlens, cp_size, cp_rank)])


def grid_positions(out, height, width, frames=None, merge_size=1, origin=0):
    """Walk through frames, blocks and the patches of a block."""
    if out.size > 10_000:
        return
    m, want = merge_size, []
    top, left = (-(n - n // 2) if origin == "centre" else origin for n in (height, width))
    for t in range(frames or 1):
        for by in range(height // m):
            for bx in range(width // m):
                for y in range(m):
                    for x in range(m):
                        at = (by * m + y + top, bx * m + x + left)
                        want.append(at if frames is None else (t, *at))
    _same(out, [list(axis) for axis in zip(*want, strict=True)])


def _close(actual, want):
    for a, w in zip(np.asarray(actual).ravel().tolist(), want, strict=True):
        assert abs(Fraction(a) - w) <= abs(w) * Fraction(1, 2**50) + Fraction(1, 2**1000), (a, w)


def linspace_positions(out, height, width, stop, start=(0.0, 0.0), frames=None):
    """Divide the area in rational numbers."""
    if out.size > 10_000:
        return
    rows = [(y, x) for _ in range(frames or 1) for y in range(height) for x in range(width)]
    out = out if frames is None else out[1:]
    for axis, n in enumerate((height, width)):
        a, b = Fraction(float(start[axis])), Fraction(float(stop[axis]))
        want = [a + row[axis] * (b - a) / n for row in rows]
        scale = max(abs(a), abs(b))
        for got, w in zip(out[axis].tolist(), want, strict=True):
            # 2**-1074 is the smallest number of float64.
            bound = max(scale * Fraction(1, 2**50), Fraction(1, 2**1074))
            assert abs(Fraction(got) - w) <= bound, (got, float(w))


def patch_centres(out, height, width):
    """Divide -1 to 1 in rational numbers."""
    if out.size > 10_000:
        return
    rows = [(y, x) for y in range(height) for x in range(width)]
    for axis, n in enumerate((height, width)):
        for got, row in zip(out[axis].tolist(), rows, strict=True):
            assert abs(Fraction(got) - (Fraction(2 * row[axis] + 1, n) - 1)) < Fraction(1, 2**50)


def relative_index(out, window):
    """Number the pairs of tokens by their offsets."""
    h, w = (window, window) if isinstance(window, int) else (int(n) for n in window)
    if h * w <= 100:
        _same(out, [(i // w - j // w + h - 1) * (2 * w - 1) + i % w - j % w + w - 1
                    for i in range(h * w) for j in range(h * w)])  # fmt: skip


def relative_shift(out, x):
    """Look every distance up."""
    rows, keys = x.shape[-2:]
    for i in range(rows):
        for j in range(keys):
            seen = j <= keys - rows + i
            want = x[..., i, rows - 1 - i + j] if seen else np.zeros_like(x[..., i, j])
            assert np.array_equal(out[..., i, j], want, equal_nan=True), (i, j)


def relative_scores(out, q, rel):
    """Sum the products exactly."""
    s = q.shape[-2]
    if not (np.isfinite(q).all() and np.isfinite(rel).all()) or out.size > MOST:
        return
    eps = float(np.finfo(out.dtype).eps) if out.dtype.kind == "f" else 2.0**-7
    for at in np.ndindex(*out.shape):
        i, j = at[-2:]
        products = [float(a) * float(b) for a, b in zip(q[(*at[:-2], i)], rel[s - 1 - (i - j)],
                                                        strict=True)]  # fmt: skip
        want, size = math.fsum(products), math.fsum(map(abs, products))
        if size < 60_000:
            assert abs(float(out[at]) - want) <= eps * size + 1e-7, (at, out[at], want)


def resize_matrix(out, size, new_size, **how):
    """Require weights that sum to 1."""
    assert out.shape == (new_size, size)
    assert np.abs(out.sum(axis=1) - 1).max() < 1e-9 * size, "weights do not sum to 1"


def rope_layers(out, num_layers, no_rope_layers=None, no_rope_layer_interval=None,
                layer_rope_theta=None):  # fmt: skip
    """Follow the entry that is given."""
    for i, uses in enumerate(out):
        if no_rope_layers is not None:
            assert uses == bool(no_rope_layers[i])
        elif layer_rope_theta is not None:
            assert uses == bool(layer_rope_theta[i])
        else:
            assert uses == ((i + 1) % no_rope_layer_interval != 0)
    assert len(out) == num_layers


def with_unplaced(out, positions, before=0, after=0):
    """Add zeros on both sides."""
    at = np.asarray(positions)
    assert out.shape == (at.shape[0], before + at.shape[1] + after)
    if out.size < 10_000:
        for row, old in zip(out.tolist(), at.tolist(), strict=True):
            want = [0] * before + old + [0] * after
            assert repr(row) == repr([type(row[0])(v) for v in want]), (row, want)


FUNCTIONS = {
    f.__name__: f
    for f in (
        layout_permutation, convert_layout, permute_weights, packed, position_ids,
        decode_positions, shard_indices, shard_positions, grid_positions, linspace_positions,
        patch_centres, relative_index, relative_shift, relative_scores, resize_matrix,
        rope_layers, with_unplaced,
    )
}  # fmt: skip
