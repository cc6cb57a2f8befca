"""Mutation testing of the judges: python tools/mutate.py --copy DIR --out FILE.

Draws a seeded random sample of mutants of the accuracy module, the exact core and the judges, and
runs the tests of each mutant's module (docs/generated/mutation-testing.md has the last run and its
survivors). Cosmic Ray lists and applies the mutants. Its own runner cannot draw at random, cannot
give each module its own tests, and starts an interpreter for each mutant.

``--copy DIR`` is a writable copy of the repository (``git worktree add DIR``), not the checkout;
the package is imported from DIR alone, through the tree of tools/link_types.py. The environment
needs cosmic-ray, posenc_ref's ``cli`` extra, ml_dtypes, hypothesis, pytest and pytest-xdist, and
must not contain posenc_ref. ``--out`` gets one line of JSON for each mutant; mutants that have a
line are not run again.
"""

import argparse
import ast
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

FINE = "posenc_ref/test_fine_print.py"
ROTARY = (FINE, "posenc_ref/test_rope.py", "posenc_ref/test_rotary_forms.py")
SCHEDULES = (
    FINE,
    "posenc_ref/schedules/test_schedules_exact.py",
    "posenc_ref/schedules/test_attention_factor.py",
)
#: Tests by module: files, or ``corpus`` and the surfaces whose cases are judged.
CORE = {
    "posenc_ref/accuracy.py": (
        FINE,
        "posenc_ref/test_accuracy.py",
        "conformance/harness/test_run.py",
    ),
    "posenc_ref/angles.py": (
        FINE,
        "posenc_ref/test_angles.py",
    ),
    "posenc_ref/rotary.py": ROTARY,
    "posenc_ref/rope.py": ROTARY,
    "posenc_ref/schedules/scaling.py": SCHEDULES,
    "posenc_ref/schedules/yarn.py": SCHEDULES,
    "posenc_ref/schedules/llama3.py": SCHEDULES,
}
ORACLES = {
    "conformance/exact/digits.py": ("conformance/exact/test_certificate.py",),
    "conformance/oracle/apply.py": ("corpus cos_sin table bias apply",),
}
JUDGES = {
    "conformance/harness/run.py": ("conformance/harness/test_run.py",),
    "conformance/check.py": ("conformance/test_check.py", "corpus slopes bucket"),
    "conformance/harness/report.py": ("conformance/harness/test_report.py", "corpus slopes bucket"),
    "conformance/harness/state.py": ("conformance/harness/test_state.py",),
    "conformance/phases/properties.py": ("conformance/phases/test_properties.py",),
    "conformance/rotary/judge.py": ("corpus apply",),
    "conformance/rotary/judge_axes.py": ("corpus apply",),
    "conformance/bias/judge.py": ("corpus bias",),
    "conformance/bias/judge_buckets.py": ("corpus bucket",),
    "conformance/sequences/judge_chunks.py": ("corpus decode key_cache",),
    "conformance/rotary/judge_frequencies.py": ("corpus frequencies",),
    "conformance/table/judge_grid_add.py": ("corpus add grid",),
    "conformance/sequences/judge_offsets.py": ("corpus apply_offset calls",),
    "conformance/functions/judge.py": ("corpus packed layers relative_index permute_weights",),
    "conformance/sequences/judge_qk.py": ("corpus apply_qk",),
    "conformance/score/judge.py": ("corpus scores",),
    "conformance/sequences/judge_calls.py": ("corpus calls",),
    "conformance/sequences/judge_shift.py": ("corpus shift_keys",),
    "conformance/bias/judge_slopes.py": ("corpus slopes rank_slopes",),
    "conformance/table/judge.py": ("corpus table cos_sin",),
    "conformance/sequences/judge_vjp.py": ("corpus apply_vjp",),
}
#: How many wrong and how many correct cases of a surface are judged, evenly spaced.
MOST = 2
#: How many mutants of each group are drawn.
GROUPS = {"core": (120, CORE), "oracles": (40, ORACLES), "judges": (100, JUDGES)}


def annotations(tree):
    """Yield the places (first, last) of annotations, which nothing executes."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def mutants_of(path):
    """Return the mutants of a module by place: {(line, column): [(operator, occurrence), ...]}."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    source = path.read_text(encoding="utf-8")
    skipped = list(annotations(ast.parse(source)))
    nodes = list(ast_nodes(get_ast(source)))
    places = {}
    for name in sorted(plugins.operator_names()):
        kind = plugins.get_operator(name)
        if kind.arguments():
            continue  # inserts or replaces variables, which it takes as arguments
        operator, occurrence = kind(), 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                if not any(first <= start < last for first, last in skipped):
                    places.setdefault(start, []).append((name, occurrence))
                occurrence += 1
    return places


def mutated(path, operator, occurrence):
    """Return the mutated source, or None if it is not Python or means the same."""
    from cosmic_ray import mutating, plugins

    source = path.read_text(encoding="utf-8")
    text = mutating.mutate_code(source, plugins.get_operator(operator)(), occurrence)
    try:
        same = ast.dump(ast.parse(text)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    return None if same else text


def sample(root, seed):
    """Return the mutants: draw places in each group, then one of the mutants at each place."""
    drawn = []
    for group, (left, modules) in GROUPS.items():
        rng = random.Random(f"{seed} {group}")
        found = {module: mutants_of(root / module) for module in modules}
        places = [(module, at) for module, there in found.items() for at in sorted(there)]
        rng.shuffle(places)
        for module, at in places:
            operator, occurrence = rng.choice(found[module][at])
            if left and mutated(root / module, operator, occurrence) is not None:
                left -= 1
                drawn.append((module, at[0], operator, occurrence))
    return drawn


def test(root, module, tests, seconds, log):
    """Run the tests on ``root`` in a fork; return "killed", "survived" or "timeout"."""
    child = os.fork()
    if child == 0:
        os.chdir(root)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.path[:1] = [str(root / ".types"), str(root)]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
        code = 1
        try:
            code = next((code for code in map(run, tests) if code), 0)
        except BaseException:  # whatever a mutant raises, the fork must end here
            print(f"FAILED {traceback.format_exc()}", flush=True)
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code == 5:
                raise SystemExit(f"{module}: no test was run")
            return "survived" if code == 0 else "killed"
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def run(tests):
    """Run the tests of a file, or judge some of the corpus as test_corpus.py does."""
    if not tests.startswith("corpus "):
        import pytest

        preloaded = "-Wignore::pytest.PytestAssertRewriteWarning"
        options = ["-xq", "-p", "no:cacheprovider", "--no-header", preloaded]
        return int(pytest.main([*options, f"tests/{tests}"]))
    import posenc_ref
    from posenc_ref.conformance import check
    from tests.mutants import CORRECT, WRONG

    for surface in tests.split()[1:]:
        for cases in (CORRECT, WRONG):
            there = [case for case in cases if case.surface == surface]
            for case in there[:: -(-len(there) // MOST) or 1]:
                encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
                report = check(case.make(), encoding, surface, factory=case.make, **case.kwargs)
                right = report.codes[0] in case.expected if report.codes else report.passed
                if not right or bool(case.expected) != bool(report.codes):
                    print(f"FAILED corpus[{case.name}]: {report.verdict} {report.codes}")
                    return 1
    return 0


def killer(log):
    """Return the line of the first failing test in pytest's output."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR ", "E  "))]
    return next((x for x in failed if x.startswith("FAILED ")), failed[0] if failed else "")[:160]


def changed(before, after):
    """Return the first line that differs, before and after."""
    old, new = before.splitlines(), after.splitlines()
    first = next(i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    return [old[first].strip(), new[first].strip()]


def main():
    """Draw the mutants and run the tests on each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copy", required=True, type=Path, help="a writable copy")
    parser.add_argument("--out", required=True, type=Path, help="gets a line for each mutant")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--group", choices=GROUPS, help="only this one")
    parser.add_argument("--seconds", type=float, default=120, help="for one mutant")
    parser.add_argument("--part", default="0/1", help="only every n-th mutant, as 0/2 and 1/2")
    parser.add_argument("--again", type=Path, help="only what survived in this file")
    args = parser.parse_args()
    root, log = args.copy.resolve(), args.out.with_suffix(".log")
    subprocess.run([sys.executable, "tools/link_types.py"], cwd=root, check=True)
    part, parts = map(int, args.part.split("/"))
    drawn = sample(root, args.seed)
    if args.group:
        drawn = [one for one in drawn if one[0] in GROUPS[args.group][1]]
    if args.again:
        lines = map(json.loads, args.again.read_text(encoding="utf-8").splitlines())
        lived = {tuple(line["id"]) for line in lines if line["outcome"] == "survived"}
        drawn = [one for one in drawn if one in lived]
    drawn = drawn[part::parts]
    lines = args.out.read_text(encoding="utf-8").splitlines() if args.out.exists() else []
    done = {tuple(json.loads(line)["id"]) for line in lines}
    sys.path.append(str(root))
    import hypothesis  # noqa: F401  (loaded once for all forks)
    import ml_dtypes  # noqa: F401
    import mpmath  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401

    import tests.mutants  # noqa: F401

    about = {**CORE, **ORACLES, **JUDGES}
    begin, needed = time.monotonic(), sorted({one[0] for one in drawn if one not in done})
    every = tuple(dict.fromkeys(t for module in needed for t in about[module]))
    if needed and test(root, "all modules", every, 15 * 60, log) != "survived":
        raise SystemExit(f"the tests fail without a mutant, see {log}")
    print(f"{time.monotonic() - begin:.0f} s without a mutant, all modules", flush=True)
    sys.dont_write_bytecode = True
    for one in drawn:
        if one in done:
            continue
        module, line, operator, occurrence = one
        path, begin = root / module, time.monotonic()
        before, times = path.read_text(encoding="utf-8"), path.stat()
        after = mutated(path, operator, occurrence)
        try:
            path.write_text(after, encoding="utf-8")
            outcome = test(root, module, about[module], args.seconds, log)
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        old, new = changed(before, after)
        said = {"id": one, "outcome": outcome, "old": old, "new": new}
        said |= {"killer": killer(log), "seconds": round(time.monotonic() - begin, 1)}
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")
        print(f"{outcome} {module}:{line} {old} -> {new}", flush=True)
    lines = map(json.loads, args.out.read_text(encoding="utf-8").splitlines())
    print(Counter((line["id"][0], line["outcome"]) for line in lines))


if __name__ == "__main__":
    main()
