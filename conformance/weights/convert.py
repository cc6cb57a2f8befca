"""Convert the query and key weights of a checkpoint from one layout to the other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .checkpoint import Checkpoint, open_checkpoint
from .heads import Model, read_model, resolve
from .place import Place
from .plan import Plan, make_plan
from .verify import Logits, compare_logits, differing_bytes

#: The configurations that are found beside the weights.
_CONFIGS = ("config.json", "params.json")


#: Called with a name, the number of finished steps and their total number.
Progress = Callable[[str, int, int], object]


class ConversionError(RuntimeError):
    """The written weights failed their verification, and were removed."""


@dataclass(frozen=True)
class Conversion:
    """A verified conversion.

    Parameters
    ----------
    source, output : Path
    layouts : tuple of str
        The layouts before and after.
    moved : tuple of str
        The names of the tensors with moved rows.
    left : mapping of str to str
        The query and key tensors that stay, each with the reason.
    unchanged : int
        The tensors that stay, byte for byte.
    heads : str
        The heads, in words.
    logits : Logits
    notes : tuple of str
        What the user should know about names and configuration.
    """

    source: Path
    output: Path
    layouts: tuple[str, str]
    moved: tuple[str, ...]
    left: Mapping[str, str]
    unchanged: int
    heads: str
    logits: Logits
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the conversion as JSON-ready data."""
        control = self.logits.control
        return {
            "source": str(self.source),
            "output": str(self.output),
            "from": self.layouts[0],
            "to": self.layouts[1],
            "heads": self.heads,
            "moved": list(self.moved),
            "left": dict(self.left),
            "unchanged": self.unchanged,
            "logits": {
                "layers": self.logits.layers,
                "error": self.logits.error,
                "control": control if np.isfinite(control) else None,
                "skipped": self.logits.skipped,
            },
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [
            f"converted  {self.source} -> {self.output}",
            f"layout     {self.layouts[0]} -> {self.layouts[1]}, {self.heads}",
            f"moved      rows of {len(self.moved)} tensors: {_kinds(self.moved)}",
            f"unchanged  {self.unchanged} tensors and all headers: compared byte for byte",
        ]
        logits = self.logits
        if logits.layers:
            lines += [
                f"logits     q.k of {_count(logits.layers, 'layer')} before and after agree within "
                f"{_decade(logits.error)} of |q||k| on random inputs;",
                f"           without the conversion they would differ by {logits.control:.1g} "
                "or more",
            ]
        if logits.skipped:
            lines.append(
                f"           {_count(logits.skipped, 'layer')} not compared: no keys of their own, "
                "or weights that show no difference"
            )
        reasons = list(dict.fromkeys(self.left.values()))
        for reason in reasons:
            count = sum(value == reason for value in self.left.values())
            lines.append(f"left       {_count(count, 'query or key tensor')}: {reason}")
        return "\n".join(lines + [f"note       {note}" for note in self.notes])


def convert_checkpoint(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    from_: str,
    to: str,
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    only: Sequence[str] = (),
    fused: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Write a checkpoint whose queries and keys have another layout, and verify it.

    The rows of the query and key projections, of their biases and of the norms over their heads are
    moved as bytes, so that every dtype works; every other byte is copied.  The result is written
    beside ``output`` and takes its name only after it has been verified.

    Parameters
    ----------
    source : path
        A ``.safetensors`` file, or the folder or index of a sharded checkpoint.
    output : path
        A ``.safetensors`` file for one file; else a folder, which also gets the configuration and
        the other files of a source folder.
    from_, to : {"hf", "meta", "gguf", "half", "interleaved"}
        The layout of the weights now and then; see :func:`posenc_ref.conformance.weights.resolve`.
    config : mapping or path, optional
        ``config.json`` or ``params.json``; by default the one beside the weights.
    only : sequence of str
        The prefixes of the tensor names to convert, for models with several stacks of layers.
    fused : {"sections", "groups"}, optional
        How q, k and v follow each other in a fused projection of an unknown model.
    force : bool
        Whether an existing output may be replaced.  The source is never replaced.
    progress : function, optional
        Called with the name of each file, the number of finished files and their total number.

    Raises
    ------
    ValueError
        An argument is wrong, the configuration does not fit the weights, or a file is in the way.
    ConversionError
        The verification failed; nothing was written.
    """
    checkpoint = open_checkpoint(Path(source))
    if Path(source).suffix == ".gguf":
        raise ValueError(
            f"{source} is a GGUF file, which is only compared: convert the safetensors files, and "
            "run llama.cpp's converter on them"
        )
    given = _config(checkpoint, config)
    model = read_model(given, from_)
    layouts = (resolve("--from", from_, model), resolve("--to", to, model))
    if layouts[0] == layouts[1]:
        of = f" for model_type {model.name!r}" if model.name else ""
        raise ValueError(
            f"--from {from_} and --to {to} are both {layouts[0]}{of}: there is nothing to convert"
        )
    plan = make_plan(
        checkpoint.tensors, model, source=layouts[0], target=layouts[1], only=only, fused=fused
    )
    place = Place(checkpoint, Path(output), given, force)
    with place as written:
        logits = _write(checkpoint, plan, written, layouts, progress or (lambda *_: None))
        notes = place.configure(model, layouts[1])
    moved = tuple(move.tensor.name for move in plan.moves)
    sizes = dict.fromkeys(str(move.heads) for move in plan.moves)
    return Conversion(
        Path(source),
        Path(output),
        layouts,
        moved,
        plan.left,
        len(checkpoint.tensors) - len(moved),
        "; ".join(sizes),
        logits,
        tuple(notes + _notes(plan, model, to)),
    )


def _write(
    checkpoint: Checkpoint,
    plan: Plan,
    written: Mapping[Path, Path],
    layouts: tuple[str, str],
    progress: Progress,
) -> Logits:
    """Copy the files, move the rows, and verify the result."""
    for number, (file, target) in enumerate(written.items()):
        progress(file.name, number, len(written))
        shutil.copyfile(file, target)
        moves = [move for move in plan.moves if move.tensor.file == file]
        with target.open("r+b") as opened:
            for move in moves:
                opened.seek(move.tensor.offset)
                opened.write(move.tensor.rows(len(move.index))[move.index].tobytes())
        wrong = differing_bytes(file, target, moves)
        if wrong:
            raise ConversionError(f"bytes that must stay differ: {'; '.join(wrong)}")
    progress("logits", len(written), len(written))
    logits = compare_logits(checkpoint.tensors.values(), plan.moves, written, *layouts)
    if not logits.excess <= 1:
        raise ConversionError(
            f"q.k of the converted weights differ by {logits.error:.2g} of |q||k|"
        )
    return logits


def _config(
    checkpoint: Checkpoint, config: Mapping[str, Any] | str | os.PathLike[str] | None
) -> Mapping[str, Any] | Path:
    if isinstance(config, Mapping):
        return config
    if config is not None:
        path = Path(config)
        return path / "config.json" if path.is_dir() else path
    for name in _CONFIGS:
        if (checkpoint.folder / name).is_file():
            return checkpoint.folder / name
    raise ValueError(
        f"--config is missing, and there is no {' or '.join(_CONFIGS)} beside {checkpoint.path}: "
        "the numbers of heads are in it"
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _decade(error: float) -> str:
    """Return a power of ten above an error; the last bits differ between machines."""
    return f"{10.0 ** np.ceil(np.log10(max(error, 1e-15))):.0e}"


def _kinds(names: Sequence[str]) -> str:
    """Return the last words of tensor names, each with its number."""
    counts: dict[str, int] = {}
    for name in names:
        last = ".".join(name.split(".")[-2:])
        counts[last] = counts.get(last, 0) + 1
    return ", ".join(f"{name} x{count}" for name, count in counts.items())


def _notes(plan: Plan, model: Model, to: str) -> list[str]:
    """Return what the conversion assumes, and which names do not fit ``to``."""
    notes = []
    if model.name and model.layout is None:
        heads = next(move.heads for move in plan.moves)
        notes.append(
            f"model_type {model.name!r} is not known: {heads} are assumed, all of whose "
            f"{heads.rotary_dim} channels from {heads.rotary_start} on rotate"
        )
    words = {"hf": ("wq", "attn_q"), "meta": ("q_proj", "attn_q"), "gguf": ("q_proj", "wq")}
    found = {move.name.word for move in plan.moves} & set(words.get(to, ()))
    if found:
        notes.append(f"only rows were moved: tensors keep their names ({found.pop()})")
    return notes
