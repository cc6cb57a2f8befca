"""Functions of other libraries, adapted to surfaces.

Each module imports its library only when it builds one of that library's functions.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .gguf import from_gguf
    from .transformers import from_transformers

__all__ = ["from_gguf", "from_transformers"]


def __getattr__(name: str) -> Any:
    """Return a function of an adapter, which is imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{name.removeprefix('from_')}"), name)
