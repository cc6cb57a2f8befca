"""Make the pages of docs/generated again and list what differs: python tools/pages.py [PAGE ...].

Each page names the command that makes it. The command runs in a copy of the checkout, and every
file that it writes is compared with the committed one. Dates and durations are left out. Decimal
numbers, such as scores, may differ between machines: they are counted, with the largest difference.
Any other difference is printed, and the exit code is then 1. `--write` keeps the new files.

The sweep of transformers alone takes half an hour of processor time. The pages in LEFT_OUT are
named with the reason.
"""

import argparse
import difflib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = "docs/generated"
#: What the commands write.
WRITTEN = (PAGES, "tests/mutants")
LEFT_OUT = {
    "benchmarks.md": "speeds; benchmarks/report.py --keep compares them with those of the machine",
    "libraries.ndjson": "tools/libraries.py --check makes it again, in an environment per release",
    "identified.ndjson": "tools/identified/libraries.py --check makes it again",
    "mutation-testing.md": "its mutants take a day, and the reasons are written by hand",
    "verdicts.md": "tools/versions.py compares the verdicts, where the interpreters are",
}
_COMMAND = re.compile(r"""(?i)(?:made|written|checked) by"?:? ["`]((?:python|posenc) [^`"]+)["`]""")
_VOLATILE = re.compile(
    r"\b20\d\d-\d\d-\d\d\b|[\d.]+ (?:s|seconds) of processor time|in \d+ (?:minutes|seconds)\b"
)
_DECIMAL = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+")


def commands():
    """Return the command of each page that has one, by the name of the page."""
    found = {}
    for path in sorted((ROOT / PAGES).iterdir()):
        if path.suffix in (".md", ".json") and path.name not in LEFT_OUT:
            head = path.read_text(encoding="utf-8")[:3000]
            if made := _COMMAND.search(head):
                found[path.name] = made[1]
    return found


def differences(before, now):
    """Return the lines that differ, and by how much the decimal numbers of all others do."""
    old, new = (_VOLATILE.sub("", text).splitlines() for text in (before, now))
    plain = [[_DECIMAL.sub("#", line) for line in lines] for lines in (old, new)]
    lines, numbers = [], []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, *plain, autojunk=False).get_opcodes():
        if kind == "equal":
            for was, here in zip(old[a:b], new[c:d], strict=True):
                pairs = zip(_DECIMAL.findall(was), _DECIMAL.findall(here), strict=True)
                numbers += [_relative(float(x), float(y)) for x, y in pairs if x != y]
        else:
            lines += [f"- {line}" for line in old[a:b]] + [f"+ {line}" for line in new[c:d]]
    return lines, numbers


def _relative(was, here):
    return abs(was - here) / max(abs(was), abs(here))


def copy_of(root, folder):
    """Copy a checkout without what git ignores, as far as it is large."""
    skipped = shutil.ignore_patterns(
        ".git", ".*_cache", "__pycache__", "*.egg-info", ".types", ".venv"
    )
    return Path(shutil.copytree(root, folder / "checkout", ignore=skipped))


def make(command, page, copy):
    """Run the command of a page in the copy; return why it failed, or an empty text."""
    to_file = "FILE" in command.split()
    if to_file:
        page.unlink()
    words = [str(page) if word == "FILE" else word for word in shlex.split(command)]
    program = {"posenc": [sys.executable, "-m", "posenc_ref.conformance"]}
    done = subprocess.run(
        [*program.get(words[0], [sys.executable]), *words[1:]],
        cwd=copy,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # A survey also exits with 1 if a library deviates.
    if page.exists() if to_file else done.returncode == 0:
        return ""
    said = (done.stdout.strip().splitlines() or ["nothing was printed"])[-1]
    return f"`{command}` ended with exit code {done.returncode}: {said}"


def compare(copy, keep):
    """Return lines on every file that differs, and whether more than decimal numbers do.

    Afterwards both have the same files: the new ones if ``keep``, else the committed ones.
    """
    lines, differ = [], False
    for path in sorted(p for folder in WRITTEN for p in (copy / folder).rglob("*") if p.is_file()):
        committed = ROOT / path.relative_to(copy)
        before = committed.read_bytes() if committed.exists() else b""
        now = path.read_bytes()
        if path.suffix == ".pyc" or before == now:
            continue
        changed, numbers = differences(before.decode(), now.decode())
        name = path.relative_to(copy).as_posix()
        if numbers:
            largest = f"{max(numbers):.2g}"
            lines.append(f"{name}: {len(numbers)} decimal numbers differ, by {largest} at most")
        if changed:
            differ = True
            lines += [f"{name}: {len(changed)} lines differ", *changed]
        if keep:
            committed.write_bytes(now)
        elif committed.exists():
            path.write_bytes(before)
        else:
            path.unlink()
    return lines, differ


def main(arguments=None):
    """Run the command line."""
    description, _, epilog = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = commands()
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as kill-matrix.md")
    parser.add_argument("--write", action="store_true", help="keep the new files")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.pages) - set(known)):
        parser.error(f"no command makes {unknown[0]}; the pages are {', '.join(known)}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of(ROOT, Path(folder))
        for name in given.pages or known:
            begin = time.monotonic()
            why = make(known[name], copy / PAGES / name, copy)
            lines, differ = ([f"{name}: {why}"], True) if why else compare(copy, given.write)
            failed |= differ
            seconds = time.monotonic() - begin
            print(f"{name}: {'DIFFERS' if differ else 'the same'} ({seconds:.0f} s)", flush=True)
            print("\n".join(f"  {line}" for line in lines), end="\n" if lines else "", flush=True)
    for name, why in LEFT_OUT.items() if not given.pages else ():
        print(f"{name}: left out ({why})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
