"""Functions that raise, return and change what no function should, as ``apply`` of one rotation."""

import asyncio

import numpy as np

from posenc_ref import RoPE

ROPE = RoPE(8, layout="half")
apply = ROPE.apply


class Unreadable(Exception):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__


class NotText(Exception):
    def __str__(self):
        return 3


class Own(BaseException):
    pass


class BadShape:
    dtype = np.dtype("f4")

    @property
    def shape(self):
        raise SystemExit(0)


class BadDtype(BadShape):
    shape = (1,)

    @property
    def dtype(self):
        raise RuntimeError("no dtype")


class BadArray:
    dtype, shape = np.dtype("f4"), (2, 3, 5, 8)

    def __array__(self, *args, **kwargs):
        raise SystemExit(0)


class LyingArray(BadArray):
    def __array__(self, *args, **kwargs):
        return "no array"


class BadAttributes:
    def __getattribute__(self, name):
        raise SystemExit(3)


class BadIteration(tuple):
    __slots__ = ()

    def __iter__(self):
        raise GeneratorExit


class OtherShape(np.ndarray):
    shape = property(lambda self: (3,))


class OtherArithmetic(np.ndarray):
    def __array_ufunc__(self, *args, **kwargs):
        raise SystemExit(0)


class OneReading:
    """An object whose class can be read once only."""

    def __init__(self):
        self.left = 1

    @property
    def __class__(self):
        self.left -= 1
        if self.left < 0:
            raise asyncio.CancelledError
        return object


def raises(error):
    def function(x, positions):
        raise error

    return function


def returns(value):
    return lambda x, positions: value


def skips(x, positions):
    import pytest

    pytest.skip("no")


def recurses(x, positions):
    return recurses(x, positions)


async def coroutine(x, positions):
    return apply(x, positions)


async def async_generator(x, positions):
    yield apply(x, positions)


def generator(x, positions):
    yield apply(x, positions)


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


def round_and_round():
    found = []
    found.append(found)
    return found


def overwrites(x, positions):
    y = apply(x, positions)
    x[:] = np.nan
    return y


def reshapes(x, positions):
    y = apply(x, positions)
    x.shape = (-1,)
    return y


def retypes(x, positions):
    y = apply(x, positions)
    positions.dtype = np.float64
    return y


class ChangesLater:
    def __init__(self):
        self.kept = []

    def __call__(self, x, positions):
        for y in self.kept:
            y += 1
        self.kept.append(apply(x, positions))
        return self.kept[-1]


class GrowsWorse:
    def __init__(self):
        self.calls = 0

    def __call__(self, x, positions):
        self.calls += 1
        if self.calls > 5:
            raise GeneratorExit
        return apply(x, positions)


ZERO = np.float32(0)
#: The function and the codes of its findings.
RAISES = {
    "SystemExit": SystemExit(0),
    "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError(),
    "StopIteration": StopIteration(),
    "MemoryError": MemoryError(),
    "a group of exits": BaseExceptionGroup("two", [SystemExit(0), GeneratorExit()]),
    "another BaseException": Own(),
    "an exit when the message is read": Unreadable(),
    "a message that is no text": NotText(),
    "lone surrogates": ValueError("\udc80\ud800"),
    "a message of 10 MB": ValueError("x" * 10**7),
    "a message of many lines": ValueError("\n" * 1000 + "CONFORMS"),
}
RESULTS = {
    "None": None,
    "text": "abc",
    "bytes": b"abc",
    "a memoryview": memoryview(b"abc"),
    "an integer": 3,
    "10**400": 10**400,
    "-10**400 in a list": [[-(10**400)]],
    "a complex number": 1j,
    "NaN": float("nan"),
    "a mapping": {},
    "a set": {1},
    "a range": range(3),
    "a class with shape and dtype": np.ndarray,
    "a module with shape and dtype": np,
    "NotImplemented": NotImplemented,
    "an empty list": [],
    "an empty tuple": (),
    "a ragged list": [[1], [1, 2]],
    "a list of 10,000 levels": nested(10_000),
    "a list in itself": round_and_round(),
    "shared lists of 10**12 numbers": [[[[0.0] * 1000] * 1000] * 1000] * 1000,
    "a list of what cannot be read": [BadAttributes()],
    "an object array": np.array([None] * 3),
    "a structured array": np.zeros(3, [("a", "f4")]),
    "an array of dates": np.zeros(3, "datetime64[s]"),
    "an array of text": np.array(["a"]),
    "a broadcast array of 2**40 elements": np.broadcast_to(ZERO, (2**40,)),
    "a broadcast array of 4 axes": np.broadcast_to(ZERO, (2**15, 2**15, 2**10, 8)),
    "a shape that exits": BadShape(),
    "a dtype that raises": BadDtype(),
    "an __array__ that exits": BadArray(),
    "an __array__ that returns text": LyingArray(),
    "attributes that exit": BadAttributes(),
    "a tuple that cannot be iterated": BadIteration((1, 2)),
    "a class that can be read once": OneReading(),
}
#: What a right function does besides, or to its result, and the code of the finding.
WRONG = {
    "coroutine": (coroutine, "shape"),
    "async generator": (async_generator, "shape"),
    "generator": (generator, "shape"),
    "recursion": (recurses, "raises"),
    "pytest.skip": (skips, "raises"),
    "masked": (lambda x, p: np.ma.MaskedArray(apply(x, p), np.zeros(x.shape, bool)), "shape"),
    "matrix": (lambda x, p: apply(x, p)[0, 0].view(np.matrix), "shape"),
    "objects": (lambda x, p: apply(x, p).astype(object), "dtype"),
    "texts": (lambda x, p: apply(x, p).astype(str), "dtype"),
    "complex": (lambda x, p: apply(x, p) + 0j, "dtype"),
    "booleans": (lambda x, p: apply(x, p) > 0, "dtype"),
    "extended": (lambda x, p: apply(x, p).astype(np.longdouble), "dtype"),
    "x overwritten": (overwrites, "mutates-input"),
    "x reshaped": (reshapes, "mutates-input"),
    "positions retyped": (retypes, "mutates-input"),
    "results changed later": (ChangesLater(), "state"),
    "an exit in a late call": (GrowsWorse(), "raises"),
    "x itself": (lambda x, p: x, "frequency-spacing"),
}
TENSORS = {
    "meta": lambda y, torch: y.to("meta"),
    "sparse": lambda y, torch: y.to_sparse(),
    "sparse rows": lambda y, torch: torch.eye(3).to_sparse_csr(),
    "quantised": lambda y, torch: torch.quantize_per_tensor(y, 0.1, 0, torch.qint8),
    "nested": lambda y, torch: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]),
    "complex": lambda y, torch: y + 0j,
    "conjugated": lambda y, torch: (y + 0j).conj(),
    "2**40 elements": lambda y, torch: torch.ones(()).expand(2**40),
    "float8": lambda y, torch: y.to(torch.float8_e4m3fn),
}
#: What is unusual and right: attributes that cannot be read, other types of the same numbers.
RIGHT = {
    "another shape attribute": lambda x, p: apply(x, p).view(OtherShape),
    "another arithmetic": lambda x, p: apply(x, p).view(OtherArithmetic),
    "seterr": lambda x, p: (np.seterr(all="raise"), apply(x, p))[1],
}


class BadName:
    """A right function of which no attribute can be read."""

    def __call__(self, x, positions):
        return apply(x, positions)

    def __getattr__(self, name):
        raise SystemExit(0)


class BadSignature:
    __name__ = "\N{LATIN SMALL LETTER E WITH ACUTE}"

    @property
    def __signature__(self):
        raise GeneratorExit

    def __call__(self, x, positions):
        return apply(x, positions)


RIGHT |= {"unreadable attributes": BadName(), "an unreadable signature": BadSignature()}
