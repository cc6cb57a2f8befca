"""Read the positional encoding of a GGUF file with the ``gguf`` package of llama.cpp."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc_ref import ModelEncoding
from posenc_ref.limits import HEAD_DIM
from posenc_ref.models.context import Described
from posenc_ref.models.gguf_metadata import described_metadata
from posenc_ref.models.gguf_schedule import FREQS, LONG, SHORT

from .gguf_structure import require_sound


def from_gguf(path: str | os.PathLike[str], *, layout: str | None = None) -> ModelEncoding:
    """Return the positional encoding of the model in a GGUF file.

    It reads the tensors that hold frequencies, and no weights.

    Parameters
    ----------
    path
        The file; for a split model the first one, which has the metadata.
    layout
        The channel layout of an unknown architecture: "half" or "interleaved".

    Raises
    ------
    ValueError
        If there is no such file, it is not a GGUF file, or the architecture is not rotary.
    ImportError
        If the ``gguf`` package is not installed: ``pip install "posenc-ref[gguf]"``.
    """
    return described_gguf(path, layout=layout).model


def described_gguf(
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    override: Mapping[str, Any] | None = None,
) -> Described:
    """Return the encoding that :func:`from_gguf` reads, with the lengths beside it.

    ``override`` replaces entries of the metadata, as llama.cpp's ``--override-kv`` does.
    """
    file = Path(path)
    require_sound(file)
    import gguf

    reader = gguf.GGUFReader(file)
    metadata: dict[str, Any] = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith(("tokenizer.", "GGUF."))  # vocabularies are large
    }
    for key in override or ():
        if "." not in key:
            raise ValueError(
                f"override of a GGUF file must name metadata such as "
                f"{metadata.get('general.architecture')}.rope.freq_base, got {key!r}"
            )
    metadata |= override or {}
    divisors = [t for t in reader.tensors if t.name in (FREQS, LONG, SHORT)]
    for tensor in divisors:
        if tensor.n_elements > HEAD_DIM:
            raise ValueError(
                f"{file}: the tensor {tensor.name!r} must have at most {HEAD_DIM} numbers, got "
                f"{tensor.n_elements}"
            )
    tensors = {t.name: t.data.copy() for t in divisors}
    try:
        return described_metadata(metadata, tensors, layout=layout)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{file}: {error}") from None
