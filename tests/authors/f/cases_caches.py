"""Offsets, calls, decoding, caches, shifts and gradients of rotations (f047 - f070)."""
import numpy as np

from posenc_ref import (DynamicNTK, LinearScaling, LongRoPE, MultiAxisRoPE, NTKScaling, QwenNTK, RoPE, YaRN)

CASES = []


def case(id, make, encoding, surface, cause, key="", remedy="", right=False, **settings):
    CASES.append(dict(id=id, fn=make if right else make(True), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def freqs(d, base=10000.0):
    return np.exp(-np.log(base) * np.arange(0, d, 2) / d)


def phases(p, f):
    return np.exp(1j * np.asarray(p, np.float64)[..., None] * f)


def turn(x, z, m=1.0):
    """Half-split pairs of x (..., S, 2P) times z (..., S, P)."""
    n = z.shape[-1]
    w = (x[..., :n].astype(np.float64) + 1j * x[..., n:2 * n]) * z * m
    return np.concatenate([w.real, w.imag, x[..., 2 * n:]], -1).astype(x.dtype)


def pairs(x, z):
    """Interleaved pairs."""
    w = (x[..., 0::2].astype(np.float64) + 1j * x[..., 1::2]) * z
    return np.stack([w.real, w.imag], -1).reshape(x.shape).astype(x.dtype)


# -- f047: offsets as int16 ------------------------------------------------------------------------------
def make(bug):
    def apply(x, offset):
        o = np.asarray(offset)
        if bug:
            o = o.astype(np.int64).astype(np.uint16).astype(np.int64)
        p = o[:, None] + np.arange(x.shape[-2])
        return turn(x, phases(p, freqs(64))[:, None])
    return apply


case("f047", make, RoPE(64, layout="half"), "apply_offset",
     "Offsets are stored as uint16: from 65536 on they wrap, so a row at offset 65536 + n is rotated like one at n.",
     "offset-uint16", "Store offsets as 32-bit or wider integers.")


# -- f048: offset rounded to the page for one token ----------------------------------------------------------
def make(bug):
    def paged(x, offset):
        o = np.asarray(offset, np.int64)
        page, slot = o // 16, o % 16
        if bug and x.shape[-2] > 1:
            slot = np.zeros_like(slot)
        p = (page * 16 + slot)[:, None] + np.arange(x.shape[-2])
        return pairs(x, phases(p, freqs(64))[:, None])
    return paged


case("f048", make, RoPE(64, layout="interleaved"), "apply_offset",
     "In calls of more than one token the slot inside the page of 16 is dropped, so a row starts at its offset rounded "
     "down to a multiple of 16; single tokens are right.", "page-slot", "Add offset % 16.")


# -- f049: offset added per row index ---------------------------------------------------------------------------
def make(bug):
    def ragged(x, offset):
        y = np.empty_like(x)
        for b in range(x.shape[0]):
            start = int(offset[b])
            if bug and b:
                start = int(offset[b]) - int(offset[b - 1]) if offset[b] >= offset[b - 1] else int(offset[b])
            y[b] = turn(x[b], phases(np.arange(start, start + x.shape[2]), freqs(128)))
        return y
    return ragged


case("f049", make, RoPE(128, layout="half"), "apply_offset",
     "Rows above 0 start at the difference to the offset of the row before (offsets taken for cumulative lengths) "
     "wherever that difference is not negative.", "offset-difference", "Use offset[b] itself.")


# -- f050 right: gather from a table grown to the largest offset -------------------------------------------------
def grown():
    state = {"z": np.zeros((0, 32), complex)}

    def apply(x, offset):
        p = np.asarray(offset, np.int64)[:, None] + np.arange(x.shape[-2])
        if p.min() < 0 or p.max() >= 1 << 14:
            return turn(x, phases(p, freqs(64))[:, None])
        if p.max() >= len(state["z"]):
            state["z"] = phases(np.arange(int(p.max()) + 1), freqs(64))
        return turn(x, state["z"][p][:, None])
    return apply


case("f050", grown(), RoPE(64, layout="half"), "apply_offset",
     "Right: a growing table of complex numbers up to 16384, direct computation beyond.", right=True)


# -- f051: calls: table rebuilt for the length only --------------------------------------------------------------
def make(bug):
    class Cached:
        def __init__(self):
            self.rows = 0

        def __call__(self, x, offset):
            n = x.shape[-2] + (0 if bug else offset)
            if n > self.rows or (bug and not self.rows):
                self.rows = n
                self.z = phases(np.arange(n), freqs(64))
            at = np.minimum(np.arange(offset, offset + x.shape[-2]), len(self.z) - 1)
            return turn(x, self.z[at])

    def calls(steps):
        one = Cached()
        return [one(x, int(o)) for x, o in steps]
    return calls


case("f051", make, RoPE(64, layout="half"), "calls",
     "The cached table is extended by the number of tokens of a call, not by offset + tokens; positions beyond its end "
     "are clamped to its last row.", "cache-grows-by-s", "Compare offset + S with the rows of the table.")


# -- f052: from the third call on ------------------------------------------------------------------------------------
def make(bug):
    def calls(steps):
        graph, out = {}, []
        for n, (x, offset) in enumerate(steps):
            s = x.shape[-2]
            if not bug or n < 2 or s not in graph:
                graph[s] = phases(np.arange(offset, offset + s), freqs(64))
            out.append(pairs(x, graph[s]))
        return out
    return calls


case("f052", make, RoPE(64, layout="interleaved"), "calls",
     "From the third call on, a captured graph is replayed for a number of tokens seen before: it keeps the offset of the "
     "earlier call with that number of tokens.", "replayed-offset", "Copy the offset into the graph's input before a replay.")


# -- f053: dynamic NTK base never goes back -----------------------------------------------------------------------------
def make(bug):
    def calls(steps):
        longest, out = 1024, []
        for x, offset in steps:
            n = int(offset) + x.shape[-2]
            longest = max(longest, n) if bug else max(n, 1024)
            alpha = 2.0 * longest / 1024 - 1.0
            out.append(turn(x, phases(np.arange(offset, n), freqs(64, 10000.0 * alpha ** (64 / 62)))))
        return out
    return calls


case("f053", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 1024)), "calls",
     "After a long call the enlarged base is kept: shorter independent calls later use the frequencies of the longest "
     "length seen so far instead of their own.", "dynamic-not-reset", "Recompute the base for the length of each call.")


# -- f054: decode, chunk start one too small for chunks longer than 1 -------------------------------------------------------
def make(bug):
    def decode(x, chunks):
        out, past = [], 0
        for n in chunks:
            start = past - 1 if bug and past and n > 1 else past
            out.append(turn(x[..., past:past + n, :], phases(np.arange(start, start + n), freqs(64))))
            past += n
        return np.concatenate(out, axis=-2)
    return decode


case("f054", make, RoPE(64, layout="half"), "decode",
     "A chunk of several tokens that follows earlier ones starts one position too early (past - 1); first chunks and "
     "single tokens are right.", "chunk-start", "Start at past.")


# -- f055: decode, doubled buffer ----------------------------------------------------------------------------------------------
def make(bug):
    def decode(x, chunks):
        table, past, out = phases(np.arange(8), freqs(64)), 0, []
        for n in chunks:
            while past + n > len(table):
                size = len(table)
                more = np.arange(size, 2 * size) - (1 if bug else 0)
                table = np.concatenate([table, phases(more, freqs(64))])
            out.append(pairs(x[..., past:past + n, :], table[past:past + n]))
            past += n
        return np.concatenate(out, -2)
    return decode


case("f055", make, RoPE(64, layout="interleaved"), "decode",
     "When the table is doubled, the new rows start at its last row, not after it: from position 8 on every token gets "
     "the angle of the position before.", "doubling-off-by-one", "Fill the new rows with arange(size, 2 * size).")


# -- f056: decode counts chunks -----------------------------------------------------------------------------------------------
def make(bug):
    def decode(x, chunks):
        out, seen, steps = [], 0, 0
        for n in chunks:
            start = seen
            if bug and n == 1:                      # generated tokens: prompt length + step number
                start = chunks[0] + steps - (1 if len(out) else chunks[0])
            out.append(turn(x[..., seen:seen + n, :], phases(np.arange(start, start + n), freqs(64, 1e6))))
            seen += n
            steps += 1
        return np.concatenate(out, -2)
    return decode


case("f056", make, RoPE(64, layout="half", base=1e6), "decode",
     "The position of a single token is the length of the first chunk plus the number of later chunks, which is wrong "
     "once a later chunk has had more than one token.", "steps-not-tokens", "Count tokens, not chunks.")


# -- f057 right: phase recurrence, synchronised -------------------------------------------------------------------------------
def recurrence(x, chunks):
    f = freqs(64)
    step, state, y, at = np.exp(1j * f), np.ones(32, complex), np.empty_like(x), 0
    for n in chunks:
        for _ in range(n):
            if at % 32 == 0:
                state = np.exp(1j * at * f)
            y[..., at, :] = turn(x[..., at, :], state)
            state, at = state * step, at + 1
    return y


case("f057", recurrence, RoPE(64, layout="half"), "decode",
     "Right: the phase of a token is that of the one before times e^(i theta), set anew every 32 tokens.", right=True)


# -- f058: key cache keeps old frequencies -------------------------------------------------------------------------------------------
DYN = RoPE(64, layout="half", scaling=DynamicNTK(4.0, 64))


def dyn(length):
    alpha = 4.0 * max(length, 64) / 64 - 3.0
    return freqs(64, 10000.0 * alpha ** (64 / 62))


def make(bug):
    def cache(k, chunks):
        rotated, past, made_for = None, 0, 0
        for n in chunks:
            total = past + n
            if rotated is None or not bug or total >= 2 * made_for:
                rotated, made_for = turn(k[..., :total, :], phases(np.arange(total), dyn(total))), total
            else:
                new = turn(k[..., past:total, :], phases(np.arange(past, total), dyn(total)))
                rotated = np.concatenate([rotated, new], -2)
            past = total
        return rotated
    return cache


case("f058", make, DYN, "key_cache",
     "Cached keys are rotated again only when the length has doubled since the last time; in between, old keys keep the "
     "frequencies of an earlier length.", "stale-keys", "Rotate all raw keys with the frequencies of the present length.")


# -- f059: LongRoPE cache chooses the list by the new chunk -----------------------------------------------------------------------------
SH, LO = tuple(1 + 0.1 * k for k in range(16)), tuple(2.0 + k for k in range(16))
M32 = float(np.sqrt(1 + np.log(8) / np.log(128)))


def make(bug):
    def cache(k, chunks):
        total = sum(chunks)
        length = (chunks[-1] if len(chunks) > 1 else total) if bug else total
        lam = np.array(LO if length > 128 else SH)
        return turn(k, phases(np.arange(total), freqs(32) / lam), M32)
    return cache


case("f059", make, RoPE(32, layout="half", scaling=LongRoPE(SH, LO, 128, factor=8.0)), "key_cache",
     "The list of factors is chosen by the length of the last chunk, not of the whole cache: beyond the trained length of "
     "128 keys keep the short factors while the last chunk is short.", "chunk-length", "Use the total length.")


# -- f060 right: raw keys, Qwen's steps ----------------------------------------------------------------------------------------------------
def qwen_cache(k, chunks):
    store = []
    at = 0
    for n in chunks:
        store.append(np.ascontiguousarray(k[..., at:at + n, :]))
        at += n
    raw, power = np.concatenate(store, -2), 0
    while 64 << power < at:
        power += 1
    alpha = float(2 ** (power + 1) - 1)
    return turn(raw, phases(np.arange(at), freqs(64) / alpha ** (np.arange(0, 64, 2) / 62)))


case("f060", qwen_cache, RoPE(64, layout="half", scaling=QwenNTK(64)), "key_cache",
     "Right: keeps raw keys and rotates all of them at the end; the step of alpha comes from shifts, without a logarithm.",
     right=True)


# -- f061: shift multiplies by m again --------------------------------------------------------------------------------------------------------
def yarn(d, s, length, base=10000.0):
    k = [d * np.log(length / (2 * np.pi * r)) / (2 * np.log(base)) for r in (32, 1)]
    a, b = max(np.floor(k[0]), 0), min(np.ceil(k[1]), d - 1)
    w = np.clip((np.arange(d // 2) - a) / (b - a), 0, 1)
    return freqs(d, base) * (1 - w + w / s)


def make(bug):
    f, m = yarn(64, 8.0, 4096), 0.1 * np.log(8.0) + 1

    def shift(k, delta):
        z = np.exp(1j * float(delta) * f)
        return turn(k, np.broadcast_to(z, (*k.shape[:-1], 32)), m if bug else 1.0)
    return shift


case("f061", make, RoPE(64, layout="half", scaling=YaRN(8.0, 4096)), "shift_keys",
     "The shift multiplies keys by the attention factor m although they already contain it (m squared afterwards).",
     "shift-m-again", "Shift with plain cos and sin.")


# -- f062: shift takes the absolute value -----------------------------------------------------------------------------------------------------------
def make(bug):
    def shift(k, delta):
        d = abs(delta) if bug else delta
        return pairs(k, np.exp(1j * d * freqs(64)))
    return shift


case("f062", make, RoPE(64, layout="interleaved"), "shift_keys",
     "A negative delta is replaced by its absolute value: keys that should move back move forward.", "shift-sign",
     "Keep the sign of delta.")


# -- f063: shift with unscaled frequencies -------------------------------------------------------------------------------------------------------------
def make(bug):
    f = freqs(64) / (1.0 if bug else 4.0)

    def shift(k, delta):
        return turn(k, np.exp(1j * delta * f))
    return shift


case("f063", make, RoPE(80, layout="half", rotary_dim=64, scaling=LinearScaling(4.0)), "shift_keys",
     "Keys were rotated with interpolated frequencies but the shift uses the plain ones, four times too far.",
     "shift-unscaled", "Use the same frequencies as for the rotation.")


# -- f064 right: shift in two halves -------------------------------------------------------------------------------------------------------------------------
def shift_twice(k, delta):
    first = turn(k.astype(np.float64), np.exp(1j * (delta * 0.5) * freqs(64)))
    return turn(first, np.exp(1j * (delta * 0.5) * freqs(64))).astype(k.dtype)


case("f064", shift_twice, RoPE(80, layout="half", rotary_dim=64), "shift_keys",
     "Right: rotates twice by half of delta; the last 16 channels pass.", right=True)


# -- f065: gradient divides by m -----------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    f, m = yarn(64, 8.0, 4096), 0.1 * np.log(8.0) + 1

    def vjp(x, positions, dy):
        z = phases(positions, f).conj()
        z = z[:, None] if z.ndim == 3 else z
        return turn(dy, z, 1 / m if bug else m)
    return vjp


case("f065", make, RoPE(64, layout="half", scaling=YaRN(8.0, 4096)), "apply_vjp",
     "The backward pass is the inverse rotation divided by m, not the transpose, which multiplies by m.",
     "inverse-not-transpose", "Multiply by m in the backward pass too.")


# -- f066: sine negated in one half only -----------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def vjp(x, positions, dy):
        z = phases(positions, freqs(64))
        z = z[:, None] if z.ndim == 3 else z
        c, s = z.real, z.imag
        u, v = dy[..., :32].astype(np.float64), dy[..., 32:].astype(np.float64)
        return np.concatenate([u * c + v * s, v * c + u * s if bug else v * c - u * s], -1).astype(dy.dtype)
    return vjp


case("f066", make, RoPE(64, layout="half"), "apply_vjp",
     "In the backward pass the sine is negated for the first half of the channels only; the second half uses the sign of "
     "the forward pass.", "backward-half-sign", "Negate the sine in both halves.")


# -- f067: pass-through gradient dropped -------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def vjp(x, positions, dy):
        z = phases(positions, freqs(32)).conj()
        z = z[:, None] if z.ndim == 3 else z
        dx = np.zeros_like(dy)
        dx[..., :32] = pairs(dy[..., :32], z)
        if not bug:
            dx[..., 32:] = dy[..., 32:]
        return dx
    return vjp


case("f067", make, RoPE(64, layout="interleaved", rotary_dim=32), "apply_vjp",
     "The gradient of the channels that are not rotated (32 to 63) is zero instead of dy.", "passthrough-gradient",
     "Copy dy in the channels that pass through.")


# -- f068: evicted keys moved by the cache length -------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def evict(k, kept, dropped):
        sinks, rest = k[..., :kept, :], k[..., kept + dropped:, :]
        back = dropped + kept if bug else dropped
        return np.concatenate([sinks, turn(rest, np.exp(-1j * back * freqs(64)))], -2)
    return evict


case("f068", make, RoPE(64, layout="half"), "evict_keys",
     "Keys behind the gap move back by kept + dropped positions instead of dropped, so they overlap the kept ones.",
     "evict-shift", "Move them by dropped.")


# -- f069: eviction moves the sinks ------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def evict(k, kept, dropped):
        gone = np.arange(kept, kept + dropped)
        left = np.delete(k, gone, axis=-2)
        first = 1 if bug and kept else kept
        left[..., first:, :] = pairs(left[..., first:, :], np.exp(-1j * dropped * freqs(64)))
        return left
    return evict


case("f069", make, RoPE(64, layout="interleaved"), "evict_keys",
     "Of the kept keys only the first stays in place; kept keys 1 to kept - 1 are moved back together with the later ones.",
     "sinks-moved", "Start the shift at index kept.")


# -- f070: several axes and an offset, image rows counted from the offset ------------------------------------------------------------------------------------------------------
def make(bug):
    def calls(steps):
        out = []
        for n, (x, offset) in enumerate(steps):
            s = x.shape[-2]
            f = freqs(64, 10000.0 * 4.0 ** (64 / 62))
            p = np.arange(offset, offset + s)
            if bug and offset >= 1024:
                p = np.arange(s) + (offset - 1024) + 1023
            out.append(turn(x, phases(p, f)))
        return out
    return calls


case("f070", make, RoPE(64, layout="half", scaling=NTKScaling(4.0)), "calls",
     "Calls that start at offset 1024 or later (the second page of the table) are rotated one position too early.",
     "page-off-by-one", "Pages hold positions 1024 n to 1024 n + 1023: do not repeat the last row of the page before.")
