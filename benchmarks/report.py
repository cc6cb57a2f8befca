"""Run every CPU benchmark, compare it with the goals, and write Markdown, JSON and plots.

python benchmarks/report.py                          # prints; fifteen minutes, 5 GiB
python benchmarks/report.py --output docs/generated  # writes benchmarks.* and cost-laws.svg
python benchmarks/report.py --quick                  # smaller shapes; a minute
python benchmarks/report.py --quick --keep FOLDER    # and what became slower there

Most goals are ratios within one run. The others are in the units that they name.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import history
from timing import needed

HERE = Path(__file__).resolve().parent
QUICK = {
    "rope.py": ["--shape", "1,16,1024,128", "--no-compile", "--rounds", "7"],
    "tables.py": ["--scale", "0.0625", "--rounds", "5"],
    "cost_laws.py": ["--quick"],
    "judge.py": ["--quick"],
}
TITLES = {
    "rope.py": "Rotation",
    "tables.py": "Tables and biases",
    "cost_laws.py": "Cost laws",
    "judge.py": "The judge",
}
#: What is measured on two threads too, in fewer rounds.
TWO = {"rope.py": ["--rounds", "9"], "tables.py": ["--rounds", "3"]}
FILL = "limit: fill"
WITH_NUMBA, NUMPY_ALONE = "ours with Numba", "ours NumPy alone"
INTRODUCTION = """# Speed on a CPU, beside others

Made by `python benchmarks/report.py --output docs/generated`, which runs a script for each section.
A section begins with the date of its run and the machine; *load* is the average number of running
processes of the minute before, and *gpu* the GPU that torch found.

float32 unless stated otherwise. Each round times every candidate once, after a warm-up call, so
that a disturbance affects all of them; numbers are medians. *out=* writes into an existing array;
*fresh* returns a new one, whose page faults often cost more than the arithmetic, so compare like
with like. A column *x NAME* is the median divided by that of the row NAME. *max error* is the
largest error against exact angles.

## Goals
"""


class Group:
    """The medians of one table."""

    def __init__(self, rows):
        self.seconds = {row["name"]: row["median_s"] for row in rows}

    def ratio(self, one, other):
        """Return the time of ``one`` over that of ``other``; None if either was left out."""
        if one not in self.seconds or other not in self.seconds:
            return None
        return self.seconds[one] / self.seconds[other]


def goals(data):
    """Return {goal: (limit, measured, whether it is met)}; all runs have as many threads."""
    f32, bf16 = Group(data["rope"]["float32"]), Group(data["rope"]["bfloat16"])
    decode = Group(data["rope"].get("decode", [])).seconds
    tables = {name.split(" [")[0]: Group(rows) for name, rows in data["tables"].items()
              if name != "environment"}  # fmt: skip
    llama, gptj = "transformers Llama (half), fresh", "transformers GPT-J (interleaved), fresh"
    once, plus = "limit: one-pass multiply", "limit: JAX jitted x + 1"
    found = {}

    def at_most(what, limit, value):
        found[what] = f"<= {limit:g}", value, value is None or value <= limit

    def at_least(what, limit, value):
        found[what] = f">= {limit:g}", value, value is None or value >= limit

    for layout, pass_, out, fresh, decoded, peer in (
        ("interleaved", 1.2, 10, 5, 8, gptj), ("half", 3, 4, 3, 10, llama),
    ):  # fmt: skip
        ours = f"ours NumPy {layout}"
        there = f"{ours}, out="
        at_most(f"NumPy {layout}, out= / one-pass multiply", pass_, f32.ratio(there, once))
        at_least(f"transformers eager / NumPy {layout}, out=", out, f32.ratio(peer, there))
        at_least(
            f"transformers eager / NumPy {layout}, fresh against fresh", fresh,
            f32.ratio(peer, f"{ours}, fresh"),
        )  # fmt: skip
        for library in ("NumPy", "torch"):
            at_least(
                f"bfloat16: transformers eager / {library} {layout}, fresh", 1,
                bf16.ratio(peer, f"ours {library} {layout}, fresh"),
            )  # fmt: skip
        token = decode[there] * 1e6 if decode else None
        at_most(f"one token, prepared call, {layout}, microseconds", decoded, token)
        narrow = bf16.ratio(f"ours Numba {layout}, out=", "limit: np.copyto")
        at_most(f"bfloat16: Numba {layout}, out= / copy", 2, narrow)
        at_most(f"JAX {layout} / jitted x + 1", 1.8, f32.ratio(f"ours JAX {layout}, jitted", plus))
    half = "ours Numba half, out="
    at_most("Numba half, out= / one-pass multiply", 1.6, f32.ratio(half, once))
    at_least("transformers eager / Numba half, out=", 8, f32.ratio(llama, half))
    for there in ("ours NumPy interleaved, out=", half):
        several = f32.ratio(there, f"{there}, 2 threads")
        at_least(f"{there[5:]}, one thread / two", 1.7, several)
    for what in ("compiled", "compiled, and backward"):
        at_least(
            f"transformers {what} / torch half {what}", 2.5,
            f32.ratio(f"transformers Llama (half), {what}", f"ours torch half, {what}"),
        )  # fmt: skip
    torch = f32.ratio("ours torch interleaved, fresh", "limit: torch fresh copy")
    at_most("torch interleaved, fresh / torch fresh copy", 1.5, torch)
    at_least(
        "transformers eager / torch interleaved, fresh", 3.5,
        f32.ratio(gptj, "ours torch interleaved, fresh"),
    )  # fmt: skip
    for name in ("sinusoidal", "rotary cos and sin"):
        for row, fill in ((WITH_NUMBA, 2.2), (NUMPY_ALONE, 3.5)):
            by = row[5:]
            at_most(f"{name}, {by}, out= / fill", fill, tables[name].ratio(f"{row}, out=", FILL))
            fresh = tables[name].ratio(f"{row}, fresh", "limit: fresh fill")
            at_most(f"{name}, {by}, fresh / fresh fill", 3, fresh)
            peer = tables[name].ratio("NumPy, float64 angles", f"{row}, fresh")
            at_least(f"NumPy float64 / {name}, {by}, fresh", 15, peer)
    view = tables["ALiBi"].seconds["ours, a view"]
    at_most("ALiBi as a view, milliseconds", 1, view * 1e3)
    for row in (WITH_NUMBA, NUMPY_ALONE):
        written = tables["ALiBi"].ratio(f"{row}, out=", FILL)
        at_most(f"ALiBi written out, {row[5:]} / fill", 1.3, written)
    for name, row, peer, least, most in (
        ("T5", NUMPY_ALONE, "transformers", 15, 2),
        ("Swin", NUMPY_ALONE, "Swin's code, by torch", 15, 3),
        ("DeBERTa buckets", "ours", "transformers", 10, 2),
    ):
        group = tables[name]
        at_least(f"{peer} / {name}, out=", least, group.ratio(peer, f"{row}, out="))
        at_most(f"{name} written out / fill", most, group.ratio(f"{row}, out=", FILL))
    for curve in data.get("cost_laws", {"curves": []})["curves"]:
        if curve["kind"] == "memory" and not curve["name"].startswith("ALiBi"):
            most, numbers = curve["values"][-1], curve["sizes"][-1] * 64
            if "out=" in curve["name"]:
                at_most(f"peak memory, {curve['name']}, MiB", 1, most / 2**20)
            else:
                at_most(f"peak memory, {curve['name']} / result", 1.02, most / (4 * numbers))
    for row in data.get("judge", {"rows": []})["rows"]:
        at_most(row["goal"], row["limit"], row["measured"])
    return found


def as_markdown(data):
    """Return the goals as a table, with a column for one thread and one for two."""
    rows = ["| goal | limit | one thread | two threads |", "|---|---:|---:|---:|"]
    columns = [goals(data), goals(data["two threads"]) if "two threads" in data else {}]
    for what, (limit, *_) in columns[0].items():
        cells = [_cell(*column[what][1:]) if what in column else "" for column in columns]
        cells[0] = cells[0] or "left out"
        rows.append(f"| {what} | {limit} | {cells[0]} | {cells[1]} |")
    once = "limit: one-pass multiply"
    several = Group(data["rope"]["float32"]).ratio(once, f"{once}, 2 threads")
    if several is not None:
        rows += [
            "",
            f"On two threads, a one-pass multiply is {several:.2f} times as fast as on one. The "
            "memory limits it, so a rotation that is nearly as fast gains about as much.",
        ]
    return "\n".join(rows)


def _cell(value, met):
    return "" if value is None else f"{value:.3g}{'' if met else ' **missed**'}"


def plot(data, path):
    """Draw bars of the float32 rotation into new arrays."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "posenc_ref"
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    kinds = {"ours": "#0072b2", "limit": "#999999", "others": "#d55e00"}
    rows = [r for r in data["rope"]["float32"] if "out=" not in r["name"]]
    rows = [r for r in rows if r["name"] not in ("limit: np.copyto", "limit: one-pass multiply")]
    rows.sort(key=lambda r: -r["median_s"])
    figure, axes = plt.subplots(figsize=(8, 0.28 * len(rows) + 1.2), layout="constrained")
    colours = [kinds.get(r["name"].split()[0].rstrip(":"), kinds["others"]) for r in rows]
    bars = axes.barh([r["name"] for r in rows], [r["median_s"] * 1e3 for r in rows], color=colours)
    axes.bar_label(bars, fmt="%.3g", padding=3)
    axes.margins(x=0.1)
    axes.legend([Patch(color=c) for c in kinds.values()], list(kinds), loc="upper right")
    shape = ", ".join(map(str, data["rope"]["shape"]))
    axes.set_xlabel(f"median ms, [{shape}], one thread")
    axes.set_title("Rotation of float32 into a new array")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def measured(script, options, threads=1):
    """Return the page and the data of one benchmark."""
    print(f"{script}, threads: {threads} ...", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        page, data = Path(folder) / "page.md", Path(folder) / "data.json"
        command = [sys.executable, str(HERE / script), *options]
        subprocess.run(
            [*command, "--markdown", str(page), "--json", str(data)],
            check=True, stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )  # fmt: skip
        return page.read_text(encoding="utf-8"), json.loads(data.read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="the folder for benchmarks.{md,json,svg}")
    parser.add_argument("--quick", action="store_true", help="smaller shapes, no torch.compile")
    parser.add_argument("--keep", type=Path, help="the folder of the last reports, to compare with")
    options = parser.parse_args()
    if options.output is not None:
        needed("matplotlib")
    pages, data = [], {}
    for script, title in TITLES.items():
        given = QUICK[script] if options.quick else []
        if script == "cost_laws.py" and options.output is not None:
            options.output.mkdir(parents=True, exist_ok=True)
            given = [*given, "--plot", str(options.output / "cost-laws.svg")]
        page, data[script[:-3]] = measured(script, given)
        pages.append(f"## {title}\n\n{page.strip()}\n")
    if not options.quick and (os.cpu_count() or 1) > 1:
        data["two threads"] = {}
        for script, given in TWO.items():
            page, data["two threads"][script[:-3]] = measured(script, given, threads=2)
            pages.append(f"## {TITLES[script]}, two threads\n\n{page.strip()}\n")
    text = f"{INTRODUCTION}\n{as_markdown(data)}\n\n" + "\n".join(pages)
    if options.keep is not None:
        text += "\n" + history.section(data, options.keep)
    if options.output is None:
        print(text)
        return
    text = text.replace("## Rotation\n", "## Rotation\n\n![Medians](benchmarks.svg)\n", 1)
    text = text.replace("## Cost laws\n", "## Cost laws\n\n![Costs](cost-laws.svg)\n", 1)
    (options.output / "benchmarks.md").write_text(text, encoding="utf-8")
    (options.output / "benchmarks.json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    plot(data, options.output / "benchmarks.svg")


if __name__ == "__main__":
    main()
