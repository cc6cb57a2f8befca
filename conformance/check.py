"""``check``: judge a function against an encoding."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Encoding, Rotary
from posenc_ref.accuracy import ANGLES, ROUNDOFF

from .calling import NoConvention, bind, takes
from .diagnosis.reproduce_fn import runnable
from .harness import state
from .harness.driver import Driver, Malformed, Refused
from .harness.foreign import of_caller, said, tame
from .harness.implementation import DECLARED, Implementation
from .harness.ledger import Ledger
from .harness.nearest import did_you_mean
from .harness.pace import Pace, watch
from .harness.report import Report
from .harness.run import Run, Settings, describe
from .harness.signatures import SIGNATURES, SURFACES, load
from .harness.tensor_layouts import LAID_OUT, TENSOR_LAYOUTS
from .harness.to_host import on_host
from .sizes import Sized
from .surfaces import Declared, refuse

__all__ = ["SURFACES", "check", "make_run"]


def check(
    fn: Callable[..., Any],
    encoding: Declared = None,
    surface: str | None = None,
    *,
    backend: str | None = None,
    dtype: str = "float32",
    tensor_layout: str | None = None,
    device: str | None = None,
    angles: str | None = None,
    precision: str | None = None,
    head_dim: int | None = None,
    max_position: int | None = None,
    inplace: bool = False,
    strict: bool = False,
    accept_limits: bool = False,
    factory: Callable[[], Callable[..., Any]] | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Report:
    """Judge ``fn`` against ``encoding``: return a verdict, and findings that name each mistake.

    Parameters
    ----------
    fn : callable
        Takes exactly the surface's positional arguments, as NumPy arrays unless ``backend=``;
        any other function, class or object is called as :func:`bind` finds out.
        An :class:`Implementation` from an adapter supplies its surface, backend and encoding.
    encoding : Encoding or ModelEncoding, optional
        The expected encoding.  None: only properties are judged (``apply`` with ``head_dim=``),
        or the surface needs no encoding.
    surface : str, optional
        How ``fn`` is called; None: as :func:`bind` finds out.

        {surfaces}
    backend : str, optional
        The array library that ``fn`` takes, such as "torch"; NumPy by default.
    dtype : {"float32", "float64", "float16", "bfloat16"}
        The dtype of x and of the expected result.
    tensor_layout : {"bhsd", "bshd", "sbhd", "thd", "bs(hd)"}
        The tensor layout of x in ``apply``.
    device : str, optional
        Where the arrays of ``backend`` live; its default device otherwise.
    angles : {"float32", "float64", "exact"}, optional
        The required accuracy of the angles; by default float32, or float64 for float64 outputs.
    precision : str, optional
        Declares arithmetic coarser than ``dtype``, such as bfloat16 tables.
    head_dim : int, optional
        Size of the last axis of x, if no encoding gives it.
    max_position : int, optional
        Judge no position beyond this one (at least 128); the report states the limit.
    inplace : bool
        Whether ``fn`` may overwrite its inputs.
    strict : bool
        Whether tensors that differ fail even if every logit agrees; by default they are a note.
    accept_limits : bool
        Whether a function that refuses most inputs may conform; by default it is inconclusive.
    factory : callable, optional
        Makes a fresh instance of ``fn``, for the state tests.
    seed : int
        The seed of the random inputs.
    name : str, optional
        The name of ``fn`` in the report.

    Returns
    -------
    Report
        ``.passed``, ``.verdict``, ``.findings``, ``.accuracy``, ``.limits``, ``.executed``,
        ``.to_json()``, ``.raise_if_failed()``; print it to read it.

    Raises
    ------
    TypeError, ValueError
        The settings do not fit the surface or the encoding.  Errors of ``fn`` are findings.
    HarnessError
        A program of :func:`from_command` could not be judged at all.
    """
    if not callable(fn):
        raise TypeError(f"fn must be callable, got {type(fn).__name__}")
    fn = tame(fn)
    bound = fn if isinstance(fn, Implementation) else None
    encoding = encoding or (bound.encoding if bound else None)
    if encoding is not None and not isinstance(encoding, DECLARED):
        raise TypeError(
            f"encoding must be a posenc_ref encoding, such as RoPE(64, layout='half') or "
            f"preset('llama-3.1-8b').only, got {encoding!r}"
        )
    if surface is not None and surface not in SURFACES:
        near = did_you_mean(surface, SURFACES)
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}{near}")
    if surface is not None:
        refuse(surface, encoding)
    if bound is None and (surface is None or not takes(fn, surface)):
        fn = bound = bind(
            fn, encoding, surface, tensor_layout=tensor_layout, backend=backend, dtype=dtype,
            head_dim=head_dim, name=name,
        )  # fmt: skip
    surface = surface or (bound.surface if bound else None)
    assert surface is not None
    refuse(surface, encoding)
    drivable = surface == "apply" and (head_dim or (bound and bound.head_dim))
    if encoding is None and not (drivable or not SURFACES[surface].needs_encoding):
        raise ValueError(
            "encoding must be given (only surface 'apply' with head_dim= can be judged by its "
            "properties alone)"
        )
    require_reach(surface, max_position)
    settings: dict[str, Any] = {
        "backend": backend, "dtype": dtype, "tensor_layout": tensor_layout, "device": device,
        "angles": angles, "precision": precision, "head_dim": head_dim,
        "max_position": max_position, "inplace": inplace, "strict": strict,
        "accept_limits": accept_limits, "factory": factory, "seed": seed, "name": name,
    }  # fmt: skip
    run = make_run(fn, encoding, surface, **settings)
    report = complete(run, bound.problems if bound else None)
    if report.codes == ["raises"] and run.driver.stated:
        report = _in_accepted_sizes(fn, run, settings) or report
    several = isinstance(encoding, Rotary) and encoding.num_axes > 1 and surface == "apply"
    if bound is None and several and report.codes == ["raises"] and not report.executed:
        with suppress(NoConvention):  # it may take whole grids alone
            whole = bind(
                fn, encoding, surface, signature="x-grid", tensor_layout=tensor_layout,
                backend=backend, dtype=dtype, name=name,
            )  # fmt: skip
            return check(whole, encoding, surface, **settings)
    return report


def _in_accepted_sizes(fn: Callable[..., Any], run: Run, settings: dict[str, Any]) -> Report | None:
    """Judge a function that refuses some sizes in those that it takes; return None if none helps.

    The code that reproduces a failure is left out: it would call the function in other sizes.
    """
    driver, encoding = run.driver, run.encoding
    surface, subject = run.report.surface, run.report.subject
    by_length = isinstance(encoding, Rotary) and bool(encoding.depends_on_length)

    def fitted(call: Callable[..., Any]) -> Sized:
        return Sized(
            call, surface, driver.tensor_layout, driver.backend_name, driver.device, by_length
        )

    new = driver.factory
    sized = fitted(new() if new is not None else driver.fn)
    bound = fn if isinstance(fn, Implementation) else Implementation(fn, surface, subject)
    whole = replace(bound, call=sized, factory=None, encoding=None)
    settings = {**settings, "name": subject}
    settings["factory"] = None if new is None else lambda: fitted(new())
    again = make_run(whole, encoding, surface, **settings)
    report = complete(again)
    if not sized.plan:
        return None
    if sized.overwritten and "state" not in report.codes:
        state.overwritten(again)
    report.limits.insert(0, sized.limit)
    report.findings[:] = [replace(finding, reproduce="") for finding in report.findings]
    return report


def require_reach(surface: str, max_position: int | None) -> None:
    """Raise ValueError if ``max_position`` is below the positions that are always judged."""
    if max_position is not None and max_position < SURFACES[surface].least:
        raise ValueError(
            f"max_position must be at least {SURFACES[surface].least}, got {max_position}"
        )


def _describe_surfaces() -> str:
    """Return the calling convention of each surface, as lines of a docstring."""
    rows = (f"* ``{row.name}``: {row.call}." for row in SURFACES.values())
    indent = " " * 8
    lines = (textwrap.fill(row, 92, subsequent_indent="  ") for row in rows)
    return textwrap.indent("\n".join(lines), indent).strip()


if check.__doc__ is not None:  # docstrings are None under python -OO
    check.__doc__ = check.__doc__.replace("{surfaces}", _describe_surfaces())


def check_reduced(
    fn: Callable[..., Any], encoding: Encoding, surface: str, **settings: Any
) -> Report:
    """Judge like :func:`check`, with fewer shapes and calls, for functions with expensive calls."""
    return complete(make_run(fn, encoding, surface, reduced=True, **settings))


def complete(run: Run, problems: Callable[[], list[tuple[str, str]]] | None = None) -> Report:
    """Judge the function of a run, add the adapter's own ``problems``, and return the report."""
    surface = run.report.surface
    if run.encoding is None and not run.surface.needs_encoding:
        run.report.encoding = f"posenc_ref.{surface}"
    try:
        with np.errstate(all="ignore"):  # errors of the function become findings
            load(run.surface.judge)(run)
    except Refused as error:
        run.raised("a call raises, although a similar call was accepted before", error)
    except Malformed as error:
        run.add(error.code, str(error), "a similar call returned the right shape before")
    except KeyboardInterrupt:
        raise
    except Exception as error:  # a fault of the judge, which must not lose its findings
        run.broke_off(error)
    except BaseException as error:
        if of_caller(error):
            raise
        run.add("raises", "what a call returned raises an exception when it is read", said(error))
    for problem in problems() if problems else ():
        run.add("raises", *problem)
    findings = run.report.findings
    findings[:] = [runnable(finding, run.driver) for finding in findings]
    return run.finish()


def make_run(
    fn: Callable[..., Any],
    encoding: Declared,
    surface: str,
    *,
    backend: str | None = None,
    dtype: str = "float32",
    tensor_layout: str | None = None,
    device: str | None = None,
    angles: str | None = None,
    precision: str | None = None,
    head_dim: int | None = None,
    max_position: int | None = None,
    inplace: bool = False,
    strict: bool = False,
    accept_limits: bool = False,
    factory: Callable[[], Callable[..., Any]] | None = None,
    seed: int = 0,
    name: str | None = None,
    axes: int = 1,
    reduced: bool = False,
    pace: Pace | None = None,
) -> Run:
    """Check the arguments, which are those of :func:`check`, and return the run to be judged.

    ``pace`` measures the seconds of a call, and says from which on a function is slow.
    """
    pace = pace or watch().pace or Pace()
    encoding = on_host(encoding)
    fn = fn if isinstance(fn, Implementation) else tame(fn)
    own_name = str(getattr(fn, "__name__", None) or type(fn).__name__)
    bound = fn if isinstance(fn, Implementation) else Implementation(fn, surface, own_name)
    _choice("dtype", dtype, tuple(ROUNDOFF))
    _choice("precision", precision, (None, *ROUNDOFF))
    _choice("angles", angles, (None, *ANGLES))
    layout = tensor_layout or bound.tensor_layout
    _choice("tensor_layout", layout, TENSOR_LAYOUTS)
    if layout != "bhsd" and surface not in LAID_OUT and SIGNATURES[surface].one_map:
        raise ValueError(
            f"tensor_layout must be 'bhsd' on surface {surface!r}, whose functions take vectors "
            f"(B, H, S, D), got {layout!r}: transpose them in a wrapper of the function"
        )
    library = backend or bound.backend
    several = encoding.num_axes if isinstance(encoding, Rotary) else 1
    driver = Driver(
        fn,
        library,
        dtype=dtype,
        tensor_layout=layout,
        device=device,
        inplace=inplace,
        keeps_dtype=surface == "apply",
        names=SIGNATURES[surface].arguments,
        factory=factory or bound.factory,
        axes=max(axes, bound.axes, several),
        pace=pace,
    )
    reason = driver.backend.missing()
    if reason is not None:
        raise ValueError(f"backend {reason}")
    devices = driver.backend.devices()
    if device is not None and device.partition(":")[0] not in devices:
        raise ValueError(
            f"device must be one that {library} has here, {', '.join(devices)}; got {device!r}"
        )
    if dtype not in driver.backend.dtypes:
        numpys = dtype == "bfloat16" and library == "numpy"
        hint = "; NumPy's bfloat16 needs ml_dtypes: pip install ml_dtypes" if numpys else ""
        raise ValueError(
            f"dtype must be one that {library} has here, {', '.join(driver.backend.dtypes)}; "
            f"got {dtype!r}{hint}"
        )
    if isinstance(encoding, Rotary):
        if head_dim not in (None, encoding.head_dim):
            raise ValueError(
                f"head_dim must be {encoding.head_dim}, as in the encoding, got {head_dim}"
            )
        head_dim = encoding.head_dim
    head_dim = head_dim or bound.head_dim
    settings = Settings(
        angles, precision, max_position, seed, head_dim, reduced, strict, accept_limits, pace
    )
    report = Report(name or bound.name or own_name, surface, describe(encoding), library, dtype)
    report.called = bound.how
    ledger = Ledger(report)
    for text in bound.limits:
        ledger.limit(text)
    return Run(driver, encoding, settings, ledger)


def _choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
