"""The command ``posenc``; if typer is missing, only ``posenc verify`` works, for NumPy alone."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from typing import Any

from posenc_ref._text import one_line, printable

from .isolation.group import end_all_on_signals, fill_closed, hide_files
from .isolation.judge import Child
from .isolation.show import show_output

HINT = 'the command line needs typer and rich: pip install "posenc-ref[cli]"'
#: The commands that run for long; they say so before the slow imports.
LONG = ("verify", "sweep", "gallery", "accuracy")
#: The commands that judge a function in another process, which imports while this one does.
APART = ("check", "identify", "compare", "ci")
#: Options that need no such process.
HERE = {"-h", "--help", "--in-process", "--exec", "--recorded"}
#: The exit code of an error of posenc itself: EX_SOFTWARE of sysexits.h.
INTERNAL = 70
#: The exit code where the output cannot be written: EX_IOERR of sysexits.h.
UNWRITABLE = 74
#: The exit code where nobody reads the output any more: that of a shell for SIGPIPE.
UNREAD = 128 + 13


class Unwritable(Exception):
    """Standard output or standard error cannot be written; no OSError, which means a file."""


class _Output(io.FileIO):
    """A file whose errors are :class:`Unwritable`; the last one is kept."""

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.lost = error
            raise Unwritable(error) from None


def main() -> None:
    """Run the command line and exit with its exit code."""
    arguments = sys.argv[1:]
    if sys.stdout is None:  # descriptor 1 is closed
        print(
            "posenc: standard output is closed, so no result can be printed: leave it open, or "
            "redirect it to a file",
            file=sys.stderr,
        )
        sys.exit(2)
    fill_closed()
    sys.stdout, sys.stderr = _output(sys.stdout), _output(sys.stderr)
    end_all_on_signals()
    if "--in-process" not in arguments:  # with it, a debugger may attach
        hide_files()
    try:
        try:
            sys.exit(_run(arguments))
        except Unwritable:
            raise
        except Exception as error:
            _report(error)
            sys.exit(INTERNAL)
        finally:
            for stream in (sys.stdout, sys.stderr):
                _finish(stream)
    except Unwritable as error:
        sys.exit(_unwritable(error.args[0]))


def _report(error: Exception) -> None:
    """Say that an error is one of posenc itself."""
    if os.environ.get("POSENC_DEBUG"):
        traceback.print_exception(error)
        of_the_child = map(printable, error.args[1:])
        print(*of_the_child, file=sys.stderr)
    what = one_line(error.args[0] if error.args else error)
    text = " ".join(f"{type(error).__name__}: {what}".split())[:300]
    print(
        f"posenc: error of posenc itself, and no verdict: {text}; please report it with the "
        "command and the traceback that POSENC_DEBUG=1 prints",
        file=sys.stderr,
    )


def _output(stream: Any) -> Any:
    """Return a stream for the file of ``stream`` whose errors are :class:`Unwritable`."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    # A Windows console may have no character for a name: print an escape, do not fail.
    stream.reconfigure(errors="backslashreplace")
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        # Python without buffers (-u) has write_through in place of line_buffering.
        line_buffering=stream.line_buffering or stream.write_through,
    )


def _finish(stream: Any) -> None:
    """Write what is left; raise :class:`Unwritable` if anything was lost, also in a thread."""
    if stream is not None:
        stream.flush()
        raw = getattr(getattr(stream, "buffer", None), "raw", None)
        if isinstance(raw, _Output) and raw.lost is not None:
            raise Unwritable(raw.lost)


def _unwritable(error: OSError) -> int:
    """Say that the output cannot be written, unless nobody reads it; return the exit code."""
    if error.errno != errno.EPIPE:
        with contextlib.suppress(Unwritable):
            print(
                f"posenc: the output cannot be written: {error.strerror}; what was printed may "
                "be incomplete, and the exit code is no verdict",
                file=sys.stderr,
            )
    # Python writes what is left at its end, and would exit with another code if that fails.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(getattr(getattr(stream, "buffer", None), "raw", None), _Output):
            os.dup2(nowhere, stream.fileno())
    return UNREAD if error.errno == errno.EPIPE else UNWRITABLE


def _run(arguments: list[str]) -> int:
    """Run the command line, and return its exit code if it does not exit by itself."""
    first = arguments[0] if arguments else ""
    if first in LONG and not {"-h", "--help"} & set(arguments):
        _starting(first)
    child = Child("posenc_ref.conformance.cli.check", show=show_output)
    if first in APART and not any(word.partition("=")[0] in HERE for word in arguments):
        child.start()
    try:
        from .cli import COMMANDS, make_app
        from .cli.options.apart import judge_apart
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        return _plain(arguments)
    judge_apart(child)
    try:
        make_app([first] if first in COMMANDS else COMMANDS)(prog_name="posenc")
    finally:
        judge_apart(None)
        child.close()
    return 0


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
