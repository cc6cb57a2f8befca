"""Functions of other libraries, adapted to surfaces.

Each module imports its library only when it builds one of that library's functions.
"""

from .gguf import from_gguf
from .transformers import from_transformers

__all__ = ["from_gguf", "from_transformers"]
