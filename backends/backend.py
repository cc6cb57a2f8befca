"""The declaration every array library makes: what it can do, how arrays go in and out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Backend:
    """One array library.  Documentation, skips and tests are made from these fields.

    Attributes
    ----------
    name : str
        What :func:`backend` calls it.
    module : str
        What is imported.
    distribution : str
        What is installed, for the version.
    install : str
        What to type where it is missing.
    dtypes : tuple[str, ...]
        Floating dtypes in which encodings are exact to one rounding.
    devices : callable
        ``devices()``: names of the devices found here, the default first.
    asarray : callable
        ``asarray(values, dtype, device)``: host values as an array, dtype and device by name.
    asnumpy : callable
        ``asnumpy(array)`` on the host: floats as float64, integers as they are.
    unusable : callable
        ``unusable()``: why arrays fail here, None where they do not.
    lazy : bool
        Whether values are not looked at while an encoding is applied.
    fused : tuple[str, ...]
        Encodings with a fast path of their own.
    """

    name: str
    module: str
    distribution: str
    install: str
    dtypes: tuple[str, ...]
    devices: Callable[[], tuple[str, ...]]
    asarray: Callable[[np.ndarray, str, str | None], Array]
    asnumpy: Callable[[Array], np.ndarray]
    unusable: Callable[[], str | None] = field(default=_nothing)
    lazy: bool = False
    fused: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The installed version, or an empty string."""
        import importlib.metadata  # it loads the parsers of e-mail: `import` stays light

        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return ""

    def missing(self) -> str | None:
        """Why this library cannot be used here, in words for the user; None where it can."""
        try:
            importlib.import_module(self.module)
        except ImportError as error:
            return f"{self.name} is not installed ({error}); {self.install}"
        reason = self.unusable()
        return None if reason is None else f"{self.name} cannot be used here: {reason}"


def widen(values: np.ndarray) -> np.ndarray:
    """Floats (bfloat16 among them) as float64, anything else as it is."""
    kind = str(values.dtype)
    return values.astype(np.float64) if "float" in kind else values
