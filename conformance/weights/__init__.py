"""Convert the query and key weights of checkpoints to another layout, and compare checkpoints."""

from .checkpoint import Checkpoint, open_checkpoint
from .compare import Comparison, compare_checkpoints
from .convert import Conversion, ConversionError, convert_checkpoint

__all__ = [
    "Checkpoint",
    "Comparison",
    "Conversion",
    "ConversionError",
    "compare_checkpoints",
    "convert_checkpoint",
    "open_checkpoint",
]
