"""Modules with state: calls in turn, decoding, caches."""
import numpy as np
import torch


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _half(x, angle):
    c, s = np.cos(angle), np.sin(angle)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


class LengthCache:
    def __init__(self, d):
        self.inv = _inv(d)
        self.cached = {}

    def angles(self, n, offset):
        key = "freqs:%d" % n
        if key not in self.cached:
            self.cached[key] = np.outer(np.arange(offset, offset + n), self.inv)
        return self.cached[key]


def rotate_calls(requests):
    cache = LengthCache(64)
    return [_half(x, cache.angles(x.shape[-2], int(o))) for x, o in requests]


class Extending:
    def __init__(self, d):
        self.inv = _inv(d)
        self.table = np.zeros((0, d // 2))

    def grow(self, n):
        missing = n - len(self.table)
        if missing > 0:
            new = np.outer(np.arange(missing), self.inv)
            self.table = np.concatenate([self.table, new])

    def __call__(self, x, offset):
        end = int(offset) + x.shape[-2]
        self.grow(end)
        return _half(x, self.table[int(offset):end])


def growing_calls(requests):
    rope = Extending(64)
    return [rope(x, o) for x, o in requests]


class Running:
    def __init__(self):
        self.seen = 0

    def __call__(self, x, offset):
        if offset:
            self.seen = int(offset)
        start = self.seen
        self.seen += x.shape[-2]
        return _half(x, np.outer(np.arange(start, self.seen), _inv(x.shape[-1])))


def running_calls(requests):
    step = Running()
    return [step(x, o) for x, o in requests]


class Decoder:
    def __init__(self, d):
        self.inv, self.step = _inv(d), 0

    def __call__(self, x):
        p = self.step + np.arange(x.shape[-2])
        self.step += 1
        return _half(x, np.outer(p, self.inv))


def decode_steps(x, chunks):
    dec, out, i = Decoder(x.shape[-1]), [], 0
    for n in chunks:
        out.append(dec(x[..., i:i + n, :]))
        i += n
    return np.concatenate(out, -2)


class TorchDecoder(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("inv", torch.from_numpy(_inv(d)))
        self.past = 0

    def forward(self, x):
        n = x.shape[-2]
        if self.past == 0:
            p = torch.arange(n, dtype=torch.float64)
        else:
            p = torch.full((n,), float(self.past), dtype=torch.float64)
        self.past += n
        a = torch.outer(p, self.inv)
        u, v = x.double().chunk(2, -1)
        return torch.cat((u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()), -1).to(x.dtype)


def generate(x, chunks):
    m = TorchDecoder(x.shape[-1])
    return torch.cat([m(c) for c in x.split(list(chunks), -2)], -2)


def paged_prefill(x, chunks):
    PAGE = 16
    d, out, filled = x.shape[-1], [], 0
    for n in chunks:
        first_page = filled // PAGE
        p = first_page * PAGE + np.arange(n)
        out.append(_half(x[..., filled:filled + n, :], np.outer(p, _inv(d))))
        filled += n
    return np.concatenate(out, -2)


def sliding_decode(x, chunks):
    WINDOW = 512
    d, out, seen = x.shape[-1], [], 0
    for n in chunks:
        p = (seen + np.arange(n)) % WINDOW
        out.append(_half(x[..., seen:seen + n, :], np.outer(p, _inv(d))))
        seen += n
    return np.concatenate(out, -2)


def rerotated_keys(k, chunks):
    cache, start = None, 0
    inv = _inv(k.shape[-1])
    for n in chunks:
        new = k[..., start:start + n, :]
        cache = new if cache is None else np.concatenate([cache, new], -2)
        start += n
        cache = _half(cache, np.outer(np.arange(start), inv))
    return cache


def cached_dtype(x, chunks):
    d = x.shape[-1]
    inv = torch.from_numpy(_inv(d))
    pos = torch.zeros((), dtype=torch.float16)
    outs = []
    for piece in x.split(list(chunks), -2):
        p = pos + torch.arange(piece.shape[-2], dtype=torch.float16)
        pos = p[-1] + 1 if len(p) else pos
        a = p.double()[:, None] * inv
        z = torch.view_as_complex(piece.double().unflatten(-1, (-1, 2)).contiguous())
        outs.append(torch.view_as_real(z * torch.polar(torch.ones_like(a), a)).flatten(-2).to(x.dtype))
    return torch.cat(outs, -2)
