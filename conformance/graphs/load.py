"""Choose the parts of an ONNX model that ``check`` and ``identify`` judge."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

from posenc_ref._documents import require_regular
from posenc_ref.conformance.harness.implementation import Implementation

from .model import Model
from .sites import LOOKED_FOR, Found, find
from .whole import whole

#: The most names in a message.
_MOST = 6


def load_onnx(path: Path | str, node: str | None = None, head_dim: int | None = None) -> Found:
    """Return the parts of an ONNX file that compute a positional encoding.

    Parameters
    ----------
    path : Path or str
        The .onnx file; tensors in external files are read where they are needed.
    node : str, optional
        The name of a node: only its part is returned.
    head_dim : int, optional
        The size of a head, where the model does not state it.

    Returns
    -------
    Found
        The distinct parts.

    Raises
    ------
    ValueError
        There is no such part or node, or the file is no ONNX model.
    ImportError
        onnx or onnxruntime is not installed.
    """
    path = Path(path)
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"an ONNX model needs {error.name}, which is not installed: "
            'pip install "posenc-ref[runtimes]"'
        ) from None
    require_regular(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        model = Model(path)
        found = find(model, head_dim)
        if not found.sites and not found.problems:
            found = Found(whole(model), [], found.near)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} must be an ONNX model, got one with a name that is no text ({error.reason})"
        ) from None
    if node is not None:
        return _chosen(found, node, path)
    if not found.sites:
        raise ValueError(_nothing(path, found))
    return found


def from_onnx(
    path: Path | str, node: str | None = None, head_dim: int | None = None
) -> Implementation:
    """Return the only positional encoding in an ONNX file, for ``check`` and ``identify``.

    Parameters
    ----------
    path : Path or str
        The .onnx file.
    node : str, optional
        The name of the node, for a model with several different encodings.
    head_dim : int, optional
        The size of a head, where the model does not state it.

    Returns
    -------
    Implementation
        The part of the model as a function of NumPy arrays: ``fn(x, positions)`` for a rotation.

    Raises
    ------
    ValueError
        There is no such encoding, there are several, or the file is no ONNX model.
    ImportError
        onnx or onnxruntime is not installed.
    """
    found = load_onnx(path, node, head_dim)
    if len(found.sites) > 1:
        listed = "; ".join(f"{s.name} ({s.operator})" for s in found.sites[:_MOST])
        raise ValueError(f"{path} has {len(found.sites)} different parts, pass node=: {listed}")
    return found.sites[0].implementation(f"{path}:{found.sites[0].name}")


def _chosen(found: Found, node: str, path: Path) -> Found:
    sites = [replace(site, names=[node]) for site in found.sites if node in site.names]
    if sites:
        return Found(sites, [], [])
    named = [problem for problem in found.problems if problem.startswith(f"{node} ")]
    if named:
        raise ValueError(named[0])
    names = [name for site in found.sites for name in site.names]
    near = difflib.get_close_matches(node, names, n=3) or names[:_MOST]
    there = f"; there is {', '.join(near)}" if near else f": {_nothing(path, found)}"
    raise ValueError(f"no rotary part of {path} has the name {node!r}{there}")


def _nothing(path: Path, found: Found) -> str:
    """Return the message that there is nothing to judge, with what is close to it."""
    text = f"{path} has no positional encoding that can be judged; looked for {LOOKED_FOR}, and "
    text += "for whole models from positions to cos and sin, a table or a bias"
    if found.problems:
        return f"{text}. Found, and not judged: {'; '.join(found.problems[:_MOST])}"
    if found.near:
        return f"{text}. Related nodes: {', '.join(found.near[:_MOST])}"
    return f"{text}. It has no node with Cos, Sin or attention"
