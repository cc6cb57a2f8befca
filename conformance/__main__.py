"""The command ``posenc``: hands over to :mod:`.cli`, or gives a plain result without typer."""

from __future__ import annotations

import sys

HINT = 'The commands need typer and rich: pip install "posenc-ref[cli]"'


def main() -> None:
    """Run the command line; exits with its code."""
    try:
        from .cli import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.exit(_plain(sys.argv[1:]))
    app(prog_name="posenc")


def _plain(arguments: list[str]) -> int:
    """``posenc verify`` of NumPy as plain text: what can be done with nothing but NumPy."""
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
