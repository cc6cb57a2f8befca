"""Mutations of calls: other arrays, numbers, dtypes, arguments and instances."""

import copy

from tests.fuzz import arguments, mutate
from tests.fuzz.calls import MODEST, SIZES

NUMBERS = (
    0, 1, -1, 2, 3, 5, 7, 8, 0.5, -0.5, 1.0, 2.0, 1e-6, 1e6, 100.0, 255, 256, 4096, 65536, 65537,
    2**31 - 1, 2**31, 2**40, 2**40 + 1, 2**53, 2**53 + 1, 2**63, 2**64, 10**400, 1e308, -1e308,
    5e-324, 1e-300, True, False, None, "1", float("nan"), float("inf"), float("-inf"), 1 + 2**-52,
)  # fmt: skip


def arrays(value):
    """Return every form of an array in a call."""
    found = (mutate.inside(value, path)[path[-1]] for path in mutate.places(value))
    return [v["array"] for v in found if isinstance(v, dict) and isinstance(v.get("array"), dict)]


def another_array(rng, spec):
    """Change the shape, dtype, numbers or kind of an array."""
    kind = rng.randrange(4)
    shape = spec.get("shape")
    if kind == 0 and isinstance(shape, list):
        change = rng.randrange(6)
        if change == 0 or not shape:
            shape.insert(rng.randrange(len(shape) + 1), rng.choice((0, 1, 2, 3)))
        elif change == 1:
            del shape[rng.randrange(len(shape))]
        elif change == 2:
            rng.shuffle(shape)
        else:
            shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 16, 2**44))
    elif kind == 1:
        spec["dtype"] = rng.choice(arguments.DTYPES)
    elif kind == 2:
        spec["fill"] = rng.choice(arguments.FILLS)
    else:
        spec["as"] = rng.choice(arguments.KINDS)


def calls(keys, seeds):
    """Return a mutation of calls whose arguments may get the names ``keys()``."""

    def changed(rng, given):
        given = copy.deepcopy(given)
        for left in reversed(range(rng.choice((1, 1, 2, 2, 3)))):
            kind, found = rng.randrange(8), arrays(given)
            if kind <= 2 and found:
                another_array(rng, rng.choice(found))
            elif kind == 3:  # an argument of another call
                other = rng.choice(seeds())
                part = rng.choice([p for p in ("with", "make") if p in given and p in other])
                own, theirs = _slots(given[part]), _slots(other[part])
                if own and theirs:
                    own[rng.choice(sorted(own))] = copy.deepcopy(theirs[rng.choice(sorted(theirs))])
            elif kind == 4:
                _number(rng, given)
            elif kind == 5:
                _positions(rng, given)
            elif not left:  # last, because nothing can copy a value that is nested too deeply
                part = rng.choice([p for p in ("with", "make") if p in given])
                slots = "arguments" if part == "make" else "with"
                holder = given[part] if part == "make" else given
                if isinstance(holder.get(slots), dict):
                    holder[slots] = mutate.changed(rng, holder[slots], keys())
        if rng.random() < 0.98:
            modest(given)
        return given

    return changed


def modest(given):
    """Replace sizes that may take long by smaller ones; what is refused for its size stays."""
    for path in list(mutate.places(given)):
        if {"shape", *SIZES} & {*path}:
            holder = mutate.inside(given, path)
            if type(holder[path[-1]]) in (int, float) and MODEST < abs(holder[path[-1]]) <= 2**41:
                holder[path[-1]] = type(holder[path[-1]])(holder[path[-1]] % 61)


def _slots(part):
    found = part.get("arguments", part) if isinstance(part, dict) else {}
    return found if isinstance(found, dict) else {}


def _number(rng, given):
    """Replace a number by one that may be outside a domain."""
    holders = [given[p] for p in ("with", "make") if p in given]
    found = [
        (holder, path)
        for holder in holders
        for path in mutate.places(holder)
        if isinstance(mutate.inside(holder, path)[path[-1]], int | float)
    ]
    if found:
        holder, path = rng.choice(found)
        mutate.inside(holder, path)[path[-1]] = rng.choice(NUMBERS)


def _positions(rng, given):
    """Replace positions by others, mostly valid."""
    names = [n for n in given.get("with", {}) if "positions" in n or n in ("delta", "position")]
    if not names:
        return
    n, start = rng.choice((1, 2, 3, 4, 5, 7)), rng.choice((0, 1, 5, 100, 2**20, 2**31, 2**39))
    given["with"][rng.choice(names)] = rng.choice((
        {"range": [start, start + n, 1]}, {"range": [n, 0, -1]},
        [start + i for i in range(n)], [start + i * 0.5 for i in range(n)],
        [[start + i for i in range(n)]] * rng.choice((1, 2, 3)),
        {"array": {"shape": [n], "dtype": "int32", "fill": "range", "as": "numpy"}},
        {"array": {"shape": [2, n], "dtype": "float32", "fill": "eighths", "as": "numpy"}},
        start, -start, start + 0.25,
    ))  # fmt: skip
