"""Judge of T5's buckets of relative positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from posenc_ref import T5Bias
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import identical

from .cases import Answer, Property, Ruler, ask, fresh, judge_properties
from .diagnose_buckets import diagnose_buckets

#: Far relative positions, negative and positive: long documents, and where int16 ends.
FAR = (1000, 4097, 32767, 32769, 65536, 100000, 131071)


@dataclass
class Buckets:
    """Relative positions and their buckets."""

    relative: np.ndarray
    bucket: np.ndarray
    floats: str = field(default="")  #: the dtype, where it is not an integer one


def judge_bucket(run: Run) -> None:
    """Judge ``fn(key - query)``: every integer, its shape, and properties of the whole map."""
    encoding: T5Bias = run.encoding
    properties = properties_of(encoding.num_buckets, encoding.bidirectional)
    run.report.required = ("values", "replay", *(p.name for p in properties))
    reach = 4 * encoding.thresholds[-1] + 2 * encoding.num_buckets
    reach = run.settings.up_to(reach)
    near, window = np.arange(-min(4, reach), min(4, reach) + 1), np.arange(-reach, reach + 1)
    first = _call(run, run.driver, near)
    if isinstance(first, Answer):
        run.add(first.code, f"fn of {near.size} integers: {first.problem}", "the first call")
        return
    whole = _call(run, run.driver, window)
    if isinstance(whole, Answer):
        run.add(whole.code, f"fn of -{reach} .. {reach}: {whole.problem}", "int64, (S,)")
        return
    found = [first, whole]
    found += _shapes(run, window, whole)
    again = _call(run, run.driver, near)
    wrong = [f for f in found if not _judge(run, encoding, f)]
    changed = isinstance(again, Answer) or not np.array_equal(
        again.bucket, first.bucket, equal_nan=True
    )
    run.count("replay")
    if wrong and not changed and (new := fresh(run)) is not None:
        clean = _call(run, new, window)
        if not isinstance(clean, Answer) and not np.array_equal(clean.bucket, whole.bucket):
            changed, whole = True, clean
    if changed:
        words = again.problem if isinstance(again, Answer) else str(again.bucket.tolist())
        run.failed("replay", "first call", np.inf, words)
        text = f"{first.bucket.tolist()}, now {words}"
        run.add("state", "buckets change after other calls", text, by="replay")
        found = [whole] if run.driver.factory is not None else [first]
        whole = found[0]
    if whole.floats:
        fraction = whole.bucket[whole.bucket != np.trunc(whole.bucket)]
        shown = f", such as {fraction[0]:.6g}" if fraction.size else ""
        run.add("dtype", f"buckets are {whole.floats}, not integers{shown}", "the result's dtype")
    if not np.isfinite(whole.bucket).all():
        bad = whole.relative[~np.isfinite(whole.bucket)]
        run.add("nonfinite", f"no bucket at relative position {bad[0]}", "the first one")
    if reach > 3:
        judge_properties(run, properties, whole)
    if run.failures:
        r = np.concatenate([f.relative.ravel() for f in found])
        b = np.concatenate([f.bucket.ravel() for f in found])
        keep = np.isfinite(b)
        run.explain(diagnose_buckets, r[keep], np.trunc(b[keep]).astype(np.int64))


def _call(run: Run, driver: Driver, relative: np.ndarray) -> Buckets | Answer:
    answer = ask(driver, relative)
    if answer.values is None:
        return answer
    if answer.values.shape != relative.shape:
        words = f"expected shape {relative.shape}, got {answer.values.shape}"
        return Answer(None, None, "shape", words)
    kind = getattr(answer.raw, "dtype", answer.values.dtype)
    floats = "" if answer.values.dtype.kind in "iu" else str(kind).removeprefix("torch.")
    return Buckets(relative, answer.values.astype(np.float64), floats)


def _judge(run: Run, encoding: T5Bias, found: Buckets) -> bool:
    run.reached(int(np.abs(found.relative).max(initial=0)))
    true = identical(np.asarray(encoding.bucket(found.relative)))
    shape = found.relative.shape
    name = f"{found.relative.min()} .. {found.relative.max()}, shape {shape}"
    return run.judge("values", name, found.bucket, true)


def _shapes(run: Run, window: np.ndarray, whole: Buckets) -> list[Buckets]:
    """Call with optional inputs: other shapes, other widths, far positions."""
    far = np.array([sign * n for n in FAR for sign in (-1, 1)])
    far = far[np.abs(far) <= run.settings.up_to(int(np.abs(far).max()))]
    grid = np.arange(7)[None, :] - np.arange(3, 8)[:, None]
    generic = np.random.default_rng(run.settings.seed).permutation(window)
    optional = [
        ("0-d", np.asarray(-min(3, window[-1]))),
        ("2-d", np.clip(grid, window[0], window[-1])),
        ("3-d", np.clip(grid, window[0], window[-1])[None]),
        ("unordered", generic),
        ("far", far),
        ("empty", np.arange(0)),
    ]
    found = []
    for name, relative in optional:
        if name == "far" and not far.size:
            continue
        answer = _call(run, run.driver, relative)
        if isinstance(answer, Buckets):
            found += [answer] if relative.size else []
        elif answer.code == "raises" or not relative.size:
            run.limit(f"{name} relative positions are refused ({answer.problem})")
        else:
            run.failed("values", name, np.inf, answer.problem)
            run.add(answer.code, f"{name}: {answer.problem}", "the shape of the result")
    try:
        backend = run.driver.backend
        narrow = backend.asarray(window, "int32", run.driver.device)
        values = np.array(backend.asnumpy(run.driver.fn(narrow)), dtype=np.float64)
    except Exception as error:
        run.limit(f"int32 relative positions are refused ({type(error).__name__}: {error})")
    else:
        if values.shape == window.shape:
            found.append(Buckets(window, values))
        else:
            run.failed("values", "int32", np.inf, f"shape {values.shape}")
            run.add("shape", f"int32: expected shape {window.shape}, got {values.shape}")
    return found


# --- properties ----------------------------------------------------------------------------------


def properties_of(num_buckets: int, bidirectional: bool) -> list[Property]:
    """Return the properties of every T5 map, whatever max_distance is."""
    half = num_buckets // 2 if bidirectional else num_buckets
    last = half - 1 if not bidirectional else num_buckets - 1

    def own(data: Buckets, ruler: Ruler) -> str:
        b = _at(data, 0)
        return "" if b == 0 else f"bucket(0) = {b:g}"

    def inside(data: Buckets, ruler: Ruler) -> str:
        bad = ~((data.bucket >= 0) & (data.bucket <= last))
        return _first(data, bad, f"not in 0 .. {last}")

    def monotone(data: Buckets, ruler: Ruler) -> str:
        order = np.argsort(data.relative)
        r, b = data.relative[order], data.bucket[order]
        step = np.diff(b)
        bad = np.where(r[1:] <= 0, ~(step <= 0), (r[:-1] > 0) & ~(step >= 0))
        return _first(Buckets(r[1:], b[1:]), bad, "steps back with the distance")

    def exact(data: Buckets, ruler: Ruler) -> str:
        near = (data.relative < 0) & (data.relative > -(half // 2))
        return _first(data, near & ~(data.bucket == -data.relative), "near ones have their own")

    def mirrored(data: Buckets, ruler: Ruler) -> str:
        order = np.argsort(data.relative)
        b = data.bucket[order]
        later, earlier = data.relative > 0, b[::-1][np.argsort(order)]
        return _first(
            data, later & ~(data.bucket == earlier + half), f"bucket(-r) + {half} differs"
        )

    def later(data: Buckets, ruler: Ruler) -> str:
        bad = (data.relative > 0) & ~(data.bucket == _at(data, 0))
        return _first(data, bad, "later keys share bucket(0)")

    def spoiled(r: int, value: float) -> Callable[[Buckets, Ruler], Buckets]:
        return lambda data, ruler: Buckets(
            data.relative, np.where(data.relative == r, value, data.bucket)
        )

    def moved(r: int) -> Callable[[Buckets, Ruler], Buckets]:
        return lambda data, ruler: Buckets(data.relative, data.bucket + (data.relative == r))

    found = [
        Property("bucket(0) = 0", own, spoiled(0, 1.0)),
        Property("buckets are 0 .. the last", inside, spoiled(-2, last + 1.0)),
        Property("buckets grow with the distance", monotone, spoiled(-2, 4.0 * num_buckets)),
    ]
    if half > 3:
        found.append(Property("near distances have their own bucket", exact, spoiled(-1, -1.0)))
    if bidirectional:
        found.append(Property("bucket(n) = bucket(-n) + half", mirrored, moved(2)))
    else:
        found.append(Property("later keys share bucket(0)", later, moved(2)))
    return found


def _at(data: Buckets, r: int) -> float:
    return float(data.bucket[data.relative == r][0])


def _first(data: Buckets, bad: np.ndarray, words: str) -> str:
    if not bad.any():
        return ""
    at = np.flatnonzero(bad)
    n = at[np.argmin(np.abs(data.relative[at]))]
    return f"bucket({data.relative[n]}) = {data.bucket[n]:g}: {words}"
