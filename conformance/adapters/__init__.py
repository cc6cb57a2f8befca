"""Functions of other libraries, adapted to surfaces.

Each module imports its library only when something of that library is built, so that this package
costs nothing and needs nothing. `libraries` lists every function that is known.
"""

from .gguf import from_gguf
from .transformers import from_transformers

__all__ = ["from_gguf", "from_transformers"]
