"""The command ``posenc``; if typer is missing, only ``posenc verify`` works, for NumPy alone."""

from __future__ import annotations

import sys

HINT = 'The commands need typer and rich: pip install "posenc-ref[cli]"'


def main() -> None:
    """Run the command line and exit with its exit code."""
    try:
        from .cli import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.exit(_plain(sys.argv[1:]))
    app(prog_name="posenc")


def _plain(arguments: list[str]) -> int:
    """Run ``posenc verify`` for NumPy, print plain text without typer, return the exit code."""
    from .surveys.show import plain
    from .surveys.verify import CERTIFICATE, Options, Verification, verify

    if arguments not in ([], ["verify"]):
        print(f"posenc: only `posenc verify` works here. {HINT}", file=sys.stderr)
        return 2
    found = verify(Options(only=CERTIFICATE))
    if all(outcome.verdict == "skipped" for outcome in found.outcomes):
        skipped, found = found, verify(Options(only="numpy *"))
        found = Verification(found.outcomes + skipped.outcomes, found.seconds)
    print(plain(found))
    print(HINT)
    return found.exit_code


if __name__ == "__main__":
    main()
