"""The process that runs foreign code: it takes requests from a private pipe, and answers there.

Only the standard library is imported until the first request.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO

from .state import Judge

#: The most characters of the message of an exception.
_MESSAGE = 4000


def main(requests: int, answers: int, preload: str) -> None:
    """Serve the requests of :class:`Child` until there are no more, then end this process."""
    if sys.platform == "win32":
        import msvcrt

        requests = msvcrt.open_osfhandle(requests, os.O_RDONLY | os.O_BINARY)
        answers = msvcrt.open_osfhandle(answers, os.O_WRONLY | os.O_BINARY)
    else:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash leaves no file
        _end_after_parent()
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    nonce, *waiting = _listener(requests)
    if preload:
        with contextlib.suppress(ImportError):  # the request says what is missing
            importlib.import_module(preload)
    try:
        _serve(waiting[0], os.fdopen(answers, "wb", 0), nonce)
    except BaseException as error:
        os.write(2, f"the private pipe of the verdict is closed ({_text(error)})\n".encode())
    finally:
        os._exit(1)


def _listener(requests: int) -> tuple[str, queue.SimpleQueue[bytes]]:
    """Return the nonce, and the queue of requests; the end of the pipe ends this process."""
    source = os.fdopen(requests, "rb")
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    nonce = source.readline().strip().decode("ascii")

    def listen() -> None:
        for line in source:
            waiting.put(line)
        _end_group()  # the parent has ended

    threading.Thread(target=listen, daemon=True).start()
    return nonce, waiting


def _end_after_parent() -> None:
    """Have Linux end this process 1 s after its parent, also while foreign code holds the GIL.

    Until then the thread of :func:`_listener` can end the whole group, if it gets the GIL. The
    handler is a function of C, ``alarm(SIGHUP)`` where
    SIGHUP is 1, because one of Python would need the GIL, too.
    """
    if sys.platform.startswith("linux"):
        import ctypes

        libc = ctypes.CDLL(None)
        libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
        libc.signal(signal.SIGHUP, ctypes.cast(libc.alarm, ctypes.c_void_p))
        libc.prctl(1, int(signal.SIGHUP), 0, 0, 0)  # PR_SET_PDEATHSIG


def _end_group() -> None:
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _serve(waiting: queue.SimpleQueue[bytes], out: BinaryIO, nonce: str) -> None:
    own = os.getpid()

    def answer(number: int, **body: Any) -> None:
        if os.getpid() != own:  # the judged code forked, and both processes return
            os._exit(0)
        text = json.dumps({"nonce": nonce, "number": number, **body}, default=_plain) + "\n"
        view = memoryview(text.encode())
        while view:
            view = view[out.write(view) or 0 :]

    while True:
        number, path, request = pickle.loads(base64.b64decode(waiting.get()))
        sys.path[:] = path
        before, judge = _state(), Judge.now()
        body: dict[str, Any] = {}
        try:
            function, arguments = pickle.loads(request)
            for item in function(*arguments):
                answer(number, item=item)
        except BaseException as error:
            what = f"{type(error).__name__}: {_text(error)}"
            ends = not isinstance(error, Exception)
            body = {"raised": what, "trace": _trace(error), "ends": ends}
        _flush()
        changed, harmed = _restored(before), judge.harmed()
        answer(number, **body, changed=changed or bool(harmed), harmed=harmed)


def _plain(value: Any) -> Any:
    """Return a NumPy number as one of Python."""
    return value.item()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # foreign code may have replaced it
            stream.flush()


def _text(error: BaseException) -> str:
    """Return the message of an exception; foreign exceptions may fail to have one."""
    try:
        return str(error)[:_MESSAGE].encode("utf-8", "backslashreplace").decode()
    except BaseException as second:
        return f"its message cannot be shown ({type(second).__name__})"


def _trace(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))[-_MESSAGE:]
        return text.encode("utf-8", "backslashreplace").decode()
    except BaseException:
        return ""


def _state() -> dict[str, Any]:
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "signals": signals,
        "threads": set(threading.enumerate()),
    }


def _restored(before: dict[str, Any]) -> bool:
    """Undo changes to the folder and the environment; return whether anything else changed.

    Then another process judges the next function.
    """
    try:
        os.chdir(before["folder"])
        if dict(os.environ) != before["environment"]:
            os.environ.clear()
            os.environ.update(before["environment"])
        now = _state()
        return now["signals"] != before["signals"] or not now["threads"] <= before["threads"]
    except Exception:
        return True
