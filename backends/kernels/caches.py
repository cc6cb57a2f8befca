"""The size of the processor's second-level cache, in which blocks of intermediate results stay."""

from __future__ import annotations

import functools
from pathlib import Path

#: Linux describes each cache of a core in a folder.
_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
#: Where the system does not say: smaller than most.
_USUAL = 2**20
_UNITS = {"K": 2**10, "M": 2**20}


@functools.cache
def second_level() -> int:
    """Return its bytes, at least 256 KiB; 1 MiB where the system does not say."""
    for folder in sorted(_FOLDER.glob("index*")):
        try:
            level, size = ((folder / name).read_text().strip() for name in ("level", "size"))
        except OSError:
            continue
        if level == "2" and size[:-1].isdecimal() and size[-1] in _UNITS:
            return max(256 * 2**10, int(size[:-1]) * _UNITS[size[-1]])
    return _USUAL
