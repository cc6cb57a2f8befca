"""Wrong rotary encodings: what one call leaves behind for the next."""

import numpy as np

from tests.mutants._case import rope, wrong
from tests.mutants._parts import inv_freq, over_heads, phase, turn_half, turn_pairs

# --- state ---------------------------------------------------------------------------------------


@wrong("state", encoding=rope(64, "half"), thread="lucidrains/rotary-embedding-torch#11")
class CacheKeyedByLength:
    """The cached angles depend on the number of tokens only."""

    def __init__(self):
        self.cache = {}

    def __call__(self, x, positions):
        key = np.shape(positions)
        if key not in self.cache:
            self.cache[key] = phase(positions, inv_freq(64))
        return turn_half(x, self.cache[key])


@wrong(
    "state",
    encoding=rope(64, "interleaved"),
    thread="vllm-project/vllm#37884",
)
class BufferAccumulates:
    """A persistent position buffer is advanced by every call."""

    def __init__(self):
        self.seen = 0

    def __call__(self, x, positions):
        y = turn_pairs(x, phase(np.asarray(positions) + self.seen, inv_freq(64)))
        self.seen += x.shape[2]
        return y


@wrong(
    "state",
    "base",
    "scaling-formula",
    "position-range",
    encoding=rope(64, "half"),
    thread="huggingface/transformers#25306",
)
class BaseLatchesAfterLongInput:
    """A call past 4096 enlarges the base for good."""

    def __init__(self):
        self.w = inv_freq(64)

    def __call__(self, x, positions):
        if np.size(positions) and np.max(positions) >= 4096:
            self.w = inv_freq(64, 10000.0 * 4.0 ** (64 / 62))
        return turn_half(x, phase(positions, self.w))


@wrong(
    "state",
    surface="cos_sin",
    encoding=rope(128, "half", base=500000.0),
    thread="huggingface/transformers#25306",
    held_out=True,
)
class LongCallSpoilsTheNextShortOne:
    """Every call is right unless a call past 2048 went before it."""

    def __init__(self):
        self.longest = 0

    def __call__(self, positions):
        base = 500000.0 if self.longest <= 2048 else 2000000.0
        largest = int(np.max(positions, initial=0))
        if largest > 2048:
            base = 500000.0
        self.longest = max(self.longest, largest)
        a = np.asarray(positions, np.float32)[:, None] * inv_freq(128, base)
        return np.cos(a), np.sin(a)


@wrong(
    "state",
    "wrong-row",
    "position-range",
    encoding=rope(64, "half"),
    thread="class: cache grown in place from the wrong origin",
    held_out=True,
)
class GrowsFromZeroAgain:
    """The first call builds a right table; rows appended later are numbered from zero."""

    def __init__(self):
        self.angles = np.empty((0, 32), np.float32)

    def __call__(self, x, positions):
        positions = np.asarray(positions)
        if positions.dtype.kind not in "iu" or (positions.size and positions.min() < 0):
            raise ValueError("positions must be non-negative integers")
        need = int(np.max(positions, initial=0)) + 1
        if need > 262144:
            raise IndexError("position outside the table")
        new = np.arange(max(need - len(self.angles), 0), dtype=np.float32)
        self.angles = np.concatenate([self.angles, new[:, None] * inv_freq(64)])
        return turn_half(x, over_heads(self.angles[positions]))


@wrong(
    "state",
    encoding=rope(64, "interleaved"),
    thread="class: output buffer reused between calls",
    held_out=True,
)
class OutputBufferReused:
    """Calls of one shape return the same array, so an earlier result changes afterwards."""

    def __init__(self):
        self.buffers = {}

    def __call__(self, x, positions):
        out = self.buffers.setdefault(x.shape, np.empty(x.shape, x.dtype))
        out[...] = turn_pairs(x, phase(positions, inv_freq(64)))
        return out


@wrong(
    "state",
    encoding=rope(64, "half"),
    thread="lucidrains/rotary-embedding-torch#11",
)
class FirstBatchPositionsKept:
    """Per-row positions of the first batched call are kept for later ones of that shape."""

    def __init__(self):
        self.rows = {}

    def __call__(self, x, positions):
        positions = np.asarray(positions)
        if positions.ndim == 2:
            positions = self.rows.setdefault(positions.shape, positions.copy())
        return turn_half(x, phase(positions, inv_freq(64)))
