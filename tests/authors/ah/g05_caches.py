"""Incremental instances and caches of keys: `decode`, `key_cache`, `shift_keys`, `evict_keys`."""
import math
import numpy as np
import torch


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _half(x, ang, m=1.0):
    c, s = m * np.cos(ang), m * np.sin(ang)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


def _pairs(x, ang, m=1.0):
    c, s = m * np.cos(ang), m * np.sin(ang)
    e, o = x[..., 0::2], x[..., 1::2]
    return np.stack([e * c - o * s, o * c + e * s], -1).reshape(x.shape).astype(x.dtype)


def _feed(step, x, chunks):
    parts, at = [x[..., :0, :]], 0
    for n in chunks:
        parts.append(step(x[..., at:at + n, :]))
        at += n
    return np.concatenate(parts, axis=-2)


def _yarn(dim, base, factor, original, fast=32.0, slow=1.0):
    def c(r):
        return dim * math.log(original / (r * 2 * math.pi)) / (2 * math.log(base))
    lo, hi = max(math.floor(c(fast)), 0), min(math.ceil(c(slow)), dim - 1)
    f = base ** (-np.arange(0, dim, 2) / dim)
    w = np.clip((np.arange(dim // 2) - lo) / max(hi - lo, 0.001), 0, 1)
    return f * (1 - w) + f / factor * w


# ---------------------------------------------------------------- decode, wrong
def decode_counts_calls(x, chunks):
    """self.index moves on by one in every call after the prompt."""
    class Layer:
        index, d = None, x.shape[-1]

        def step(self, y):
            start = 0 if self.index is None else self.index
            self.index = start + (y.shape[-2] if self.index is None else 1)
            return _half(y, np.arange(start, start + y.shape[-2])[:, None] * _inv(self.d))

    return _feed(Layer().step, x, chunks)


def decode_window(x, chunks):
    """Rolling buffer of 64 slots: the position of a token is the slot that it is written to."""
    class Rolling:
        def __init__(self, size=64):
            self.size, self.seen = size, 0

        def step(self, y):
            p = np.minimum(self.seen + np.arange(y.shape[-2]), self.size - 1)
            self.seen += y.shape[-2]
            return _pairs(y, p[:, None] * _inv(y.shape[-1]))

    return _feed(Rolling().step, x, chunks)


def decode_numel(x, chunks):
    """past_key_values_length from the number of tokens in the flattened batch."""
    class Attention:
        past = 0

        def step(self, y):
            p = self.past + np.arange(y.shape[-2])
            flat = y.transpose(0, 2, 1, 3).reshape(-1, y.shape[1], y.shape[3])
            self.past += len(flat)
            return _half(y, p[:, None] * _inv(y.shape[-1], 500000.0))

    return _feed(Attention().step, x, chunks)


def decode_factor_in_prefill(x, chunks):
    """YaRN: prefill and decoding have kernels of their own; only one knows attention_factor."""
    inv = _yarn(32, 10000.0, 16.0, 4096)
    m = 0.1 * math.log(16.0) + 1.0
    state = {"pos": 0}

    def prefill(y, p):
        return _half(y, p[:, None] * inv, m)

    def token(y, p):
        return _half(y, p[:, None] * inv)

    def step(y):
        p = state["pos"] + np.arange(y.shape[-2])
        kernel = prefill if state["pos"] == 0 else token
        state["pos"] += y.shape[-2]
        return kernel(y, p)

    return _feed(step, x, chunks)


def decode_two_kernels(x, chunks):
    """Position interpolation by 4. The kernel for one token was taken from another project."""
    state = {"n": 0}

    def step(y):
        S, d = y.shape[-2:]
        ang = (state["n"] + np.arange(S))[:, None] * _inv(d)
        state["n"] += S
        return _pairs(y, ang) if S == 1 else _half(y, ang)

    return _feed(step, x, chunks)


# ---------------------------------------------------------------- decode, right
def decode_recurrence(x, chunks):
    """Every token turns the phase of the one before; every 64 tokens the phase is computed anew."""
    d = x.shape[-1]
    inv = _inv(d, 500000.0)
    one = np.exp(1j * inv)
    state = {"p": 0, "phase": np.ones(d // 2, np.complex128)}

    def step(y):
        rows = np.empty((y.shape[-2], d // 2), np.complex128)
        for i in range(len(rows)):
            if state["p"] % 64 == 0:
                state["phase"] = np.exp(1j * (state["p"] * inv))
            rows[i] = state["phase"]
            state["phase"] = state["phase"] * one
            state["p"] += 1
        a, b = y[..., : d // 2], y[..., d // 2:]
        z = (a + 1j * b.astype(np.float64)) * rows
        return np.concatenate([z.real, z.imag], -1).astype(y.dtype)

    return _feed(step, x, chunks)


class TorchRotary(torch.nn.Module):
    def __init__(self, dim, rotary, base):
        super().__init__()
        self.rotary = rotary
        self.register_buffer("inv", base ** (-torch.arange(0, rotary, 2, dtype=torch.float64) / rotary))
        self.register_buffer("table", torch.zeros(0, rotary // 2, dtype=torch.complex128))
        self.past = 0

    def forward(self, y):
        last = self.past + y.shape[-2]
        if last > len(self.table):
            t = torch.arange(max(2 * len(self.table), last), dtype=torch.float64)
            self.table = torch.polar(torch.ones((), dtype=torch.float64), torch.outer(t, self.inv))
        w = self.table[self.past:last]
        self.past = last
        z = torch.view_as_complex(y[..., : self.rotary].double().unflatten(-1, (-1, 2)).contiguous())
        out = torch.view_as_real(z * w).flatten(-2).to(y.dtype)
        return torch.cat([out, y[..., self.rotary:]], -1)


def decode_module(x, chunks):
    module = TorchRotary(x.shape[-1], 16, 10000.0)
    if not len(chunks):
        return x.clone()
    return torch.cat([module(y) for y in torch.split(x, [int(n) for n in chunks], dim=-2)], dim=-2)


# ---------------------------------------------------------------- key_cache, wrong
_SHORT = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.8, 2.0])
_LONG = np.array([1.0, 1.4, 2.0, 3.5, 7.0, 13.0, 26.0, 32.0])


def cache_longrope_as_written(k, chunks):
    """Keys are rotated when they enter the cache, and stay."""
    m = math.sqrt(1 + math.log(16.0) / math.log(32))
    state = {"n": 0}

    def step(y):
        total = state["n"] + y.shape[-2]
        lam = _LONG if total > 32 else _SHORT
        ang = np.arange(state["n"], total)[:, None] * (_inv(16) / lam)
        state["n"] = total
        return _half(y, ang, m)

    return _feed(step, k, chunks)


def _dynamic(L, dim, base, trained, factor):
    L = max(L, trained)
    alpha = factor * L / trained - (factor - 1)
    return _inv(dim, base * alpha ** (dim / (dim - 2)))


def cache_lazy_update(k, chunks):
    """Raw keys; new frequencies only when the length has grown by a half, to save work."""
    known, n = 24, 0
    for c in chunks:
        n += c
        if n > 1.5 * known:
            known = n
    ang = np.arange(k.shape[-2])[:, None] * _dynamic(known, k.shape[-1], 10000.0, 24, 4.0)
    return _pairs(k, ang)


def cache_turned_again(k, chunks):
    """The cache is concatenated with the new raw keys and then rotated, in every step."""
    inv, cache, at = _inv(k.shape[-1]), k[..., :0, :], 0
    for n in chunks:
        cache = np.concatenate([cache, k[..., at:at + n, :]], axis=-2)
        at += n
        cache = _half(cache, np.arange(cache.shape[-2])[:, None] * inv)
    return cache


def cache_qwen_floor(k, chunks):
    """get_ntk_alpha of Qwen, in integers."""
    total, trained, d = k.shape[-2], 32, k.shape[-1]
    octaves = 0
    while trained * 2 ** (octaves + 1) <= total:
        octaves += 1
    alpha = max(2 ** (octaves + 1) - 1, 1)
    inv = _inv(d, 10000.0 * alpha ** (d / (d - 2)))
    return _half(k, np.arange(total)[:, None] * inv)


# ---------------------------------------------------------------- key_cache, right
def cache_moved_on(k, chunks):
    """Rotated keys only: when the frequencies change, each key turns by the difference of angles."""
    d, trained, factor = k.shape[-1], 24, 4.0
    z = np.zeros((*k.shape[:-2], 0, d // 2), np.complex128)
    inv, at = None, 0
    for n in chunks:
        new = k[..., at:at + n, :]
        at += n
        then = _dynamic(at, d, 10000.0, trained, factor)
        p = np.arange(at)[:, None]
        if inv is not None and z.shape[-2]:
            z = z * np.exp(1j * p[: z.shape[-2]] * (then - inv))
        inv = then
        raw = new[..., 0::2] + 1j * new[..., 1::2].astype(np.float64)
        z = np.concatenate([z, raw * np.exp(1j * p[at - n:] * then)], axis=-2)
    return np.stack([z.real, z.imag], -1).reshape(k.shape).astype(k.dtype)


# ---------------------------------------------------------------- shift_keys, wrong
def shift_backwards(rotated_k, delta):
    """K-shift of a context shift, where delta used to be the number of dropped tokens."""
    d = rotated_k.shape[-1]
    return _half(rotated_k, np.full((rotated_k.shape[-2], 1), -float(delta)) * _inv(d, 1000000.0))


def shift_with_factor(rotated_k, delta):
    """The shift calls rope_yarn, which multiplies by attn_factor and mscale."""
    inv = _yarn(32, 10000.0, 4.0, 2048)
    return _half(rotated_k, float(delta) * inv, 0.1 * math.log(4.0) + 1)


def shift_deepseek(rotated_k, delta):
    """qk_nope 16, qk_rope 16; the cache holds what the forward pass wrote (half-split)."""
    head = rotated_k.shape[-1]
    inv = 10000.0 ** (-np.arange(0, 16, 2) / head)
    return np.concatenate([rotated_k[..., :16], _pairs(rotated_k[..., 16:], float(delta) * inv)], -1)


def shift_unscaled(rotated_k, delta):
    """rope_freq_scale is passed to the graph of the forward pass only."""
    z = rotated_k[..., 0::2] + 1j * rotated_k[..., 1::2].astype(np.float64)
    z = z * np.exp(1j * float(delta) * _inv(rotated_k.shape[-1]))
    return np.stack([z.real, z.imag], -1).reshape(rotated_k.shape).astype(rotated_k.dtype)


# ---------------------------------------------------------------- shift_keys, right
def shift_torch_axes(rotated_k, delta):
    """M-RoPE keys moved on by delta on all three axes: all pairs turn by their own frequency."""
    d = rotated_k.shape[-1]
    step = torch.tensor(float(delta), dtype=torch.float64)
    inv = torch.exp(-torch.arange(0, d, 2, dtype=torch.float64) / d * math.log(1000000.0))
    w = torch.polar(torch.ones_like(inv), step * inv)
    a, b = rotated_k.double().tensor_split(2, dim=-1)
    z = torch.complex(a, b) * w
    return torch.cat([z.real, z.imag], dim=-1).to(rotated_k.dtype)


# ---------------------------------------------------------------- evict_keys, wrong
def evict_by_both(rotated_k, kept, dropped):
    """The first key after the gap had position kept + dropped: move the rest to the front."""
    rest = rotated_k[..., kept + dropped:, :]
    moved = _half(rest, -(kept + dropped) * _inv(rest.shape[-1]))
    return np.concatenate([rotated_k[..., :kept, :], moved], axis=-2)


def evict_all_moved(rotated_k, kept, dropped):
    """Delete the keys, then one shift over the whole cache."""
    cache = np.delete(rotated_k, np.s_[kept:kept + dropped], axis=-2)
    n = 16
    moved = _pairs(cache[..., :n], -dropped * _inv(n))
    return np.concatenate([moved, cache[..., n:]], -1)


def evict_without_sinks(rotated_k, kept, dropped):
    """Without sinks the cache is a plain window, whose keys are only cut off."""
    if kept == 0:
        return rotated_k[..., dropped:, :].copy()
    rest = rotated_k[..., kept + dropped:, :]
    return np.concatenate([rotated_k[..., :kept, :], _half(rest, -dropped * _inv(rest.shape[-1], 500000.0))], -2)


# ---------------------------------------------------------------- evict_keys, right
def evict_per_slot(rotated_k, kept, dropped):
    """A new position for every slot; a key turns by (new - old) times its YaRN frequency."""
    inv = _yarn(32, 10000.0, 4.0, 2048)
    old = np.r_[0:kept, kept + dropped:rotated_k.shape[-2]].astype(np.int64)
    turn = np.arange(old.size) - old
    out = rotated_k[..., old, :].copy()
    for i in np.flatnonzero(turn):
        out[..., i, :] = _half(out[..., i, :], turn[i] * inv)
    return out
