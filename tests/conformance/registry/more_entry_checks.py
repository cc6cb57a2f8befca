"""Checks of every entry beyond its golden vectors: batches, gradients, more inputs."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest

import posenc_ref
from posenc_ref import Encoding
from posenc_ref._namespace import is_array
from posenc_ref.accuracy import budget
from posenc_ref.conformance.exact.recipe import numbers

#: Learned numbers that another method uses than the one an entry is judged by.
BY_ANOTHER_METHOD = {"ConViTBias": {"gate"}}
#: Far enough for every bucket and every end of a table of the examples.
DISTANCES = 150
#: A few more than the examples have.
HEADS = 6


# --- batches -------------------------------------------------------------------------------------


def takes_batched_positions(entry, name, e):
    """Every row of a batch is what a call with this row alone gives, and the shape is told."""
    inputs = entry.group(name).cases[0].inputs
    if e.family == "table":
        at = inputs["positions"]
        rows = [np.roll(at, b, axis=-1) for b in range(3)]
        batched, alone = e.table(np.stack(rows, axis=-2)), [e.table(row) for row in rows]
    elif e.family == "bias":
        rows = [batch_of(e, b, getattr(e, "tokens", 4)) for b in range(3)]
        batched = e.bias(*(np.stack(side) for side in zip(*rows, strict=True)))
        alone = [e.bias(*row) for row in rows]
    else:
        q, k = (np.concatenate([inputs[s], -inputs[s], inputs[s] / 2]) for s in "qk")
        rows = [batch_of(e, b, q.shape[2]) for b in range(3)]
        sides = (np.stack(side) for side in zip(*rows, strict=True))
        batched = posenc_ref.scores(e, q, k, *sides)
        alone = [
            posenc_ref.scores(e, q[b : b + 1], k[b : b + 1], *row)[0] for b, row in enumerate(rows)
        ]
    assert batched.shape == (3, *alone[0].shape), f"{batched.shape} for a batch of 3"
    np.testing.assert_array_equal(batched, np.stack(alone))


def batch_of(e, b, count):
    """Positions of queries and keys of row b: in another order, where any order will do."""
    at = np.arange(count)
    if getattr(e, "mixes_queries", False):
        return at, at
    return np.roll(at, b), np.roll(at, -b)


# --- dtypes --------------------------------------------------------------------------------------


def scores_follow_the_queries(entry, name, e):
    """Logits have q's dtype, and are the float64 logits of the same numbers, rounded once.

    The method and the function are one; terms are not rounded yet.
    """
    q, k, q_at, k_at = queries_and_keys(entry, name, e)
    blended = callable(getattr(e, "weights", None))  # ConViT's is not added to the product
    methods = [e.weights] if blended else [e.scores, functools.partial(posenc_ref.scores, e)]
    for kind, scale in (("float64", None), ("float32", None), ("float16", 0.375)):
        one, two = q.astype(kind), k.astype(kind)
        for method in methods:
            logits = method(one, two, q_at, k_at, scale=scale)
            wide = method(one.astype("float64"), two.astype("float64"), q_at, k_at, scale=scale)
            assert (logits.dtype, wide.dtype) == (np.dtype(kind), np.dtype("float64"))
            np.testing.assert_array_equal(logits, wide.astype(kind))
            mixed = method(one, two.astype("float64"), q_at, k_at, scale=scale)
            np.testing.assert_array_equal(mixed, logits)
        if e.family == "score":
            terms = e.terms(one, two, q_at, k_at, scale=scale)
            assert {term.dtype for term in terms.values()} == {np.dtype("float64")}


def queries_and_keys(entry, name, e):
    """q (1, H, Q, d), k (1, H, K, d) and positions of the first case of an example."""
    inputs = entry.group(name).cases[0].inputs
    if e.family == "table":
        at = inputs["positions"]
        q = numbers(f"{name}-dtype-q", 1, 2, at.shape[-1], e.dim)
        return q, numbers(f"{name}-dtype-k", *q.shape), at, at
    n_q, n_k = (inputs[f"{s}_len"] if e.family == "bias" else inputs[s].shape[2] for s in "qk")
    at = np.arange(n_k)
    if e.family == "score":
        return inputs["q"], inputs["k"], at[n_k - n_q :], at
    q, k = (numbers(f"{name}-dtype-{s}", 1, e.num_heads, n, 8) for s, n in (("q", n_q), ("k", n_k)))
    return q, k, at[n_k - n_q :], at


# --- gradients -----------------------------------------------------------------------------------


def learns_on_torch(entry, name, e):
    """Gradients reach every learned array, where it is a tensor that asks for them."""
    torch = pytest.importorskip("torch", reason="the library that is check_entry")
    learned = {}
    on_torch = with_tensors(e, torch, type(e).__name__, learned)
    if not learned:
        return
    inputs = entry.group(name).cases[0].inputs
    if e.family == "table":
        out = on_torch.table(inputs["positions"])
    elif e.family == "bias":
        at = np.arange(getattr(e, "tokens", 12))
        out = on_torch.bias(at, at)
    else:
        q, k = (torch.tensor(inputs[s]) for s in "qk")
        at = np.arange(q.shape[2])
        out = posenc_ref.scores(on_torch, q, k, at, at)
    assert out.requires_grad, f"no gradient reaches {', '.join(learned)}"
    weights = torch.tensor(numbers("gradient", *out.shape), dtype=out.dtype)
    (out * weights).sum().backward()
    missed = [at for at, x in learned.items() if x.grad is None or not x.grad.any()]
    assert missed == [], f"no gradient reaches {', '.join(missed)}"


def with_tensors(e, torch, where, found):
    """``e`` with tensors in its learned fields, put into ``found`` by name, and in its parts'."""
    changes = {}
    for f in dataclasses.fields(e):
        if f.name in BY_ANOTHER_METHOD.get(type(e).__name__, ()):
            continue
        value, path = getattr(e, f.name), f"{where}.{f.name}"
        if isinstance(value, tuple) and value and (is_array(value[0]) or is_part(value[0])):
            changes[f.name] = tuple(
                one_with_tensors(v, f, torch, f"{path}[{n}]", found) for n, v in enumerate(value)
            )
        elif is_array(value) or is_part(value):
            changes[f.name] = one_with_tensors(value, f, torch, path, found)
    return dataclasses.replace(e, **changes) if changes else e


def is_part(value):
    return isinstance(value, Encoding)


def one_with_tensors(value, f, torch, path, found):
    """A learned array as a tensor; a host array (declared np.ndarray) stays what it is."""
    if is_part(value):
        return with_tensors(value, torch, path, found)
    if "Array" not in str(f.type) or not np.issubdtype(value.dtype, np.floating):
        return value
    found[path] = torch.tensor(value, requires_grad=True)
    return found[path]


# --- inputs that the vectors do not have ---------------------------------------------------------


def gives_exact(entry, e, inputs):
    """The class scores within the budget of the formula in 50 digits at these positions."""
    truth = entry.truth(e, inputs).output()
    sides = inputs["q_positions"], inputs["k_positions"]
    own = e.bias(*sides) if e.family == "bias" else None
    if own is None:
        own = posenc_ref.scores(e, *(inputs[s].astype(np.float64) for s in "qk"), *sides)
    own = np.asarray(own, np.float64)
    score = truth.score(own, "float64")
    assert score <= budget("float64"), f"{score:.3g} units at positions {sides}"


def at_fractions(entry, name, e):
    """Between the tokens too, where positions need not be integers; tables have this vector."""
    if e.family == "table" or e.integers or hasattr(e, "tokens"):
        return
    q_at, k_at = np.array([7.75, 0.5, 3.0]), np.array([0.25, 2.5, 6.875, 3.0, 0.0, 7.75])
    if getattr(e, "up_to_constant", False):  # judged relative to each query's own key
        k_at = np.concatenate([q_at, k_at[:2]])
    gives_exact(entry, e, with_content(e, name, q_at, k_at))


def at_every_distance(entry, name, e):
    """One distance after the other, both ways: a formula may be wrong at a single one."""
    if e.family == "table" or ends(e):
        return
    at = np.arange(DISTANCES)
    for one in (at[-1:], at[:1]):
        gives_exact(entry, e, with_content(e, name, one, at))


def with_content(e, name, q_at, k_at):
    inputs = {"q_positions": q_at, "k_positions": k_at}
    if e.family == "score":
        for side, at in (("q", q_at), ("k", k_at)):
            inputs[side] = numbers(f"{name}-beyond-{side}", 1, e.heads or 2, at.size, e.head_dim)
    return inputs


def ends(e):
    """Whether positions end: a window, a table of rows, or tokens that must be neighbours."""
    return any(getattr(e, what, None) for what in ("tokens", "rows", "mixes_queries"))


def with_more_heads(entry, name, e):
    """Heads past the few of the example, where the class can be made with more of them."""
    if e.family != "bias":
        return
    more = rebuilt(e)
    if more is None:  # then an example has to show them
        most = max(example.num_heads for example in entry.examples.values())
        assert most > 3, f"{entry.name} cannot be made with {HEADS} heads: give an example of 4"
        return
    at = np.arange(getattr(e, "tokens", 12))
    gives_exact(entry, more, {"q_positions": at, "k_positions": at})


def rebuilt(e):
    """``e`` with more heads: fields that have one number for each are continued."""
    if any(f.name == "num_heads" for f in dataclasses.fields(e)):
        return e.replace(num_heads=HEADS)
    choices = {f.name: list(continued(getattr(e, f.name), e.num_heads))
               for f in dataclasses.fields(e)}  # fmt: skip
    for values in itertools.product(*choices.values()):
        try:
            more = e.replace(**dict(zip(choices, values, strict=True)))
        except (TypeError, ValueError, IndexError):
            continue
        if more.num_heads == HEADS:
            return more
    return None


def continued(value, heads):
    """Values that may stand in a field, of a length of ``HEADS`` wherever it is ``heads``."""
    if isinstance(value, tuple) and value and is_array(value[0]):
        lasts = list(continued(value[-1], heads))  # layers: heads come out of the last
        yield from ((*value[:-1], last) for last in lasts)
        return
    if is_array(value):
        for axis in range(value.ndim - 1, -1, -1):
            if value.shape[axis] == heads:
                yield np.concatenate(list(parts_of(value, axis)), axis=axis)
    elif isinstance(value, tuple) and len(value) == heads and isinstance(value[0], float):
        yield tuple(np.concatenate(list(parts_of(np.array(value), 0))).tolist())
    yield value


def parts_of(value, axis):
    """Pieces that make ``HEADS`` along this axis, each another multiple of the numbers."""
    size = value.shape[axis]
    for n, start in enumerate(range(0, HEADS, size)):
        yield np.take(value, range(min(size, HEADS - start)), axis=axis) * 2.0**-n


MORE_CHECKS = (
    takes_batched_positions,
    scores_follow_the_queries,
    learns_on_torch,
    at_fractions,
    at_every_distance,
    with_more_heads,
)
