"""Read the tensors of a recording: a .npz or .safetensors file, or a folder of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref._documents import read_bytes, require_regular
from posenc_ref._text import shown
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.limits import TENSORS

from .numpy_files import read_npy, read_npz

#: NumPy's name of each dtype of safetensors that a recording may use, bfloat16 excepted.
_SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "BOOL": "bool",
}  # fmt: skip
_ALLOWED = "a .npz file, a .safetensors file, or a folder of such files or of .npy files"


@dataclass(frozen=True)
class Tensor:
    """A recorded tensor: its values, and the dtype in which it was stored.

    ``values`` are float64 or integers; ``dtype`` is a name such as ``bfloat16``, which the array
    of the values may not have.
    """

    values: np.ndarray
    dtype: str

    @property
    def floating(self) -> bool:
        """Return whether the tensor was stored in a floating dtype."""
        return self.dtype in ROUNDOFF

    @classmethod
    def of(cls, name: str, array: Any) -> Tensor:
        """Return an array of any library as a tensor.

        Raises
        ------
        TypeError
            The dtype is not an integer or one of the floating dtypes that can be judged.
        """
        if not isinstance(array, np.ndarray) and hasattr(array, "detach"):
            array = array.detach().cpu()
            if str(array.dtype) == "torch.bfloat16":
                return cls(array.double().numpy(), "bfloat16")
        values = np.asarray(array)
        kind = str(values.dtype)
        if kind in ("|V2", "V2"):  # what np.save writes for bfloat16
            return cls(_bfloat16(values.view(np.uint16)), "bfloat16")
        if kind not in ROUNDOFF and values.dtype.kind not in "iu":
            raise TypeError(
                f"{name} must be an array of integers or of {', '.join(ROUNDOFF)}, got {kind}"
            )
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return cls(values.astype(np.float64) if kind in ROUNDOFF else values, kind)


def read(path: Path) -> dict[str, np.ndarray]:
    """Return every array of a recording by name; bfloat16 arrays have the dtype ``V2``.

    The name of an array in a folder is its path in the folder, without ``.npy``. In a folder
    without .npy files, the arrays of .npz and .safetensors files are read, with the path of their
    file in front. Pickled objects are refused.

    Raises
    ------
    ValueError
        The file is missing, damaged or of another kind; the message names the file and the array.
    ImportError
        The file is a .safetensors file and the package safetensors is not installed.
    """
    if path.is_dir():
        return _folder(path)
    require_regular(path)
    if not path.is_file():
        raise ValueError(f"there is no file or folder {path}; allowed is {_ALLOWED}")
    if path.suffix == ".npz":
        return dict(read_npz(path))
    if path.suffix == ".safetensors":
        return dict(_safetensors(path))
    raise ValueError(
        f"{path} must be {_ALLOWED}, got {path.suffix or 'no suffix'!r}; to convert tensors of "
        "PyTorch: safetensors.torch.save_file({'q_before': q, ...}, 'recorded.safetensors')"
    )


def _folder(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the files in a folder; their names begin with the path of the file."""
    named = {f.relative_to(path).with_suffix("").as_posix(): f for f in sorted(path.rglob("*"))}
    found = {name: read_npy(file) for name, file in named.items() if file.suffix == ".npy"}
    if found:
        return found
    for name, file in named.items():
        if file.suffix in (".npz", ".safetensors"):
            found |= {f"{name}/{inner}": array for inner, array in read(file).items()}
    if not found:
        raise ValueError(
            f"{path} must hold .npy, .npz or .safetensors files, but it has none; allowed is "
            f"{_ALLOWED}"
        )
    return found


def _safetensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(
            f"{path} needs the package safetensors: pip install 'posenc-ref[weights]'"
        ) from error
    try:
        found = safetensors.deserialize(read_bytes(path, TENSORS))  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} cannot be read as a .safetensors file: {error}") from error
    for name, stored in found:
        kind = stored["dtype"]
        if kind != "BF16" and kind not in _SAFETENSORS:
            allowed = ", ".join([*_SAFETENSORS, "BF16"])
            raise ValueError(f"{path}: {shown(name)} must have a dtype among {allowed}, got {kind}")
        dtype = np.dtype("V2" if kind == "BF16" else _SAFETENSORS[kind])
        yield name, np.frombuffer(stored["data"], dtype).reshape(stored["shape"])


def _bfloat16(bits: np.ndarray) -> np.ndarray:
    """Return the bfloat16 numbers with these bits, the upper half of a float32, as float64."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
