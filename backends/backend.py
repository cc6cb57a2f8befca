"""The record that describes an array library to the conformance suite and the tests."""

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
    """One array library: its dtypes and devices, and how to convert arrays from and to NumPy.

    Attributes
    ----------
    name : str
        The name that :func:`backend` takes.
    module : str
        The module to import.
    distribution : str
        The name of the package that is installed; its version is :attr:`version`.
    install : str
        The command that installs it.
    dtypes : tuple[str, ...]
        The floating dtypes that encodings accept for x, or for q and k. The result has the dtype of
        the input and is rounded to it once.
    devices : callable
        ``devices()`` returns the names of the devices of this machine, the default first.
    asarray : callable
        ``asarray(values, dtype, device)`` returns NumPy values as an array; dtype and device are
        names.
    asnumpy : callable
        ``asnumpy(array)`` returns a NumPy array: floats as float64, integers unchanged.
    unusable : callable
        ``unusable()`` returns the reason why arrays cannot be made on this machine, or None.
    lazy : bool
        Whether arrays have no values until they are computed, as in Dask.
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

    @property
    def version(self) -> str:
        """The installed version, or an empty string."""
        import importlib.metadata  # slow, and rarely needed

        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return ""

    def missing(self) -> str | None:
        """Return the reason why this library cannot be used on this machine, or None."""
        try:
            importlib.import_module(self.module)
        except ImportError as error:
            return f"{self.name} is not installed ({error}); {self.install}"
        reason = self.unusable()
        return None if reason is None else f"{self.name} cannot be used here: {reason}"


def widen(values: np.ndarray) -> np.ndarray:
    """Return floats, bfloat16 included, as float64, and anything else unchanged."""
    kind = str(values.dtype)
    return values.astype(np.float64) if "float" in kind else values
