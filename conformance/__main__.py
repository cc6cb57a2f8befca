"""The command ``posenc``; if typer is missing, only ``posenc verify`` works, for NumPy alone."""

from __future__ import annotations

import sys

HINT = 'the command line needs typer and rich: pip install "posenc-ref[cli]"'
#: The commands that run for long; they say so before the slow imports.
LONG = ("verify", "sweep", "gallery", "accuracy")


def main() -> None:
    """Run the command line and exit with its exit code."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in LONG and not {"-h", "--help"} & set(arguments):
        _starting(arguments[0])
    try:
        from .cli import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.exit(_plain(arguments))
    app(prog_name="posenc")


def _starting(command: str) -> None:
    print(f"posenc {command}: starting", file=sys.stderr, flush=True)


def _plain(arguments: list[str]) -> int:
    """Run ``posenc verify`` for NumPy, print plain text without typer, return the exit code."""
    if arguments not in ([], ["verify"]):
        print(
            f"posenc: {HINT}; without them `posenc verify` works, and in Python check, identify, "
            "explain and load_vectors of posenc_ref.conformance",
            file=sys.stderr,
        )
        return 2
    if not arguments:
        _starting("verify")
    from .surveys.progress import lines
    from .surveys.show import plain
    from .surveys.verify import Options, Verification, verify
    from .surveys.whole import CERTIFICATE, GOLDEN

    runs = [verify(Options(only=only), progress=lines()) for only in (CERTIFICATE, GOLDEN)]
    if any(outcome.verdict == "skipped" for outcome in runs[0].outcomes):
        runs.append(verify(Options(only="numpy *"), progress=lines()))
    outcomes = [outcome for found in reversed(runs) for outcome in found.outcomes]
    found = Verification(outcomes, sum(one.seconds for one in runs))
    print(plain(found))
    print(f"posenc: {HINT}")
    return found.exit_code


if __name__ == "__main__":
    main()
