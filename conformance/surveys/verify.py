"""``verify``: judge every installed backend and every installed library.

With ``Options.libraries`` it judges every function of these libraries, and nothing else.

Each group (a backend or a library) runs in a separate process, so a library is imported once and a
crash does not stop the other groups.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from posenc_ref.backends import Backend, backends
from posenc_ref.conformance.adapters.library import (
    LIBRARIES,
    TABLES,
    LibraryFunction,
    functions,
    missing,
    version,
)
from posenc_ref.conformance.check import check, check_reduced
from posenc_ref.conformance.exact.kept import kept_in
from posenc_ref.conformance.harness.report import Report

from .own import LABELS, LEFT_OUT, ONCE, QUICK, judge_entry, labels, own_surfaces, scheduled, wide
from .record import Outcome, Survey, judged, one_line
from .runner import Progress, run
from .whole import CERTIFICATE, GOLDEN, NO_MPMATH, certificate, golden_vectors

#: Verdicts that only functions of libraries get.
OF_LIBRARIES = ("gap", "undrivable")
#: The default dtypes for libraries.
LIBRARY_DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class Options:
    """The selection of checks to run."""

    full: bool = False
    only: str | None = None
    dtypes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()  #: judge these libraries, every function of theirs

    def wants(self, *words: str | None, dtype: str | None = None) -> bool:
        """Return whether a check with these words in its name is selected."""
        if self.dtypes and dtype is not None and dtype not in self.dtypes:
            return False
        text = " ".join(w for w in (*words, dtype) if w).lower()
        return self.only is None or fnmatch.fnmatchcase(text, f"*{self.only.lower()}*")


@dataclass
class Verification(Survey):
    """The outcomes of ``verify``, including skipped checks with their reason."""

    verdicts = ("conforms", "deviates", "inconclusive", "error", "skipped", *OF_LIBRARIES)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of outcomes with each verdict; those of libraries only if any."""
        return {v: n for v, n in super().counts.items() if n or v not in OF_LIBRARIES}

    @property
    def exit_code(self) -> int:
        """Return 1 if a backend deviates, 3 if a check gave no verdict or none ran, else 0."""
        if any(o.verdict == "deviates" and o.ours for o in self.outcomes):
            return 1
        if self.counts["error"] or any(
            o.verdict == "inconclusive" and o.ours for o in self.outcomes
        ):
            return 3
        return 0 if any(o.executed for o in self.outcomes) else 3

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        return self.head(self.exit_code) | {"outcomes": [o.to_dict() for o in self.outcomes]}


def verify(
    options: Options | None = None, *, processes: int = 0, progress: Progress | None = None
) -> Verification:
    """Judge every installed backend and library, in ``processes`` processes (0: in this one)."""
    begin = time.perf_counter()
    options = options or Options()
    groups = _groups(options)
    absent = [group for group in groups if _absent(group)]  # they need no process
    done = [outcome for group in absent for outcome in judge_group(group, options)]
    with tempfile.TemporaryDirectory(prefix="posenc-verify-") as folder:
        done += run(
            [group for group in groups if group not in absent],
            partial(judge_group, options=options, folder=folder if processes else None),
            failed_group,
            processes=processes,
            reuse=False,
            progress=progress,
        )
    order = _order()
    done.sort(key=lambda o: order.index(o.group))
    return Verification(done, time.perf_counter() - begin)


def _order() -> list[str]:
    return [*(b.name for b in backends()), CERTIFICATE, GOLDEN, *LIBRARIES]


def _groups(options: Options) -> list[str]:
    """Return the names of the groups, those that take longest first."""
    longest = (
        "jax", CERTIFICATE, "array_api_strict", "torch", "numpy", "dask", "transformers",
        "rotary-embedding-torch", "x-transformers",
    )  # fmt: skip
    slow = {name: n - len(longest) for n, name in enumerate(longest)} | {GOLDEN: 1}
    found = _backends()

    def wanted(name: str) -> bool:
        if options.libraries:
            return name in options.libraries
        if name in found:
            return bool(_dtypes(found[name], options))
        if name in (CERTIFICATE, GOLDEN):
            return options.wants(name) and not options.dtypes
        listed = any(function.library == name and function.dtypes for function in functions())
        return listed and (bool(_jobs(name, options)) or options.wants(name))

    return sorted(filter(wanted, _order()), key=lambda name: slow.get(name, 0))


def _absent(group: str) -> bool:
    """Return whether a group is a library of which nothing can be judged here."""
    return group in LIBRARIES and (group in missing() or importlib.util.find_spec("torch") is None)


def judge_group(group: str, options: Options, folder: str | None = None) -> Iterator[Outcome]:
    """Yield the outcome of each check of a group.

    Processes that share a ``folder`` compute each expected output in 50 digits once.
    """
    with kept_in(folder):
        yield from _judge_group(group, options)


def _judge_group(group: str, options: Options) -> Iterator[Outcome]:
    found = _backends().get(group)
    if found is not None:
        with scheduled(found):
            yield from _judge_backend(found, options)
    elif group == CERTIFICATE:
        yield certificate(options.full)
    elif group == GOLDEN:
        yield golden_vectors()
    else:
        yield from _judge_library(group, options)


def failed_group(group: str, reason: str) -> Outcome:
    """Return the outcome of a group in which not all checks could run."""
    kinds = {CERTIFICATE: "certificate", GOLDEN: "vectors"} | dict.fromkeys(_backends(), "backend")
    return Outcome(kinds.get(group, "library"), group, verdict="error", reason=reason)


def _backends() -> dict[str, Backend]:
    return {b.name: b for b in backends()}


def _judge_backend(backend: Backend, options: Options) -> Iterator[Outcome]:
    blank = Outcome("backend", backend.name, backend.version)
    kinds = _dtypes(backend, options)
    reason = backend.missing()
    if reason is not None:
        yield blank.replace(reason=reason)
        return
    once = set(ONCE)
    if backend.name in QUICK and not (options.full or options.dtypes):
        quick = QUICK[backend.name]
        for dtype in (d for d in kinds if d not in quick):
            why = f"{backend.name} takes long; --full or --dtype judges this dtype"
            yield blank.replace(dtype=dtype, reason=why)
        kinds = [d for d in kinds if d in quick]
        for dtype in kinds[1:]:
            if any(options.wants(backend.name, label, dtype=dtype) for label in labels()):
                why = "no formulas in 50 digits in this dtype; --full or --dtype judges them"
                yield blank.replace(dtype=dtype, reason=why)
        once |= set(labels())
    # Fewer channels need fewer calls; NumPy and torch get heads of full size.
    dim = 64 if options.full or backend.name in ("numpy", "torch") else 16
    reduced = backend.name in QUICK and not options.full
    judge = check_reduced if reduced else check
    devices = backend.devices()
    for device in devices:
        exact = wide(backend, device)
        angles = "exact" if exact else None
        place = device if len(devices) > 1 else None
        finished: set[str] = set()
        for dtype in kinds:
            here = blank.replace(device=place, dtype=dtype)
            if dtype == "float64" and not exact:
                yield here.replace(reason=f"{device} has no float64")
                continue
            for own in own_surfaces(backend, dtype, device, dim):
                wanted = options.wants(backend.name, own.label, dtype=dtype)
                if not wanted or own.label in finished:
                    continue
                if own.once:
                    finished.add(own.label)
                if reduced and own.label in LEFT_OUT:
                    why = f"{backend.name} takes long; --full judges this surface"
                    yield here.replace(label=own.label, surface=own.surface, reason=why)
                    continue
                judge_one = partial(
                    judge, own.fn, own.encoding, own.surface,
                    backend=backend.name, dtype=dtype, device=device, angles=angles, strict=True,
                )  # fmt: skip
                yield _timed(here.replace(label=own.label, surface=own.surface), judge_one)
            for label, entry in labels().items():
                wanted = options.wants(backend.name, label, dtype=dtype)
                if not wanted or (label in once and dtype != kinds[0]):
                    continue
                one = here.replace(label=label)
                if importlib.util.find_spec("mpmath") is None:
                    yield one.replace(reason=NO_MPMATH)
                else:
                    most = 1 if reduced else None
                    vectors = partial(judge_entry, entry, backend, dtype, device, one, angles, most)
                    yield _timed(one, vectors)


def _timed(blank: Outcome, judge: Callable[[], Report | Outcome]) -> Outcome:
    """Return the outcome of ``judge`` with its duration; exceptions become an error outcome."""
    begin = time.perf_counter()
    try:
        found = judge()
    except Exception as error:
        return blank.replace(verdict="error", reason=one_line(error))
    if isinstance(found, Report):
        what = {"surface": found.surface, "encoding": found.encoding}
        found = judged(blank, found).replace(**what)
    return found.replace(seconds=time.perf_counter() - begin)


def _dtypes(backend: Backend, options: Options) -> list[str]:
    """Return the dtypes of ``backend`` in which some check is selected."""
    every = (*LABELS, *labels())
    return [
        d
        for d in backend.dtypes
        if any(options.wants(backend.name, label, dtype=d) for label in every)
    ]


def _judge_library(name: str, options: Options) -> Iterator[Outcome]:
    absent = missing()
    blank = Outcome("library", name, version(name) or "")
    if name in absent:
        yield blank.replace(reason=f"{name} is not installed; pip install '{absent[name]}'")
    elif importlib.util.find_spec("torch") is None:
        why = f"{name} is judged through torch, which is not installed; pip install torch"
        yield blank.replace(version="", reason=why)
    else:
        for function, dtype in _jobs(name, options):
            here = blank.replace(label=function.label, dtype=dtype, source=function.source)
            yield _timed(here, partial(_judge_function, here, function, dtype))


def _judge_function(blank: Outcome, function: LibraryFunction, dtype: str) -> Report | Outcome:
    """Return the report of a function, or why this release of its library has none.

    An adapter is written for the newest release.  A class that another release lacks, or a call
    that it does not accept, is no deviation.
    """
    if function.expected is None:
        return blank.replace(verdict="gap", reason=f"no encoding describes it: {function.says}")
    try:
        found = function.make()  # its encoding, if any, has the weights (T5's table)
    except Exception as error:
        return blank.replace(verdict="undrivable", reason=f"cannot be built: {one_line(error)}")
    report = check(found, found.encoding or function.expected, dtype=dtype)
    if report.codes == ["raises"] and not report.executed:
        finding = report.findings[0]
        why = f"a required call raises: {finding.message} ({finding.evidence})"
        return blank.replace(verdict="undrivable", reason=why)
    return report


def _jobs(name: str, options: Options) -> list[tuple[LibraryFunction, str]]:
    """Return the functions of the library ``name``, each with every selected dtype."""
    every = options.full or options.dtypes
    otherwise = TABLES if name in options.libraries else ()
    return [
        (function, dtype)
        for function in functions()
        if function.library == name
        for dtype in function.dtypes or otherwise
        if (every or dtype in LIBRARY_DTYPES) and options.wants(name, function.label, dtype=dtype)
    ]
