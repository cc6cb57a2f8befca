"""``verify``: judge every backend, and every known library found here.

Each group (a backend, or a library) is judged in a process of its own, so that a library is
imported once, and one that crashes takes nothing with it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from posenc_ref import SPEC_VERSION, __version__
from posenc_ref.backends import Backend, backends
from posenc_ref.conformance.check import check, check_reduced
from posenc_ref.conformance.exact.reference import Entry

from .options import Options
from .own_registered import judge_entry, labels
from .own_surfaces import LABELS, ONCE, own_surfaces, wide
from .record import CERTIFICATE, Outcome, failed, judged, kind_of, skipped
from .reduced import QUICK, scheduled
from .worker import judge_apart

#: Judged unless asked otherwise: what other people's models compute in.
LIBRARY_DTYPES = ("float32", "bfloat16")
NO_MPMATH = 'mpmath is not installed; pip install "posenc-ref[cli]"'
#: Called with the outcomes so far and the number of checks known of.
Progress = Callable[[list[Outcome], int], None]


@dataclass
class Verification:
    """Everything that was judged, and what was not and why."""

    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """How many checks came to each verdict."""
        verdicts = ("conforms", "deviates", "inconclusive", "error", "skipped")
        return {v: sum(o.verdict == v for o in self.outcomes) for v in verdicts}

    @property
    def exit_code(self) -> int:
        """1 where one of our own backends deviates, 2 for an error, 3 if nothing was executed."""
        if any(o.verdict in ("deviates", "inconclusive") and o.ours for o in self.outcomes):
            return 1
        if self.counts["error"]:
            return 2
        return 0 if any(o.executed for o in self.outcomes) else 3

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "version": __version__,
            "spec_version": SPEC_VERSION,
            "counts": self.counts,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 1),
            "outcomes": [o.to_dict() for o in self.outcomes],
        }


def verify(
    options: Options | None = None,
    *,
    processes: int = 0,
    progress: Progress | None = None,
) -> Verification:
    """Judge everything found here; ``processes`` > 0 does it in that many at a time."""
    begin = time.perf_counter()
    options = options or Options()
    groups = _groups(options)
    done: list[Outcome] = []
    expected: dict[str, int] = {}

    def note(group: str, item: Outcome | int) -> None:
        if isinstance(item, Outcome):
            done.append(item)
        else:
            expected[group] = item
        if progress is not None:
            progress(done, max(sum(expected.values()), len(done)))

    if processes:
        pool = ThreadPoolExecutor(processes)
        try:
            list(pool.map(lambda group: judge_apart(group, options, note), groups))
        finally:  # interrupted: what has not begun shall not
            pool.shutdown(cancel_futures=True)
    else:
        for group in groups:
            for item in judge_group(group, options):
                note(group, item)
    order = {group: i for i, group in enumerate(_order())}
    done.sort(key=lambda o: order.get(o.group, len(order)))
    return Verification(done, time.perf_counter() - begin)


def _order() -> list[str]:
    from posenc_ref.conformance.adapters.known import LIBRARIES

    return [*(b.name for b in backends()), CERTIFICATE, *LIBRARIES]


def _groups(options: Options) -> list[str]:
    """Names of the groups, what takes longest first."""
    slow = {"jax": -4, "dask": -3, "transformers": -2, CERTIFICATE: 1}
    found = {b.name: b for b in backends()}
    asked = []
    for name in _order():
        if name in found:
            wanted = bool(_dtypes(found[name], options))
        elif name == CERTIFICATE:
            wanted = options.wants(CERTIFICATE) and not options.dtypes
        else:
            wanted = bool(_jobs(name, options)) or options.wants(name)
        if wanted:
            asked.append(name)
    return sorted(asked, key=lambda name: slow.get(name, 0))


def judge_group(group: str, options: Options) -> Iterator[Outcome | int]:
    """Yield how many checks are coming, then the outcome of each."""
    found = {b.name: b for b in backends()}.get(group)
    try:
        if found is not None:
            with scheduled(found) if found.missing() is None else contextlib.nullcontext():
                yield from _judge_backend(found, options)
        elif group == CERTIFICATE:
            yield from _certificate(options)
        else:
            yield from _judge_library(group, options)
    except Exception as error:
        yield failed(Outcome(kind_of(group), group), error)


def _judge_backend(backend: Backend, options: Options) -> Iterator[Outcome | int]:
    blank = Outcome("backend", backend.name, backend.version)
    kinds = _dtypes(backend, options)
    reason = backend.missing()
    if reason is not None:
        yield skipped(blank, reason)
        return
    devices = backend.devices()
    once = set(ONCE)
    if backend.name in QUICK and not (options.full or options.dtypes):
        left = [dtype for dtype in kinds if dtype not in QUICK[backend.name]]
        kinds = [dtype for dtype in kinds if dtype not in left]
        for dtype in left:
            why = f"{backend.name} takes long; --full, or --dtype {dtype}, judges it"
            yield skipped(blank.replace(dtype=dtype), why)
        for dtype in kinds[1:]:
            if any(_wanted(backend, label, dtype, options) for label in labels()):
                why = f"vectors in {kinds[0]} alone; --full, or --dtype {dtype}, judges them"
                yield skipped(blank.replace(dtype=dtype), why)
        once |= set(labels())
    yield len(devices) * sum(
        _wanted(backend, label, dtype, options)
        for dtype in kinds
        for label in (*LABELS, *labels())
        if label not in once or dtype == kinds[0]
    )
    # Fewer channels are fewer calls; the libraries that most people use get whole heads.
    dim = 64 if options.full or backend.name in ("numpy", "torch") else 16
    dear = backend.name in QUICK and not options.full
    for device in devices:
        exact = wide(backend, device)
        angles = "exact" if exact else None
        place = device if len(devices) > 1 else None
        finished: set[str] = set()
        for dtype in kinds:
            here = blank.replace(device=place, dtype=dtype)
            if dtype == "float64" and not exact:
                yield skipped(here, f"{device} has no float64")
                continue
            for own in own_surfaces(backend, dtype, device, dim):
                if not _wanted(backend, own.label, dtype, options) or own.label in finished:
                    continue
                if own.once:
                    finished.add(own.label)
                yield _check(
                    here.replace(label=own.label, surface=own.surface),
                    own.fn,
                    encoding=own.encoding,
                    surface=own.surface,
                    backend=backend.name,
                    dtype=dtype,
                    device=device,
                    angles=angles,
                    dear=dear,
                )
            for label, entry in labels().items():
                asked = label not in once or dtype == kinds[0]
                if asked and _wanted(backend, label, dtype, options):
                    yield _registered(entry, backend, here.replace(label=label), device, angles)


def _registered(
    entry: Entry, backend: Backend, blank: Outcome, device: str | None, angles: str | None
) -> Outcome:
    if importlib.util.find_spec("mpmath") is None:
        return skipped(blank, NO_MPMATH)
    begin = time.perf_counter()
    try:
        found = judge_entry(entry, backend, blank.dtype, device, blank, angles)
    except Exception as error:
        return failed(blank, error)
    return found.replace(seconds=time.perf_counter() - begin)


def _dtypes(backend: Backend, options: Options) -> list[str]:
    """The dtypes of ``backend`` in which anything was asked for."""
    return [
        d
        for d in backend.dtypes
        if any(_wanted(backend, label, d, options) for label in (*LABELS, *labels()))
    ]


def _wanted(backend: Backend, label: str, dtype: str, options: Options) -> bool:
    return options.wants(backend.name, label, dtype=dtype)


def _judge_library(name: str, options: Options) -> Iterator[Outcome | int]:
    from posenc_ref.conformance.adapters.known import missing_libraries

    missing = missing_libraries()
    if name in missing:
        why = f"{name} is not installed; pip install '{missing[name]}'"
        yield skipped(Outcome("library", name), why)
        return
    if importlib.util.find_spec("torch") is None:
        why = f"{name} is judged through torch, which is not installed; pip install torch"
        yield skipped(Outcome("library", name), why)
        return
    jobs = _jobs(name, options)
    yield len(jobs)
    for known, dtype in jobs:
        blank = Outcome("library", name, known.version, known.label, dtype=dtype)
        yield _check(blank, known.build, build=True, dtype=dtype)


def _jobs(name: str, options: Options) -> list[tuple[Any, str]]:
    """What is known of the library ``name``, in each dtype that was asked for."""
    from posenc_ref.conformance.adapters.known import known_implementations

    every = options.full or options.dtypes
    return [
        (known, dtype)
        for known in known_implementations()
        if known.library == name
        for dtype in known.dtypes
        if (every or dtype in LIBRARY_DTYPES) and options.wants(name, known.label, dtype=dtype)
    ]


def _check(
    blank: Outcome, fn: Any, *, build: bool = False, dear: bool = False, **settings: Any
) -> Outcome:
    """One check; whatever is printed meanwhile goes to standard error, warnings nowhere."""
    begin = time.perf_counter()
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = (
                check_reduced(fn, **settings) if dear else check(fn() if build else fn, **settings)
            )
    except Exception as error:
        return failed(blank, error)
    return judged(blank, report, time.perf_counter() - begin)


def _certificate(options: Options) -> Iterator[Outcome | int]:
    """cos, sin and every encoding against arithmetic that shares no code with them."""
    blank = Outcome("certificate", CERTIFICATE, label="all encodings, NumPy")
    if importlib.util.find_spec("mpmath") is None:
        yield skipped(blank, NO_MPMATH)
        return
    from posenc_ref.conformance.exact.certificate import FULL, QUICK, certify
    from posenc_ref.conformance.registry import entries

    yield 1
    begin = time.perf_counter()
    rows = certify(entries(), FULL if options.full else QUICK)
    wrong = [row for row in rows if not row.passed]
    worst = max((row.score for row in rows), default=0.0)
    yield blank.replace(
        verdict="deviates" if wrong else "conforms" if rows else "inconclusive",
        codes=("inaccurate",) * bool(wrong),
        messages=tuple(f"{r.encoding}, {r.dtype}, positions {r.positions}" for r in wrong[:5]),
        worst=worst,
        executed=sum(row.elements for row in rows),
        seconds=time.perf_counter() - begin,
    )
