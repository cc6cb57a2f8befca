"""Measure time and peak memory over sequence length, heads and dimension, and draw the theory.

python benchmarks/cost_laws.py --plot docs/generated/cost-laws.svg  # minutes, 2 GiB
python benchmarks/cost_laws.py --quick                                # small sizes

Theory: a rotation reads and writes S H D numbers once.  A table stores S D numbers and computes few
sines.  A bias of the distance has Q + K numbers as a view, and stores Q K numbers with out=.  On
logarithmic axes these are straight lines of slope 1 (2 for the stores of the bias, 0 for the memory
of a rotation with out=); small sizes cost the call itself.  Peak memory excludes inputs and out=.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from timing import Candidate, arguments, environment, heading, measure, needed, publish

import posenc_ref as pr
from posenc_ref.backends import fused

#: Each name has one colour in all panels; marks are hollow and of several sizes, as some coincide.
COLOURS = {
    "interleaved, out=": ("#0072b2", "o", 4),
    "interleaved, fresh": ("#56b4e9", "s", 8),
    "half, out=": ("#d55e00", "o", 4),
    "half, fresh": ("#e69f00", "s", 4),
    "sinusoidal table, out=": ("#009e73", "^", 5),
    "ALiBi, a view": ("#000000", "v", 5),
    "ALiBi, out=": ("#cc79a7", "D", 8),
}


@dataclass
class Law:
    """One curve: ``make(n)`` returns a call whose cost should grow as n to the power."""

    name: str
    axis: str
    power: float
    sizes: tuple
    make: object
    memory: bool = False
    slope: float = float("nan")


def rotation(layout, shape, out=False):
    x = np.ones(shape, np.float32)
    goal = np.empty_like(x) if out else None
    ready = fused(pr.RoPE(shape[-1], layout=layout)).prepare(range(shape[-2]), like=x)
    return lambda: ready(x, out=goal)


def table(length, dim):
    goal, fast = np.empty((length, dim), np.float32), fused(pr.Sinusoidal(dim))
    return lambda: fast(range(length), out=goal)


def bias(length, out=False):
    fast = fused(pr.ALiBi(4))
    goal = np.empty((4, length, length), np.float32) if out else None
    return lambda: fast(length, length, out=goal)


def laws(largest):
    """Return the curves, up to 2**largest positions."""
    long = tuple(2**n for n in range(7, largest + 1))
    few = tuple(n for n in long if n <= 2**12)
    heads = tuple(2**n for n in range(max(3, largest - 12)))
    dims = tuple(2**n for n in range(4, max(8, largest - 9)))
    rows = min(2**12, long[-1])
    found = []
    for layout in ("interleaved", "half"):
        found += [
            Law(f"{layout}, out=", "S", 1, long,
                lambda n, k=layout: rotation(k, (1, 1, n, 64), True)),
            Law(f"{layout}, out=", "H", 1, heads,
                lambda n, k=layout: rotation(k, (1, n, rows, 64), True)),
            Law(f"{layout}, out=", "D", 1, dims,
                lambda n, k=layout: rotation(k, (1, 1, rows, n), True)),
            Law(f"{layout}, fresh", "S", 1, long,
                lambda n, k=layout: rotation(k, (1, 1, n, 64)), memory=True),
            Law(f"{layout}, out=", "S", 0, long,
                lambda n, k=layout: rotation(k, (1, 1, n, 64), True), memory=True),
        ]  # fmt: skip
    found += [
        Law("sinusoidal table, out=", "S", 1, long, lambda n: table(n, 64)),
        Law("ALiBi, a view", "S", 1, long, bias),
        Law("ALiBi, out=", "S", 2, few, lambda n: bias(n, True)),
        Law("ALiBi, a view", "S", 1, long, bias, memory=True),
        Law("ALiBi, out=", "S", 1, few, lambda n: bias(n, True), memory=True),
    ]
    return found


def peak(call):
    """Return the peak of newly allocated bytes during a call."""
    call()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = call()
    most = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    del kept
    return most


def costs(law, rounds):
    """Return seconds or bytes for every size; arrays are freed in between."""
    found = []
    for n in law.sizes:
        call = law.make(n)
        if law.memory:
            found.append(peak(call))
        else:
            found.append(measure([Candidate("", call)], rounds, least=0.01, warm=1)[0].best)
    return found


def slope(sizes, values):
    """Return the least-squares slope of the upper half of a curve on logarithmic axes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(np.maximum(values[half:], 1e-12)), 1)[0])


def draw(curves, path):
    """Draw time and memory, with the line of the law through the largest size."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "posenc_ref"
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    places = {("S", False): panels[0, 0], ("S", True): panels[0, 1],
              ("H", False): panels[1, 0], ("D", False): panels[1, 1]}  # fmt: skip
    for law, values in curves:
        axes = places[law.axis, law.memory]
        colour, mark, size = COLOURS[law.name]
        axes.loglog(law.sizes, values, mark, color=colour, ms=size, mfc="none", label=law.name)
        ends = np.array([law.sizes[0], law.sizes[-1]], float)
        theory = values[-1] * (ends / ends[-1]) ** law.power
        axes.loglog(ends, theory, "-", lw=1, color=colour)
    for (axis, memory), axes in places.items():
        what = {"S": "positions S; one head of 64, ALiBi: 4 heads",
                "H": "heads H of 64, all of one length",
                "D": "dimension D of one head, all of one length"}[axis]  # fmt: skip
        axes.set_xlabel(what)
        axes.set_ylabel("peak bytes beside the inputs and out=" if memory else "seconds")
        axes.set_xscale("log", base=2)
        axes.legend(fontsize="small")
    figure.suptitle("Marks are measured; lines have the slope of the law, through the last mark")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main():
    parser = arguments(__doc__, 5)
    parser.add_argument("--quick", action="store_true", help="up to 2**10 positions, one round")
    parser.add_argument("--plot", type=Path, help="a file for the plot, .svg")
    options = parser.parse_args()
    if options.plot:
        needed("matplotlib")
    facts = environment("numpy")
    rows = ["| what | against | law | measured slope | largest | cost there |",
            "|---|---|---:|---:|---:|---:|"]  # fmt: skip
    curves, data = [], {"environment": facts, "curves": []}
    for law in laws(10 if options.quick else 20):
        print(f"{law.name} against {law.axis} ...", file=sys.stderr)
        values = costs(law, 1 if options.quick else options.rounds)
        law.slope = slope(law.sizes, values)
        shown = f"{values[-1] / 2**20:.3g} MiB" if law.memory else f"{values[-1] * 1e3:.3g} ms"
        kind = "memory" if law.memory else "time"
        rows.append(
            f"| {law.name}, {kind} | {law.axis} | {law.power:g} | {law.slope:.2f} | "
            f"{law.sizes[-1]} | {shown} |"
        )
        data["curves"].append(
            {"name": law.name, "kind": kind, "axis": law.axis, "law": law.power,
             "slope": law.slope, "sizes": law.sizes, "values": values}
        )  # fmt: skip
        curves.append((law, values))
    if options.plot:
        draw(curves, options.plot)
    publish(options, [heading(facts), "", *rows], data)


if __name__ == "__main__":
    main()
