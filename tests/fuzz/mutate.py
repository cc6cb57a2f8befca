"""Mutations of valid inputs: of the structure of JSON, and of the bytes of any file."""

import copy
import json

#: Values that readers do not expect: extreme numbers, other types, text that is not text.
VALUES = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 10_000, 2**31, 2**53 + 1, 2**63, 2**64, -(2**70),
    10**400, 0.0, -0.0, 0.5, 1.5, -1.0, 1e-320, 1e308, -1e308, 4096.0,
    float("inf"), float("-inf"), float("nan"), "", "0", "full_attention", "sliding_attention",
    "llama", "yarn", "../x", "\u202e", "\ud800", "\x1b[31m", "a\nCONFORMS", "x" * 5000, "\u0000",
    "float32", "object", "hex", [], {}, [[]], [None], [0], [1.0, "a"], {"": {}}, {"a": None},
)  # fmt: skip


def another(rng):
    """Return one of the values, in a copy that later mutations may change."""
    return copy.deepcopy(rng.choice(VALUES))


def places(value, path=()):
    """Yield the path of every entry inside a JSON value, down to 50 levels."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        yield (*path, key)
        if isinstance(inner, dict | list) and len(path) < 50:
            yield from places(inner, (*path, key))


def inside(value, path):
    """Return the container of the entry at ``path``."""
    for key in path[:-1]:
        value = value[key]
    return value


def deep(depth):
    """Return a list in a list in a list, and so on."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


def changed(rng, value, keys):
    """Return a JSON value with one to three mutations; ``keys`` are names that readers know."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = list(places(value))
        if not found:
            return value
        path = rng.choice(found)
        holder, key = inside(value, path), path[-1]
        kind = rng.randrange(10)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(keys)] = another(rng)
        elif kind == 2 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif kind == 3:
            other = rng.choice(found)
            holder[key] = copy.deepcopy(inside(value, other)[other[-1]])
        elif kind == 4 and isinstance(holder, dict):
            holder[rng.choice(keys)] = holder.pop(key)
        elif kind == 5 and isinstance(holder[key], int | float) and abs(holder[key]) < 2**60:
            holder[key] *= rng.choice((-1, 0, 0.5, 2, 3, 1000, 2**20, 1e9))
        elif kind == 6 and isinstance(holder[key], int | float):
            holder[key] = rng.choice((str(holder[key]), [holder[key]], {"a": holder[key]}))
        elif kind == 7 and rng.random() < 0.1:
            holder[key] = deep(rng.choice((10, 100, 5000)))
            return value  # nothing else can copy it
        elif kind == 8 and isinstance(holder[key], str) and holder[key]:
            text, at = holder[key], rng.randrange(len(holder[key]))
            holder[key] = text[:at] + rng.choice(("", "\u202e", "\n", "0", "../")) + text[at + 1 :]
        else:
            holder[key] = another(rng)
    return value


def changed_bytes(rng, data):
    """Return a file with flipped bits, other bytes, or a part cut out, repeated or added."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        # The beginning of a file has its structure.
        at = min(at, rng.choice((16, 64, 256, 1024, len(data))), len(data) - 1) if data else 0
        kind = rng.randrange(8)
        if kind <= 1 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2 and data:
            data[at] = rng.choice((0, 1, 10, 0x22, 0x7F, 0x80, 0xFF))
        elif kind == 3 and rng.random() < 0.5:
            del data[at:]
        elif kind == 4:
            del data[at : at + rng.choice((1, 2, 8, 100))]
        elif kind == 5:
            data[at:at] = data[at : at + rng.choice((1, 4, 64))]
        elif kind == 6:
            data[at : at + 8] = rng.choice(
                (b"\xff" * 8, b"\x00" * 8, (2**31).to_bytes(8, "little"))
            )
        else:
            data[at:at] = rng.choice(
                (b"{", b"[" * 2000, b'"', b"\x00", b"\xff\xfe", b"1" * 5000, b"\n")
            )
    return bytes(data)


def dumped(value):
    """Return JSON text as Python writes it, lone surrogates included."""
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b"[" * 5000 + b"]" * 5000
