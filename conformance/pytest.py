"""``parametrize_with_conformance``: a pytest test for each check of the suite.

pytest is imported only when the decorator is used.  ``posenc_ref_pytest`` is the plugin, which
pytest loads by itself; this module works without it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

from posenc_ref import RoPE
from posenc_ref.backends import backends

from .assertions import tell_pytest
from .calling import bind
from .check import check
from .harness.by_check import CONTROLS, EXPECTED, FAILED, SKIPPED, XFAILED, CheckResult, by_check
from .harness.expected import ExpectedFailure, expectation
from .harness.implementation import Implementation
from .harness.ledger import CALLS
from .harness.signatures import SURFACES
from .harness.to_host import on_host
from .surfaces import Declared

__all__ = ["parametrize_with_conformance"]

#: The highest position at which our own function is judged, for the names of the checks.
_FEW = 128
#: The settings of ``check`` that determine how a function is called.
_BINDING = ("tensor_layout", "backend", "dtype", "head_dim", "name")


def parametrize_with_conformance(
    fn: Callable[..., Any],
    encoding: Declared = None,
    surface: str | None = None,
    *,
    expected_failure: ExpectedFailure | Mapping[str, Any] | None = None,
    **settings: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that runs a test once for each check of ``fn``, with an id for each.

    The test calls its argument ``check``::

        @parametrize_with_conformance(apply, RoPE(64, layout="half"), "apply")
        def test_rope(check):
            check()

    The first test judges ``fn`` against ``encoding`` and the others show their part of the report,
    so a test that fails shows only its own findings.  ``calls`` is about what can go wrong in any
    call: exceptions, wrong shapes and dtypes, NaN and overwritten inputs; ``controls`` about
    perturbed outputs, which must be rejected.  Inputs that are optional and refused are skipped.

    Parameters
    ----------
    fn, encoding, surface, settings
        As for :func:`posenc_ref.conformance.check`.
    expected_failure : ExpectedFailure or mapping, optional
        As for :func:`posenc_ref.conformance.assert_conforms`: ``{"code": ..., "reason": ...}``.
        Tests that fail with these errors only are expected failures, with the reason.  The test
        ``expected deviation`` fails if not exactly these errors were found.

    Raises
    ------
    TypeError, ValueError
        At collection, if the arguments do not fit together, or ``surface`` is not given and it is
        not found out how to call ``fn``.
    """
    import pytest

    expected = expectation(expected_failure)
    bound = fn if isinstance(fn, Implementation) else None
    if bound is None and surface is None:  # the ids depend on the surface
        known = {key: settings[key] for key in _BINDING if key in settings}
        fn = bound = bind(fn, encoding, **known)
    surface = surface or (bound.surface if bound else None)
    encoding = encoding or (bound.encoding if bound else None)
    names = [*_checks(encoding, surface, settings), CALLS, CONTROLS]
    names += [EXPECTED] if expected is not None else []
    run = _Run(functools.partial(check, fn, encoding, surface, **settings), names, expected)
    parts = [pytest.param(_Part(run, name), id=name) for name in names]
    mark: Callable[[Callable[..., Any]], Callable[..., Any]]
    mark = pytest.mark.parametrize("check", parts)
    return mark


def _checks(encoding: Declared, surface: str | None, settings: Mapping[str, Any]) -> list[str]:
    """Return the checks of a surface, from judging the function of posenc_ref at few positions."""
    row = SURFACES.get(surface or "")
    if row is None:
        raise ValueError(f"surface must be one of {', '.join(SURFACES)}, got {surface!r}")
    head_dim, dtype = settings.get("head_dim"), settings.get("dtype", "float32")
    declared = on_host(encoding)
    ours = RoPE(head_dim, layout="half") if declared is None and head_dim else declared
    (numpy,) = (b for b in backends() if b.name == "numpy")
    report = check(
        lambda *arguments: row.own(ours, dtype)(*arguments),  # after check refused wrong ones
        declared,
        surface,
        dtype=dtype if dtype in numpy.dtypes else "float32",
        precision=settings.get("precision"),
        head_dim=head_dim,
        max_position=max(row.least, _FEW),
    )
    return list(dict.fromkeys([*report.executed, *report.required]))


class _Run:
    """One run of the judge, made when its results are first needed."""

    def __init__(
        self, judge: Callable[[], Any], names: list[str], expected: ExpectedFailure | None
    ) -> None:
        self.judge, self.names, self.expected = judge, names, expected
        self._results: dict[str, CheckResult] = {}
        self._error: Exception | None = None

    def results(self, part: str) -> dict[str, CheckResult]:
        """Return the results by name; a run that raises is not repeated."""
        if self._error is not None:
            raise self._error
        if not self._results:
            begin = time.perf_counter()
            try:
                report = self.judge()
            except Exception as error:
                self._error = error
                raise
            report.expected = self.expected
            tell_pytest(report, time.perf_counter() - begin, part)
            own = [name for name in self.names if name not in (CONTROLS, EXPECTED)]
            self._results = {result.name: result for result in by_check(report, own)}
        return self._results


class _Part:
    """One check of a run: calling it fails, skips or passes the test."""

    def __init__(self, run: _Run, name: str) -> None:
        self.run, self.name = run, name

    def __call__(self) -> None:
        """Show the result of this check to pytest."""
        __tracebackhide__ = True
        import pytest

        results = self.run.results(self.name)
        mine = [results[self.name]]
        if self.name == CALLS:  # checks that no other test shows
            mine += [result for name, result in results.items() if name not in self.run.names]
        failed = [result for result in mine if result.outcome == FAILED]
        for result in mine:
            if result.outcome == XFAILED and not failed:
                pytest.xfail(result.title)
                failed.append(result)  # with --runxfail, expected failures are failures
        if failed:
            text = "\n".join(f"{result.name}: {result.text or result.title}" for result in failed)
            pytest.fail(text, pytrace=False)
        if mine[0].outcome == SKIPPED:
            pytest.skip(mine[0].title)
