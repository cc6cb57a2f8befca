"""Run foreign code: its exceptions become :class:`Refused`, its results plain arrays.

The judged function is foreign, and so are the methods of what it raises and returns: a message may
raise when it is read, and a shape may end the interpreter. Only KeyboardInterrupt passes, and what
a signal handler of the caller raises that is no Exception.
"""

from __future__ import annotations

import dis
import inspect
import math
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref._namespace import dtype_name
from posenc_ref.limits import VIEW

from .pace import OVER, ended, watch

#: The folder of this package's judges.
_PACKAGE = Path(__file__).resolve().parents[1]
#: Libraries whose functions refuse what another function computed, not what it was given.
_LIBRARIES = ("numpy", "torch", "jax", "jaxlib", "mlx", "cupy", "einops")
#: The most characters of an exception's message.
_SHOWN = 200
#: The attributes of a function that are read to find its parameters.
_READ = ("__signature__", "__wrapped__", "_torchdynamo_inline", "pyfunc", "schema")


class Refused(Exception):
    """The judged function raised an exception, kept in ``cause``."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause) if isinstance(cause, OwnLimit) else said(cause))
        self.cause = cause

    @property
    def own(self) -> bool:
        """Return whether the suite made no call, so that the function raised nothing."""
        return isinstance(self.cause, OwnLimit)


class OwnLimit(ValueError):
    """The suite itself makes no such call: a fact about the suite, never a finding."""


class NotTried(ValueError):
    """A bound function is not called so: the message says what the suite does not try."""


class Malformed(Exception):
    """The judged function returned another type or shape than its surface requires.

    ``code`` is the code of the finding.
    """

    def __init__(self, message: str, code: str = "shape") -> None:
        super().__init__(message)
        self.code = code


def said(error: BaseException) -> str:
    """Return the class of a foreign exception and the first line of its message."""
    name = type.__getattribute__(type(error), "__name__")
    try:
        text = "".join([str(error)])  # a subclass of str becomes a plain one
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"{name}, with a message that cannot be read"
    line = f"{name}: {text[:1000]}".strip().split("\n")[0][:_SHOWN]
    return line.encode("utf-8", "backslashreplace").decode()  # lone surrogates cannot be printed


def stated(error: BaseException) -> bool:
    """Return whether a function raised an exception on purpose, to refuse its arguments.

    Then Python code of its own raises a ValueError, a NotImplementedError or an AssertionError. An
    exception that an array library or compiled code raises is a crash.
    """
    if not isinstance(error, ValueError | NotImplementedError | AssertionError):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or isinstance(error, OwnLimit | NotTried):
        return False
    code = trace.tb_frame.f_code
    library = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
    if library in _LIBRARIES or Path(code.co_filename).is_relative_to(_PACKAGE):
        return False
    return dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def where(error: BaseException) -> str:
    """Return the file and the line of this package that an exception of its own came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).parent.is_relative_to(_PACKAGE)]
    if not own:
        return "an unknown line"
    last = own[-1]
    return f"{Path(last.filename).relative_to(_PACKAGE).as_posix()}, line {last.lineno}"


def of_caller(error: BaseException) -> bool:
    """Return whether an exception ends the check: that of a signal handler, such as a timer's.

    It is no Exception, and was raised in a Python function that handles a signal.
    """
    if isinstance(error, Exception):
        return False
    if isinstance(error, KeyboardInterrupt):
        return True
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {getattr(handler, "__code__", None) for handler in handlers} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


@contextmanager
def refusals() -> Iterator[None]:
    """Raise :class:`Refused` for any exception of foreign code but that of the caller's timer.

    Nothing is called any more once the time of the identification is over. A call that does not
    return may be ended (:func:`~.pace.calls_end_after`).
    """
    limit = watch()
    if limit.over():
        raise Refused(OwnLimit(OVER))
    try:
        with limit.call(), ended():
            yield
    except (KeyboardInterrupt, Refused):
        raise
    except BaseException as error:
        if of_caller(error):
            raise
        raise Refused(error) from error


def tame(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a foreign function; if its attributes cannot be read, a plain one that calls it.

    What cannot be called is returned as it is.
    """
    if not callable(fn):
        return fn
    try:
        with refusals():
            for name in _READ:
                getattr(fn, name, None)
            names = [getattr(fn, name, "") for name in ("__name__", "__qualname__", "__module__")]
            if all(isinstance(name, str | None) for name in (*names, fn.__class__.__name__)):
                with suppress(TypeError, ValueError):  # no signature, as of functions in C
                    inspect.signature(fn)
                return fn
    except Refused:  # its class names it
        pass

    def called(*args: Any) -> Any:
        return fn(*args)

    called.__name__ = called.__qualname__ = type.__getattribute__(type(fn), "__name__")
    # Whoever looks for a signature stops here, and does not read the function inside.
    called.__signature__ = inspect.signature(called)  # type: ignore[attr-defined]
    return called


def plain(result: Any) -> Any:
    """Return a foreign result; its tuples, and their subclasses, as plain tuples.

    Raises
    ------
    Malformed
        An iterator fails, or a coroutine, which has no result yet, is returned.
    """
    kind = type(result)
    try:
        if hasattr(kind, "__await__") and not hasattr(kind, "shape"):  # arrays of Dask have both
            if hasattr(kind, "close"):
                result.close()  # or Python warns that it was never awaited
            raise Malformed(f"expected an array, got {kind.__name__}: judge a plain function")
        if issubclass(kind, tuple):
            return tuple(map(plain, tuple(result)))
        result.__class__  # noqa: B018  (isinstance reads it)
    except (KeyboardInterrupt, Malformed):
        raise
    except BaseException as error:
        if of_caller(error):
            raise
        raise Malformed(f"the result cannot be read ({said(error)})") from error
    return result


def array_of(result: Any, asnumpy: Callable[[Any], np.ndarray]) -> tuple[np.ndarray, str]:
    """Return one foreign result as a NumPy array of numbers, and the name of its dtype.

    Raises
    ------
    Malformed
        It is no array of numbers, or cannot be read, or needs far more memory than it has.
    """
    try:
        return _array_of(result, asnumpy)
    except (KeyboardInterrupt, Malformed):
        raise
    except BaseException as error:
        if of_caller(error):
            raise
        raise Malformed(f"the result cannot be read as an array ({said(error)})") from error


def _array_of(result: Any, asnumpy: Callable[[Any], np.ndarray]) -> tuple[np.ndarray, str]:
    kind = type(result)
    if issubclass(kind, bool | int | float | list):
        _small(_list_shape(result))
        result = np.asarray(result)
    elif issubclass(kind, np.matrix | np.ma.MaskedArray):
        raise Malformed(f"expected a plain array, got {kind.__name__}")
    if isinstance(result, type) or not (hasattr(result, "shape") and hasattr(result, "dtype")):
        raise Malformed(f"expected an array, got {kind.__name__}")
    shape = tuple(map(int, result.shape))
    _small(shape, _owned(result))
    name = dtype_name(result)
    values = np.asarray(asnumpy(result))
    if values.dtype.kind not in "biufc":
        raise Malformed(f"the result has dtype {name}, expected numbers", "dtype")
    return values, name


def _list_shape(value: Any) -> tuple[int, ...]:
    """Return the shape that nested lists have if all their rows are like the first."""
    shape: list[int] = []
    while issubclass(type(value), list | tuple) and len(shape) <= 64:
        shape.append(len(value))
        if not shape[-1]:
            break
        value = value[0]
    return tuple(shape)


def _owned(array: Any) -> int | None:
    """Return the bytes behind an array, or None if they are not known."""
    if isinstance(array, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(array) if array.size else (0, 0)
        return int(high - low)
    storage = getattr(array, "untyped_storage", None)
    if storage is not None and str(getattr(array, "layout", "")) == "torch.strided":
        return int(storage().nbytes())
    return None


def _small(shape: tuple[int, ...], owned: int | None = 0) -> None:
    """Raise Malformed for a view that would need far more memory than the array it shows."""
    count = math.prod(shape)
    if owned is not None and count > max(VIEW, owned):
        raise Malformed(
            f"the result has shape {shape}, {count} elements; from a list or a broadcast view, at "
            f"most {VIEW} are read"
        )
