"""Open checkpoints: safetensors files, folders of shards, and GGUF files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from posenc_ref._documents import inside, open_regular, parse_json, read_json, require_regular
from posenc_ref._text import shown
from posenc_ref.conformance.adapters.gguf_structure import require_sound
from posenc_ref.limits import LINE

from .tensor import Tensor


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a model in one file or several.

    Parameters
    ----------
    path : Path
        The file or the folder.
    files : tuple of Path
        The files that hold tensors.
    tensors : mapping of str to Tensor
    """

    path: Path
    files: tuple[Path, ...]
    tensors: Mapping[str, Tensor]

    @property
    def folder(self) -> Path:
        """The folder that holds the files."""
        return self.files[0].parent


def open_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint at ``path``; only the headers of its files are read.

    Parameters
    ----------
    path : Path
        A ``.safetensors`` file, the index of a sharded checkpoint
        (``model.safetensors.index.json``), a folder with either, or a ``.gguf`` file.

    Raises
    ------
    ValueError
        There is no such file, it is damaged or has another format, or a shard is missing.
    ImportError
        The package that reads the format is not installed.
    """
    if path.suffix == ".gguf":
        tensors = _gguf(path)
        return Checkpoint(path, (path,), tensors)
    files, index = _files(path)
    found: dict[str, Tensor] = {}
    for file in files:
        for tensor in _safetensors(file):
            if tensor.name in found:
                raise ValueError(
                    f"{path} has {tensor.name!r} in {found[tensor.name].file.name} and in "
                    f"{file.name}: give one file, or the index of a sharded checkpoint"
                )
            found[tensor.name] = tensor
    for name, shard in index.items():
        if name not in found or found[name].file.name != shard:
            raise ValueError(f"{path}: the index places {name!r} in {shard}, which lacks it")
    return Checkpoint(path, tuple(files), found)


def _files(path: Path) -> tuple[list[Path], Mapping[str, str]]:
    """Return the safetensors files of a checkpoint, and the shard of every tensor in the index."""
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    if path.is_dir():
        indexes = sorted(path.glob("*.safetensors.index.json"))
        files = sorted(path.glob("*.safetensors"))
        if len(indexes) > 1:
            raise ValueError(
                f"{path} has {len(indexes)} indexes: give one of "
                + ", ".join(index.name for index in indexes)
            )
        if not indexes and not files:
            raise ValueError(f"{path} holds no .safetensors file")
        if not indexes:
            return files, {}
        path = indexes[0]
    if path.name.endswith(".index.json"):
        index = read_json(path, LINE)
        shards = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(shards, dict) or not all(isinstance(s, str) for s in shards.values()):
            raise ValueError(
                f"{path} is no index of a sharded checkpoint: weight_map must name the file of "
                f"each tensor, got {shown(shards)}"
            )
        files = [inside(path.parent, name, str(path)) for name in sorted(set(shards.values()))]
        for file in files:
            if not file.is_file():
                raise ValueError(f"the index {path} names {file.name}, which is missing")
        return files, shards
    if path.suffix != ".safetensors":
        raise ValueError(
            f"{path} must be a .safetensors file, a folder of them, or a .gguf file (to compare); "
            "convert .bin and .pth files to safetensors first"
        )
    return [path], {}


def _safetensors(file: Path) -> list[Tensor]:
    """Return the tensors of a file that the safetensors library accepts.

    The library validates the header and the sizes; it does not say where in the file a tensor
    begins, so the offsets are read here.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ImportError(
            'the safetensors package reads checkpoints; pip install "posenc-ref[weights]"'
        ) from error
    require_regular(file)
    try:
        with safe_open(file, framework="np"):
            pass
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{file} is no safetensors file: {error}") from error
    with open_regular(file) as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = parse_json(opened.read(length), str(file))
    found = []
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            shape = tuple(entry["shape"])
            found.append(
                Tensor(name, entry["dtype"], shape, file, 8 + length + first, last - first)
            )
    return found


def _gguf(file: Path) -> dict[str, Tensor]:
    require_sound(file)
    import gguf

    reader = gguf.GGUFReader(file)
    return {
        t.name: Tensor(
            t.name,
            t.tensor_type.name,
            tuple(int(n) for n in reversed(t.shape)),
            file,
            int(t.data_offset),
            int(t.n_bytes),
        )
        for t in reader.tensors
    }
