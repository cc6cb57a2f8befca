"""Compare verdicts between machines and versions: python tools/verdicts.py --matrix PYTHON ...

It judges a part of the corpus (every code, every surface; about 20 s) and keeps the verdict and the
codes of each case.  ``--json FILE`` writes one run.  ``--compare FILE FILE ...``
compares runs.  ``--matrix`` runs under each given interpreter and each of `VARIANTS`, compares the
runs and prints the table of docs/generated/verdicts.md.  An interpreter needs posenc_ref and
ml_dtypes only.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: For most codes the cheapest implementation with it, on a surface with arithmetic.
WRONG = (
    "added-by-batch", "alibi-scores-inside-the-scale", "alibi-scores-rewarding-distance",
    "attention-factor-missing-from-the-tables", "base-overflows-fixed-point",
    "bf16-frequencies-behind-a-bf16-output", "bf16-tables", "cache-rotates-new-keys-only",
    "causal-buckets-for-an-encoder", "decode-counts-steps", "decode-first-row-only",
    "decode-table-kept-by-length", "decoder-buckets-for-the-future", "fp16-positions",
    "future-keys-are-free", "grid-with-height-for-width", "half-split-and-default-base",
    "halves-swapped", "head-dim-in-the-denominator", "heads-and-sequence-come-back-swapped",
    "ids-share-the-padding-row", "index-with-the-wrong-factor", "inflated-tables",
    "integer-division-in-the-exponent", "integer-tables", "kimi-consecutive-axes",
    "layers-all-rotate", "llama3-dropped-from-the-tables", "logarithm-in-bf16",
    "mask-not-looked-at", "max-distance-64", "multiplied-by-the-divisor",
    "nan-at-position-zero", "normalises-long-vectors", "ntk-where-linear-is-declared",
    "offset-added-in-place", "offset-with-the-default-base", "packed-segment-ids",
    "permuted-the-inverse-way", "power-overflows-fp16", "proportional-instead-of-partial",
    "qk-key-heads-for-positions", "qk-keys-at-the-positions-of-queries", "qk-keys-stay-raw",
    "qk-keys-turn-back", "queries-at-the-front", "random-rows", "rank-slopes-naive",
    "rank-slopes-strided", "rows-one-late", "scale-without-root", "scores-by-distance",
    "scores-by-key", "second-channel-uses-the-new-first", "shard-counts-its-own",
    "shift-drops-the-last-row", "shift-rotates-anew", "short-two-pi",
    "slice-returned-behind-the-rest", "table-does-not-broadcast", "table-from-one",
    "tiled-slice-tables-with-adjacent-swap", "trailing-slice",
    "vision-height-and-width-exchanged", "weighted-after-the-rotation", "yarn-truncated-table",
)  # fmt: skip
#: Correct implementations with a note.
NOTED = ("plain-gather", "xpos-centred")
#: Correct implementations that round differently.
CORRECT = (
    "angle-addition", "bf16-kernel-behind-float32", "by-thresholds", "calls-of-one-table",
    "cosine-as-shifted-sine", "decode-one-prompt", "decoder-bias-with-a-batch-axis",
    "dense-matrices", "llama3-complex", "llama3-table", "normed-first",
    "offset-rows-of-acomplex-table", "rows-by-rotation", "scale-of-deepseek",
    "scores-by-difference", "shift-by-one-matrix", "slopes-by-powers",
    "tangent-of-the-half-angle", "vjp-with-the-factor", "wan-complex",
    "yarn-frequencies-and-factor", "yarn-with-bf16-tables",
)  # fmt: skip

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: The variants: environment variables, and CPU features to disable.
VARIANTS = {
    "default": ({}, ""),
    "1 thread": (dict.fromkeys(_THREADS, "1"), ""),
    "2 threads": (dict.fromkeys(_THREADS, "2"), ""),
    "without AVX-512": ({"OPENBLAS_CORETYPE": "Haswell"}, "avx512"),
    "baseline CPU": ({"OPENBLAS_CORETYPE": "Nehalem"}, "all"),
}


def corpus():
    """Return every case by name."""
    sys.path.insert(0, str(ROOT))
    from tests import mutants

    return {case.name: case for case in (*mutants.WRONG, *mutants.CORRECT)}


def chosen():
    """Return the names above, then the first case of each code and surface that they lack."""
    known = corpus()
    names = [*WRONG, *NOTED, *CORRECT]
    seen = {feature for name in names for feature in _features(known[name])}
    for name, case in known.items():
        if not _features(case) <= seen:
            names.append(name)
            seen |= _features(case)
    return names


def _features(case):
    return {("surface", case.surface), *(("code", code) for code in case.expected[:1])}


def judged(names):
    """Return {name: [verdict, code, ...]}; notes are marked."""
    known = corpus()
    import posenc_ref
    from posenc_ref.conformance import check

    unknown = sorted(set(names) - known.keys())
    if unknown or not names:
        raise SystemExit(f"there are no cases {', '.join(unknown) or 'to judge'}")
    found = {}
    for name in names:
        case = known[name]
        encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
        options = {"name": name, "factory": case.make, **case.kwargs}
        report = check(case.make(), encoding, case.surface, **options)
        codes = [f.code if f.severity == "error" else f"{f.code} (note)" for f in report.findings]
        found[name] = [report.verdict, *codes]
    return found


def features(which):
    """Return the CPU features in use that NumPy can disable: "avx512" or "all"."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    present = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    # What older versions of NumPy call AVX512_SKX, newer ones call X86_V4.
    wide = [name for name in present if name.startswith("AVX512") or name == "X86_V4"]
    return {"avx512": wide, "all": present, "": []}[which]


def environment():
    """Return the environment; `sin` is the code path that NumPy takes for float64."""
    import array_api_compat
    import numpy as np
    from numpy.lib.introspect import opt_func_info

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "array_api_compat": array_api_compat.__version__,
        "sin": opt_func_info(func_name="^sin$", signature="float64")["sin"]["dd"]["current"],
        "disabled": os.environ.get("NPY_DISABLE_CPU_FEATURES", ""),
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
    }


def run(python, variant, names, path):
    """Run in a subprocess, which writes ``path``; return its content."""
    changes, which = VARIANTS[variant]
    script = str(Path(__file__).resolve())
    env = {k: v for k, v in os.environ.items() if k not in (*_THREADS, "NPY_DISABLE_CPU_FEATURES")}
    if which:
        ask = [python, script, "--features", which]
        listed = subprocess.run(ask, env=env, capture_output=True, text=True, check=True).stdout
        if listed.strip():
            env["NPY_DISABLE_CPU_FEATURES"] = listed.strip()
    command = [python, script, "--json", str(path), "--cases", *names]
    subprocess.run(command, env={**env, **changes}, check=True)
    return json.loads(Path(path).read_text(encoding="utf-8"))


def differences(runs):
    """Return one line per difference from the first of the runs {label: content}."""
    labels = list(runs)
    first = runs[labels[0]]["cases"]
    lines = [] if first else [f"{labels[0]}: no case was judged"]
    for label in labels[1:]:
        other = runs[label]["cases"]
        for name in sorted(first.keys() | other.keys()):
            ours, theirs = first.get(name, ["not judged"]), other.get(name, ["not judged"])
            if ours != theirs:
                lines.append(f"{label}: {name}: {' '.join(theirs)}, not {' '.join(ours)}")
    return lines


def table(runs):
    """Return the runs as a Markdown table."""
    lines = ["| Python | NumPy | variant | `sin` of float64 | cases | differ |", "|" + " --- |" * 6]
    first = next(iter(runs))
    for (_, variant), done in runs.items():
        at = done["environment"]
        count = len(differences({first: runs[first], variant: done}))
        row = (at["python"], at["numpy"], variant, at["sin"], len(done["cases"]), count)
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)


def matrix(pythons, names):
    """Run every variant under every interpreter; return the exit code."""
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for python in pythons:
            for variant in VARIANTS:
                path = Path(folder) / f"{len(runs)}.json"
                runs[python, variant] = run(python, variant, names, path)
                print(f"{python}, {variant}: done", file=sys.stderr)
    print(table(runs))
    wrong = differences(runs)
    print("\n".join(wrong) or f"the same verdicts and codes in {len(runs)} runs", file=sys.stderr)
    return 1 if wrong else 0


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--json", metavar="FILE", help="judge here and write FILE")
    what.add_argument("--compare", nargs="+", metavar="FILE", help="compare runs")
    what.add_argument("--matrix", nargs="+", metavar="PYTHON", help="interpreters to run under")
    what.add_argument("--features", choices=("avx512", "all"), help="what NumPy can leave here")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="only these")
    args = parser.parse_args()
    if args.features:
        print(" ".join(features(args.features)))
    elif args.json:
        done = {"environment": environment(), "cases": judged(args.cases or chosen())}
        Path(args.json).write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    elif args.compare:
        if len(args.compare) < 2:
            parser.error("--compare takes at least two files: one run agrees with itself")
        runs = {name: json.loads(Path(name).read_text("utf-8")) for name in args.compare}
        wrong = differences(runs)
        print("\n".join(wrong) or f"the same verdicts and codes in {len(runs)} runs")
        return 1 if wrong else 0
    else:
        return matrix(args.matrix, args.cases or chosen())
    return 0


if __name__ == "__main__":
    sys.exit(main())
