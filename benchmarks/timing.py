"""Timing in rounds over all candidates, so that a disturbance affects all of them."""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

INSTALL = 'python -m pip install -e ".[torch,jax,peers,runtimes,plots]" -c constraints-test.txt'


#: The limits for the pairs, of which each group has the first or another: of calls that write
#: into an existing array, and of those that make a new one.
LIMITS = ("limit: one-pass multiply", "limit: fill", "limit: np.copyto")
FRESH = ("limit: fresh fill", "limit: fresh copy", *LIMITS)


@dataclass
class Candidate:
    """A function to time."""

    name: str
    call: Callable[[], object]
    moved: int = 0  # bytes read and written
    error: float | None = None  # the largest absolute error of the result
    samples: list[float] = field(default_factory=list)
    #: Processor time of a call, and of one of the limit right after it, in seconds.
    paired: list[tuple[float, float]] = field(default_factory=list)

    @property
    def median(self):
        """Seconds."""
        return statistics.median(self.samples)

    @property
    def best(self):
        """Seconds."""
        return min(self.samples)


def measure(candidates, rounds=15, least=0.02, warm=2):
    """Fill in the samples: each round times every candidate once, for at least ``least`` s.

    A call of less than a second is repeated first, as it would otherwise pay for the memory that
    the candidate before it released.

    Right after a candidate of ours on one thread, the limit runs for as long, so that both share a
    disturbance of the caches and of the clock.  Other processes take nothing of the processor time
    of both.
    """
    repeats, took, quick = {}, {}, set()
    named = {c.name: c for c in candidates}
    for c in candidates:
        for _ in range(warm):
            c.call()
        took[c.name] = max(timed(c.call)[0], 1e-9)
        repeats[c.name] = max(1, round(least / took[c.name]))
        if took[c.name] < 1:
            quick.add(c.name)
    for _ in range(rounds):
        for c in candidates:
            if c.name in quick:
                c.call()
            seconds, of_processor = timed(c.call, repeats[c.name])
            c.samples.append(seconds)
            limits = [named[n] for n in (FRESH if "fresh" in c.name else LIMITS) if n in named]
            if limits and c.name.startswith("ours") and not c.name.endswith("threads"):
                limit = limits[0]
                limit.call()
                n = max(1, round(repeats[c.name] * took[c.name] / took[limit.name]))
                c.paired.append((of_processor, timed(limit.call, n)[1]))
    return candidates


def timed(call, times=1):
    """Return the seconds that a call takes, and those of the processor, as means."""
    start, of_processor = time.perf_counter(), time.process_time()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times, (time.process_time() - of_processor) / times


def table(candidates, against, unit="ms"):
    """Return Markdown rows: medians, and ratios to the candidates named in ``against``."""
    scale = {"ms": 1e3, "us": 1e6}[unit]
    bases = {name: next(c for c in candidates if c.name == name) for name in against}
    head = ["what", f"median {unit}", f"best {unit}", *(f"x {n}" for n in against), "max error"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" + "---:|" * (len(head) - 1)]
    for c in candidates:
        ratios = [f"{c.median / b.median:.2f}" for b in bases.values()]
        error = "" if c.error is None else f"{c.error:.1e}"
        cells = [c.name, f"{c.median * scale:.3g}", f"{c.best * scale:.3g}", *ratios, error]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def record(candidates):
    """Return the same for JSON."""
    return [
        {"name": c.name, "median_s": c.median, "best_s": c.best, "samples_s": c.samples,
         "paired": c.paired, "max_error": c.error}
        for c in candidates
    ]  # fmt: skip


def arguments(description, rounds):
    """Return a parser of the options that all benchmarks share."""
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=raw)
    parser.add_argument("--rounds", type=positive, default=rounds, help="how often each is timed")
    parser.add_argument("--markdown", type=Path, help="a file for what is printed")
    parser.add_argument("--json", type=Path, help="a file for every sample")
    return parser


def needed(*modules):
    """Exit now, not after minutes, if a module is missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"not installed: {', '.join(missing)}. What the benchmarks use comes with\n{INSTALL}"
        )


def positive(text):
    """Parse an integer above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer above 0, got {text!r}")
    return int(text)


def heading(facts):
    """Return the date and the machine, the first line of a report."""
    return f"{datetime.date.today()}, " + ", ".join(f"{k} {v}" for k, v in facts.items())


def publish(options, parts, data):
    """Print the parts, and write the requested files."""
    text = "\n".join(parts)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def environment(*packages):
    """Return the machine and the versions."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            line = next(text for text in info if text.startswith("model name"))
        found["cpu"] = line.split(":", 1)[1].strip()
    except (OSError, StopIteration):
        found["cpu"] = platform.processor() or "unknown"
    found["cores"] = os.cpu_count()
    if hasattr(os, "getloadavg"):  # not on Windows; other work makes all numbers worse
        found["load"] = f"{os.getloadavg()[0]:.1f}"
    found["threads"] = os.environ.get("OMP_NUM_THREADS", "as the libraries choose")
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
