"""The part of Triton that ``triton_rotary.py`` uses, on NumPy, one program after another.

Triton's wheel has hundreds of megabytes; where it is installed, its own interpreter can be used
instead (``TRITON_INTERPRET=1``).  Every access is checked against the storage of the tensor.
"""

import types

import ml_dtypes
import numpy as np
import torch

LAUNCHES = []
_BITS = {torch.bfloat16: (torch.int16, ml_dtypes.bfloat16)}
constexpr = object()


class Block:
    """A tensor inside a program."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.dtype = self.values.dtype

    def to(self, dtype):
        return Block(self.values.astype(dtype))

    def __getitem__(self, index):
        return Block(self.values[index])


def _operator(name):
    def apply(self, other):
        return Block(getattr(self.values, name)(value(other)))

    return apply


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "mod", "floordiv", "and", "lt"):
    setattr(Block, f"__{_name}__", _operator(f"__{_name}__"))


def value(x):
    """Return the values; Python numbers take the dtype of the other operand, as in Triton."""
    return x.values if isinstance(x, Block) else x


class Pointer:
    """Elements of a storage, given by offsets."""

    def __init__(self, tensor, offsets):
        bits, kind = _BITS.get(tensor.dtype, (tensor.dtype, None))
        whole = tensor.view(bits) if kind else tensor
        flat = torch.tensor([], dtype=bits).set_(whole.untyped_storage()).numpy()
        self.memory = flat.view(kind) if kind else flat
        self.tensor, self.offsets = tensor, np.asarray(offsets)
        self.dtype = types.SimpleNamespace(element_ty=self.memory.dtype)

    def __add__(self, other):
        return Pointer(self.tensor, self.offsets + value(other))

    def at(self, mask):
        """Return offsets, 0 where nothing is accessed, and the mask, in one shape."""
        offsets, mask = np.broadcast_arrays(self.offsets, value(mask))
        used = offsets[mask]
        assert used.size == 0 or (used.min() >= 0 and used.max() < self.memory.size)
        return np.where(mask, offsets, 0), mask


def load(pointer, mask, other):
    offsets, mask = pointer.at(mask)
    return Block(np.where(mask, pointer.memory[offsets], np.array(other, pointer.memory.dtype)))


def store(pointer, block, mask):
    offsets, mask = pointer.at(mask)
    used = offsets[mask]
    assert np.unique(used).size == used.size
    pointer.memory[used] = np.broadcast_to(block.values, offsets.shape)[mask]


def cdiv(a, b):
    return -(-a // b)


class Kernel:
    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        def launch(*arguments, **constants):
            LAUNCHES.append(constants)
            given = [_given(a) for a in arguments]
            for language.here in range(grid[0]):
                self.function(*given, **constants)

        return launch


def _given(argument):
    """Return tensors as pointers, and integers in 32 bits if they fit, so that they overflow."""
    if isinstance(argument, torch.Tensor):
        return Pointer(argument, np.int64(argument.storage_offset()))
    if isinstance(argument, int):
        return (np.int32 if -(2**31) <= argument < 2**31 else np.int64)(argument)
    return argument


language = types.ModuleType("triton.language")
language.constexpr, language.int64 = constexpr, np.int64
language.load, language.store, language.cdiv = load, store, cdiv
language.program_id = lambda axis: Block(np.int32(language.here))
language.arange = lambda a, b: Block(np.arange(a, b, dtype=np.int32))
language.reshape = lambda block, shape: Block(block.values.reshape(shape))
language.split = lambda block: (Block(block.values[..., 0]), Block(block.values[..., 1]))
language.join = lambda a, b: Block(np.stack(np.broadcast_arrays(a.values, b.values), axis=-1))
triton = types.ModuleType("triton")
triton.jit, triton.language, triton.cdiv = Kernel, language, cdiv
triton.next_power_of_2 = lambda n: 1 << (n - 1).bit_length()
