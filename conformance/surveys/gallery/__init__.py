"""The gallery: functions of real libraries, identified from outside, against their source.

``entries()`` are the functions, each with what its library's source says it is; ``posenc gallery``
identifies them with nothing declared, and compares.
"""

from .entry import Entry
from .judge import Shown, show
from .run import Gallery, gallery
from .table import LIBRARIES, entries, missing

__all__ = ["LIBRARIES", "Entry", "Gallery", "Shown", "entries", "gallery", "missing", "show"]
