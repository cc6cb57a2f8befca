"""What each array library can do, declared in one place per library.

``posenc_ref`` itself needs none of this: it runs on any Array API library.  Here stands what each
one is able to (dtypes, devices), why it cannot be used on this machine, and how the conformance
suite gets arrays in and out.  ``fused(encoding)`` is the fast path, and ``score_mod(encoding)`` a
bias inside torch's ``flex_attention``; ``toeplitz_view`` spreads what depends on ``j - i`` alone
over queries and keys, without a copy.
"""

if __name__ != "posenc_ref.backends":
    raise ImportError(
        "this folder is the package posenc_ref.backends: import that, after installing posenc-ref"
    )

from .array_api_strict import BACKEND as _STRICT
from .backend import Backend
from .cupy import BACKEND as _CUPY
from .dask import BACKEND as _DASK
from .dispatch import fused
from .jax import BACKEND as _JAX
from .numpy import BACKEND as _NUMPY
from .score_mod import ScoreMod, score_mod
from .toeplitz import toeplitz_view
from .torch import BACKEND as _TORCH

_BACKENDS = {b.name: b for b in (_NUMPY, _TORCH, _JAX, _DASK, _STRICT, _CUPY)}

__all__ = ["Backend", "ScoreMod", "backend", "backends", "fused", "score_mod", "toeplitz_view"]


def backends() -> tuple[Backend, ...]:
    """Every declared backend, installed or not.

    Returns
    -------
    tuple of Backend
    """
    return tuple(_BACKENDS.values())


def backend(name: str) -> Backend:
    """The backend of one library.

    Parameters
    ----------
    name : str
        Such as ``"torch"``.

    Returns
    -------
    Backend

    Raises
    ------
    ValueError
        A name that is not known; the message has those that are.
    """
    if name not in _BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(_BACKENDS)}, got {name!r}")
    return _BACKENDS[name]
