"""Judge T5 buckets of relative positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import T5Bias
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import identical

from .cases import Answer, Property, Ruler, ask, fresh, judge_properties
from .diagnose_buckets import diagnose_buckets

#: Distances of long documents and beyond the range of int16; both signs are judged.
FAR = (1000, 4097, 32767, 32769, 65536, 100000, 131071)


@dataclass
class Buckets:
    """Relative positions and their buckets."""

    relative: np.ndarray
    bucket: np.ndarray
    floats: str = ""  #: the dtype of the buckets if it is floating


def judge_bucket(run: Run) -> None:
    """Judge ``fn(key - query)``: its values, shapes and properties."""
    encoding: T5Bias = run.encoding
    properties = properties_of(encoding.num_buckets, encoding.bidirectional)
    run.report.required = ("values", "replay", *(p.name for p in properties))
    reach = 4 * encoding.thresholds[-1] + 2 * encoding.num_buckets
    reach = run.settings.up_to(reach)
    near, window = np.arange(-min(4, reach), min(4, reach) + 1), np.arange(-reach, reach + 1)
    found: list[Buckets] = []
    for r in (near, window):
        one = _call(run.driver, r)
        if isinstance(one, Answer):
            run.add(one.code, f"fn of {r[0]} .. {r[-1]}: {one.problem}", "int64, (S,)")
            return
        found.append(one)
    first, whole = found
    found += _shapes(run, window)
    again = _call(run.driver, near)
    wrong = [f for f in found if not _judge(run, encoding, f)]
    changed = isinstance(again, Answer) or not np.array_equal(
        again.bucket, first.bucket, equal_nan=True
    )
    run.count("replay")
    if wrong and not changed and (new := fresh(run)) is not None:
        clean = _call(new, window)
        if not isinstance(clean, Answer) and not np.array_equal(clean.bucket, whole.bucket):
            changed, whole = True, clean
    if changed:
        words = again.problem if isinstance(again, Answer) else str(again.bucket.tolist())
        run.failed("replay", "first call", np.inf, words)
        text = f"first {first.bucket.tolist()}, now {words}"
        run.add("state", "buckets change after other calls", text, by="replay")
        whole = first if run.driver.factory is None else whole
        found = [whole]
    if whole.floats:
        fraction = whole.bucket[whole.bucket != np.trunc(whole.bucket)]
        shown = f", such as {fraction[0]:.6g}" if fraction.size else ""
        run.add("dtype", f"buckets are {whole.floats}, not integers{shown}", "the result's dtype")
    if not np.isfinite(whole.bucket).all():
        bad = whole.relative[~np.isfinite(whole.bucket)]
        text = f"the bucket of relative position {bad[0]} is not finite"
        run.add("nonfinite", text, f"{bad.size} buckets are not finite")
    if reach > 3:
        judge_properties(run, properties, whole)
    if run.failures:
        r = np.concatenate([f.relative.ravel() for f in found])
        b = np.concatenate([f.bucket.ravel() for f in found])
        keep = np.isfinite(b)
        run.explain(diagnose_buckets, r[keep], np.trunc(b[keep]).astype(np.int64))


def _call(driver: Driver, relative: np.ndarray) -> Buckets | Answer:
    answer = ask(driver, relative, shape=relative.shape)
    if answer.values is None:
        return answer
    kind = getattr(answer.raw, "dtype", answer.values.dtype)
    floats = "" if answer.values.dtype.kind in "iu" else str(kind).removeprefix("torch.")
    return Buckets(relative, answer.values.astype(np.float64), floats)


def _judge(run: Run, encoding: T5Bias, found: Buckets) -> bool:
    run.reached(int(np.abs(found.relative).max(initial=0)))
    true = identical(np.asarray(encoding.bucket(found.relative)))
    shape = found.relative.shape
    name = f"{found.relative.min()} .. {found.relative.max()}, shape {shape}"
    return run.judge("values", name, found.bucket, true)


def _shapes(run: Run, window: np.ndarray) -> list[Buckets]:
    """Return the results for other shapes, other dtypes and far positions."""
    far = np.array([sign * n for n in FAR for sign in (-1, 1)])
    far = far[np.abs(far) <= run.settings.up_to(int(np.abs(far).max()))]
    grid = np.clip(np.arange(7) - np.arange(3, 8)[:, None], window[0], window[-1])
    optional = {
        "0-d": np.asarray(-min(3, window[-1])),
        "2-d": grid,
        "3-d": grid[None],
        "unordered": np.random.default_rng(run.settings.seed).permutation(window),
        "int32": window.astype(np.int32),
    }
    optional |= {"far": far} if far.size else {}
    found = []
    for name, relative in (optional | {"empty": np.arange(0)}).items():
        answer = _call(run.driver, relative)
        if isinstance(answer, Buckets):
            found += [answer] if relative.size else []
        elif answer.code == "raises" or not relative.size:
            run.limit(f"{name} relative positions are refused ({answer.problem})")
        else:
            run.failed("values", name, np.inf, answer.problem)
            run.add(answer.code, f"{name}: {answer.problem}", "the shape of the result")
    return found


def properties_of(num_buckets: int, bidirectional: bool) -> list[Property]:
    """Return the properties of T5 buckets of -n .. n, for any max_distance."""
    half = num_buckets // 2 if bidirectional else num_buckets
    last, farther = num_buckets - 1, 4.0 * num_buckets

    def steps_back(r: np.ndarray, b: np.ndarray) -> np.ndarray:
        step = np.diff(b)
        bad = np.where(r[1:] <= 0, ~(step <= 0), (r[:-1] > 0) & ~(step >= 0))
        return np.concatenate([[False], bad])

    def near_shared(r: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray((r < 0) & (r > -(half // 2)) & ~(b == -r))

    found = [
        _property("bucket(0) = 0", lambda r, b: (r == 0) & ~(b == 0), "", 0, lambda b: 1.0),
        _property("buckets are 0 .. the last", lambda r, b: ~((b >= 0) & (b <= last)),
                  f": not in 0 .. {last}", -2, lambda b: last + 1.0),
        _property("buckets grow with the distance", steps_back,
                  ", less than at a smaller distance", -2, lambda b: farther),
    ]  # fmt: skip
    if half > 3:
        name, text = "near distances have their own bucket", ", not the distance"
        found.append(_property(name, near_shared, text, -1, lambda b: -1.0))
    if bidirectional:
        last_one = _property("bucket(n) = bucket(-n) + half",
                             lambda r, b: (r > 0) & ~(b == b[::-1] + half),
                             f": bucket(-r) + {half} differs", 2, lambda b: b + 1)  # fmt: skip
    else:
        last_one = _property("later keys share bucket(0)",
                             lambda r, b: (r > 0) & ~(b == b[r == 0]),
                             ": later keys share bucket(0)", 2, lambda b: b + 1)  # fmt: skip
    return [*found, last_one]


def _property(
    name: str,
    bad: Callable[[np.ndarray, np.ndarray], np.ndarray],
    words: str,
    at: int,
    spoiled: Callable[[np.ndarray], Any],
) -> Property:
    """Return the property that ``bad(r, b)`` is false for all buckets b of the positions r.

    ``words`` say in the message what is wrong with a bucket. As a control, the bucket of the
    relative position ``at`` is replaced by ``spoiled(b)``.
    """

    def violations(data: Buckets, ruler: Ruler) -> Iterator[str]:
        r, b = data.relative, data.bucket
        wrong = np.flatnonzero(bad(r, b))
        for n in wrong[np.argsort(np.abs(r[wrong]), kind="stable")]:
            yield f"bucket({r[n]}) = {b[n]:g}{words}"

    def spoil(data: Buckets, ruler: Ruler) -> Buckets:
        r, b = data.relative, data.bucket
        return Buckets(r, np.where(r == at, spoiled(b), b))

    return Property(name, violations, spoil)
