"""Where a conversion is written: beside the output until it has been verified."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .checkpoint import Checkpoint
from .heads import LAYOUT_KEYS, Model

#: Weights in other formats, which would stay in the source layout.
_OTHER_WEIGHTS = (
    ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ckpt",
)  # fmt: skip


class Place:
    """Where the converted files are written, verified, and then moved to their names."""

    def __init__(self, checkpoint: Checkpoint, output: Path, config: Any, force: bool):
        self._files, self._output, self._config = checkpoint.files, output, config
        self._source = checkpoint.path
        self._is_file = output.suffix == ".safetensors"
        if self._is_file and len(checkpoint.files) > 1:
            raise ValueError(
                f"{checkpoint.path} has {len(checkpoint.files)} files: the output must be a "
                f"folder, got {output}"
            )
        if not self._is_file and output.is_file():
            raise ValueError(f"the output must be a folder or a .safetensors file, got {output}")
        names = [file.name for file in checkpoint.files] + [file.name for file in self._others()]
        targets = [output] if self._is_file else [output / name for name in names]
        inputs = [*checkpoint.files, *self._others()]
        inputs += [config] if isinstance(config, Path) else []
        for target in targets:
            if any(target.exists() and target.samefile(file) for file in inputs):
                raise ValueError(f"the output would replace the input {target}: name another one")
            if target.exists() and not force:
                raise ValueError(f"{target} exists: name another output, or pass --force")

    def _others(self) -> list[Path]:
        """Return the files without weights that belong to a source folder."""
        if self._is_file:
            return []
        config = [self._config] if isinstance(self._config, Path) else []
        if self._source.suffix == ".safetensors":
            return config
        beside = [
            file
            for file in sorted(self._files[0].parent.iterdir())
            if file.is_file()
            and file.suffix not in _OTHER_WEIGHTS
            and not file.name.startswith(".")
        ]
        names = {file.name for file in config}
        return config + [file for file in beside if file.name not in names]

    def __enter__(self) -> Mapping[Path, Path]:
        self._folder = self._output.parent / f".{self._output.name}.{os.getpid()}.partial"
        self._folder.mkdir(parents=True)
        try:
            for file in self._others():
                shutil.copyfile(file, self._folder / file.name)
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        return {file: self._folder / file.name for file in self._files}

    def configure(self, model: Model, target: str) -> list[str]:
        """State the new layout in the copied configuration, and return notes for the user."""
        notes, key = [], model.layout_key
        value = None if key is None else LAYOUT_KEYS[key] == (target == "interleaved")
        name = self._config.name if isinstance(self._config, Path) else "config.json"
        copy = self._folder / name
        if key is not None and copy.is_file():
            data = json.loads(copy.read_text(encoding="utf-8"))
            _owner(data, key)[key] = value
            copy.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
            notes.append(f"{name} now says {key}: {json.dumps(value)}")
        elif key is not None:
            notes.append(f"set {key}: {json.dumps(value)} in the configuration of these weights")
        elif model.name and model.layout not in (None, target):
            notes.append(
                f"transformers rotates {model.name} in {model.layout} pairs: these weights are for "
                f"a program that rotates {target} pairs"
            )
        skipped = [] if self._is_file or self._source.suffix == ".safetensors" else sorted(
            file.name
            for file in self._files[0].parent.iterdir()
            if file.suffix in _OTHER_WEIGHTS and file not in self._files
        )  # fmt: skip
        if skipped:
            notes.append(f"not copied, because the old layout is in it: {', '.join(skipped)}")
        return notes

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                self._publish()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _publish(self) -> None:
        if self._is_file:
            os.replace(self._folder / self._files[0].name, self._output)
        elif not self._output.exists():
            os.replace(self._folder, self._output)
        else:
            for file in sorted(self._folder.iterdir()):
                os.replace(file, self._output / file.name)


def _owner(data: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the part of a configuration that has ``key``, or the configuration itself."""
    parts = [value for value in data.values() if isinstance(value, dict) and key in value]
    return data if key in data or not parts else parts[0]
