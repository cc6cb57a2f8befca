"""Right functions of every surface whose results are changed, for judges that may not fail."""

import random
from functools import cache

import numpy as np

import posenc_ref as pr
from posenc_ref.conformance import check, identify
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.registry import entries
from posenc_ref.conformance.surfaces import refuse


def _each(change):
    """Return ``change`` of every array in a result."""

    def changed(result, rng):
        if isinstance(result, tuple | list):
            return type(result)(changed(part, rng) for part in result)
        return change(np.asarray(result), rng)

    return changed


def _one(value):
    """Return a change of one number of an array."""

    def change(a, rng):
        a = np.array(a, np.float64 if a.dtype.kind not in "fc" else a.dtype)
        if a.size:
            a.flat[rng.integers(a.size)] = value
        return a

    return change


def _full(value):
    return lambda a, rng: np.full(a.shape, value, a.dtype if a.dtype.kind == "f" else np.float32)


def _as(dtype):
    return lambda a, rng: np.nan_to_num(a).astype(dtype)


#: Changes of an array.
ARRAYS = {
    "one NaN": _one(np.nan),
    "one inf": _one(np.inf),
    "one -inf": _one(-np.inf),
    "NaN": _full(np.nan),
    "inf": _full(np.inf),
    "zeros": _full(0.0),
    "constant": _full(0.7),
    "huge": lambda a, rng: a.astype(np.float64) * 1e300,
    "denormal": lambda a, rng: a.astype(np.float32) * np.float32(1e-42),
    "narrower": lambda a, rng: a[..., :-1] if a.ndim else a,
    "wider": lambda a, rng: np.concatenate([a, a], -1) if a.ndim else np.stack([a, a]),
    "fewer rows": lambda a, rng: a[..., :-1, :] if a.ndim > 1 else a[:-1] if a.ndim else a,
    "first row": lambda a, rng: a[:1] if a.ndim else a,
    "no rows": lambda a, rng: a[:0] if a.ndim else a[None][:0],
    "another axis": lambda a, rng: a[None],
    "a last axis": lambda a, rng: a[..., None],
    "one number": lambda a, rng: a.ravel()[0] if a.size else a,
    "transposed": lambda a, rng: a.swapaxes(-1, -2) if a.ndim > 1 else a[::-1],
    "backwards": lambda a, rng: a[::-1] if a.ndim else a,
    "integers": _as(np.int64),
    "bytes": _as(np.uint8),
    "booleans": lambda a, rng: a > 0,
    "complex": lambda a, rng: a * (1 + 1j),
    "texts": lambda a, rng: a.astype(str),
    "objects": lambda a, rng: a.astype(object),
    "float16": _as(np.float16),
    "float64": _as(np.float64),
    "lists": lambda a, rng: a.tolist(),
    "noise": lambda a, rng: rng.standard_normal(a.shape).astype(np.float32),
    "negative": lambda a, rng: -1 * a,
    "squares": lambda a, rng: a.astype(np.float64) ** 2,
    "powers": lambda a, rng: np.exp(50 * a.astype(np.float64)),
    "rounded down": lambda a, rng: np.floor(a),
}


def _raise(result, rng):
    raise RuntimeError("not now")


#: Changes of a result.
WHOLE = {
    "None": lambda r, rng: None,
    "the other order": lambda r, rng: r[::-1] if isinstance(r, tuple | list) else r,
    "one part": lambda r, rng: r[0] if isinstance(r, tuple | list) and len(r) else r,
    "twice": lambda r, rng: (r, r),
    "in a list": lambda r, rng: [r],
    "in a dictionary": lambda r, rng: {"y": r},
    "an exception": _raise,
}
CHANGES = {name: _each(change) for name, change in ARRAYS.items()} | WHOLE
#: The calls that are changed, by their number and their longest axis.
CALLS = {
    "every call": lambda n, size: True,
    "later calls": lambda n, size: n > 6,
    "every third call": lambda n, size: n % 3 == 2,
    "the first call": lambda n, size: n == 0,
    "long calls": lambda n, size: size > 40,
    "calls of one token": lambda n, size: size == 1,
}


def changed(fn, change, calls, seed=0):
    """Return ``fn`` with a change of CHANGES in the calls of CALLS."""
    rng, count = np.random.default_rng(seed), [0]

    def call(*args):
        result, n = fn(*args), count[0]
        count[0] += 1
        sizes = [max(a.shape[-2:] if a.ndim < 3 else a.shape[-2:-1], default=0) for a in args
                 if isinstance(a, np.ndarray)]  # fmt: skip
        sizes += [a for a in args if isinstance(a, int)]
        if CALLS[calls](n, max(sizes, default=0)):
            return CHANGES[change](result, rng)
        return result

    return call


@cache
def declarations():
    """Return every example of the registry, and some models, with each surface that takes them."""
    known = {key: e for entry in entries() for key, e in entry.examples.items()}
    known |= {"": None, "llama": pr.preset("llama-3.1-8b")}
    known |= {"smollm3": pr.preset("smollm3-3b", base=2e6), "gemma": pr.preset("gemma-3-4b")}
    found = []
    for key, encoding in known.items():
        for surface, row in SURFACES.items():
            try:
                refuse(surface, encoding)
            except (TypeError, ValueError):
                continue
            if encoding is not None or "none" in row.families:
                found.append((key, encoding, surface))
    return found


def drawn(rng, surfaces):
    """Return a random case of these surfaces: names and what ``failure`` takes."""
    key, encoding, surface = rng.choice([d for d in declarations() if d[2] in surfaces])
    judge = rng.choice(["check", "identify"]) if SURFACES[surface].identify else "check"
    dtype = rng.choice(["float32", "float32", "float64", "float16"])
    change, calls = rng.choice([*CHANGES]), rng.choice(["every call", *CALLS])
    return key, encoding, surface, judge, dtype, change, calls


def failure(case):
    """Return what a judge says about its own failure, or "". An exception fails the test."""
    _, encoding, surface, judge, dtype, change, calls = case
    fn = changed(SURFACES[surface].own(encoding, dtype), change, calls)
    if judge == "check":
        report = check(fn, encoding, surface, dtype=dtype)
    else:
        axes = getattr(encoding, "num_axes", 1) if surface == "apply" else 1
        dim = getattr(encoding, "head_dim", 64) if surface in ("apply", "scores") else None
        report = identify(fn, surface, dtype=dtype, axes=axes, head_dim=dim)
    report.to_json()
    said = [text for text in report.limits if "please report" in text]
    said += [text for text in getattr(report, "unknown", ()) if "please report" in text]
    if " inf units" in str(report):
        said.append("an error of inf units")
    return "; ".join(said)


def cases(seed, surfaces):
    """Yield random cases without end."""
    rng = random.Random(f"judges {seed}")
    while True:
        yield drawn(rng, surfaces)
