"""Write docs/generated/mutation-testing.md from the outcomes, and from the reasons of survivors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tools.mutation.draw import Mutant
from tools.mutation.results import Results

#: Why each mutant survives that no test kills: read and written by hand.
REASONS = Path(__file__).with_name("survivors.json")
#: The kinds of reasons, in the words of the page.
KINDS = {
    "equivalent": "no input tells the mutant from the original",
    "words": "only the words of a message, a note or a plot differ",
    "probe": "one probe among several of its kind has another size, position or seed",
    "limit": "a limit or a tolerance that is a choice has another value",
    "search": "a heuristic search tries or ranks candidates otherwise, and ends with the same",
    "speed": "the same result, later or with more memory",
    "open": "not explained yet",
}

HEAD = """\
# Mutation testing

Made by `python tools/mutate.py page first.ndjson --again again.ndjson --second second.ndjson`; the
reasons of survivors are written by hand.

The tool breaks one place of `posenc_ref/` or `conformance/` at a time and runs tests until one
fails. A seed draws the places from all modules, every place with the same probability; 80 of the
mutants are drawn from `conformance/sequences/`, the judges of chunks and sequences.
[Cosmic Ray](https://cosmic-ray.readthedocs.io) lists and applies the mutants.

```sh
pip install -e ".[test,mutation]" -c constraints-test.txt
python tools/mutate.py map --map ../map                            # all tests once, with coverage
python tools/mutate.py run --map ../map --out first.ndjson         # 420 mutants
python tools/mutate.py run --map ../map --out again.ndjson --again first.ndjson
```

An interrupted run continues where it stopped.

**Which tests run.** [Coverage.py](https://coverage.readthedocs.io) records which tests of a pull
request execute each line, also in the Python processes that a test starts. A mutant is judged by
the tests that execute its statement, then by tests that execute another function of its module. In
both groups the tests of the mirrored folder come first, then those that judge many implementations
of every surface; and the cheapest case of every test function comes before a second case of any.
`--seconds` bounds the CPU time of a mutant's tests. Where no test executes the statement, the
nightly tests of the mirrored folder run as well. A test counts only if it passes alone without the
mutant.

**What is not drawn.** Annotations, `__all__`, `if TYPE_CHECKING`, expressions inside f-strings and
the arguments of exceptions (the words of messages), and replacements of `==` by `is` and of `is` by
`==`. Cosmic Ray changes numbers, operators, comparisons, conditions, loops, exception types and
decorators; it changes no strings.

**Which tests do not judge.** The lints, the fuzzers, the transcripts in documents, the packaging
tests, and the tests of `backends/`, because JAX hangs in the forks in which mutants are judged.
"""


def reasons() -> dict[tuple[str, str, str], tuple[str, str]]:
    """Return the kind and the reason by module, old line and new line."""
    rows = json.loads(REASONS.read_text(encoding="utf-8"))
    return {(row["module"], row["old"], row["new"]): (row["kind"], row["why"]) for row in rows}


def folder(mutant: Mutant) -> str:
    """Return the folder of a mutant's module."""
    return mutant.module.rpartition("/")[0]


def page(
    about: str, first: Results, again: Results | None = None, second: Results | None = None
) -> str:
    """Return the page: the scores of a draw and of a second one, made after the first was mended.

    ``again`` has the survivors of both, judged after the mends. ``about`` says when the runs were
    made, and with which versions.
    """
    later = again.read() if again else {}
    runs = [(draw.read(), later) for draw in (first, second) if draw]
    titles = ["First draw", "Second draw"]
    parts = [HEAD.rstrip(), about]
    for title, (outcomes, later) in zip(titles, runs, strict=False):
        parts.append(f"## {title}\n\n{_tables(outcomes, later)}")
    return "\n\n".join(parts) + "\n"


def _tables(outcomes: dict[Mutant, dict[str, Any]], later: dict[Mutant, dict[str, Any]]) -> str:
    why = reasons()
    killed_later = {
        (m.module, m.operator, m.old, m.new): row["outcome"] == "killed" for m, row in later.items()
    }
    every, at_first, now, unexplained = (Counter[str]() for _ in range(4))
    kinds: dict[str, list[str]] = {}
    for mutant, row in sorted(outcomes.items(), key=lambda pair: (pair[0].module, pair[0].line)):
        name = folder(mutant)
        every[name] += 1
        killed = row["outcome"] == "killed"
        at_first[name] += killed
        if not killed and later:  # a survivor that is not there any more is mended, too
            key = (mutant.module, mutant.operator, mutant.old, mutant.new)
            killed = killed_later.get(key, True)
        now[name] += killed
        if not killed:
            kind, text = why.get((mutant.module, mutant.old, mutant.new), ("open", ""))
            words = f"{mutant.module}:{mutant.line}", _code(mutant.old), _code(mutant.new), text
            kinds.setdefault(kind, []).append("| " + " | ".join(words) + " |")
            unexplained[name] += kind == "open"
    lines = ["| folder | mutants | killed at first | killed now | survivors | unexplained |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in sorted(every):
        left = every[name] - now[name]
        numbers = (every[name], at_first[name], now[name], left, unexplained[name])
        lines.append(f"| `{name}/` | " + " | ".join(map(str, numbers)) + " |")
    total, open_ = sum(every.values()), len(kinds.get("open", ()))
    numbers = total, sum(at_first.values()), sum(now.values()), total - sum(now.values())
    numbers = (*numbers, open_)
    lines.append("| **all** | " + " | ".join(f"**{n}**" for n in numbers) + " |")
    lines += [
        "",
        f"{sum(now.values()) / total:.1%} are killed; {1 - open_ / total:.1%} are killed or "
        "explained below.",
    ]
    for kind, text in KINDS.items():
        if kind in kinds:
            count = len(kinds[kind])
            lines += ["", f"### {count} survivor{'s' * (count > 1)}: {text}", ""]
            lines += ["| line | was | became | why it survives |", "| --- | --- | --- | --- |"]
            lines += kinds[kind]
    return "\n".join(lines)


def _code(text: str) -> str:
    shown = (text if len(text) <= 90 else f"{text[:87]}...").replace("|", "\\|")
    return f"`{shown}`" if "`" not in shown else f"`` {shown} ``"
