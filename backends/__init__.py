"""Fast paths for single array libraries, and a description of each library.

``fused(encoding)`` applies an encoding by the fastest correct path, ``score_mod(encoding)`` adds a
bias inside torch's ``flex_attention``, and ``toeplitz_view`` views a bias that depends only on
``j - i`` as a full matrix, without a copy.  ``backend(name)`` describes a library: its dtypes, its
devices, the reason if it cannot be used on this machine, and its conversions from and to NumPy.

``posenc_ref`` itself needs none of this: it runs on any Array API library.
"""

if __name__ != "posenc_ref.backends":
    raise ImportError(
        "this folder is the package posenc_ref.backends: import that, after installing posenc-ref"
    )

from typing import TYPE_CHECKING, Any

from posenc_ref._text import shown

from .array_api_strict import BACKEND as _STRICT
from .backend import Backend
from .cupy import BACKEND as _CUPY
from .dask import BACKEND as _DASK
from .jax import BACKEND as _JAX
from .numpy import BACKEND as _NUMPY
from .score_mod import ScoreMod, score_mod
from .toeplitz import toeplitz_view
from .torch import BACKEND as _TORCH

if TYPE_CHECKING:
    from .dispatch import fused

_BACKENDS = {b.name: b for b in (_NUMPY, _TORCH, _JAX, _DASK, _STRICT, _CUPY)}

__all__ = ["Backend", "ScoreMod", "backend", "backends", "fused", "score_mod", "toeplitz_view"]


def __getattr__(name: str) -> Any:
    """Return ``fused``, whose fast paths are imported when it is first used."""
    if name != "fused":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .dispatch import fused

    globals()["fused"] = fused
    return fused


def backends() -> tuple[Backend, ...]:
    """Return every backend, installed or not.

    Returns
    -------
    tuple of Backend
    """
    return tuple(_BACKENDS.values())


def backend(name: str) -> Backend:
    """Return the backend of one library.

    Parameters
    ----------
    name : str
        The name of the library, such as ``"torch"``.

    Returns
    -------
    Backend

    Raises
    ------
    ValueError
        The name is unknown; the message lists those that are known.
    """
    if not isinstance(name, str) or name not in _BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(_BACKENDS)}, got {shown(name)}")
    return _BACKENDS[name]
