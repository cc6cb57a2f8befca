"""Which cases of a test a pull request tries; .ci/nightly tries all."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def by_day(cases: Iterable[Any], day: Collection[Any]) -> list[Any]:
    """Return ``cases`` for ``parametrize``: those that are not in ``day`` are marked nightly."""
    night = pytest.mark.nightly
    return [case if case in day else pytest.param(case, marks=night) for case in cases]
