"""Other people's libraries, in the shape of a surface.

Each module imports its library only when something of that library is built, so that this package
costs nothing and needs nothing. `known` lists what can be judged here and now.
"""

from .gguf import from_gguf
from .transformers import from_transformers

__all__ = ["from_gguf", "from_transformers"]
