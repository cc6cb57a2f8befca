"""Golden vectors: inputs with their exact outputs, for implementations in any language.

``load_vectors()`` reads the JSON files, which ``docs/vectors.md`` describes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from posenc_ref.conformance.harness.nearest import find, key, near

from .case import VectorCase
from .files import VERSION, all_cases, shipped

__all__ = ["VectorCase", "load_vectors"]


def load_vectors(
    version: str = VERSION,
    *,
    folder: Path | str | None = None,
    surface: str | None = None,
    encoding: str | None = None,
    flags: Iterable[str] = (),
) -> list[VectorCase]:
    """Return the golden vectors, or a selection of them.

    It does not verify them; ``posenc vectors --verify`` does.

        >>> for case in load_vectors(surface="apply", encoding="RoPE"):
        ...     score = case.judge(my_rope(case.declared, *case.arguments()))

    Parameters
    ----------
    version : str
        The version of the format: "v0".
    folder : path, optional
        A folder with a copy of the vectors; by default the package's own.
    surface : str, optional
        Return only vectors of this surface, such as "apply"; case does not matter.
    encoding : str, optional
        Return only vectors of this class, such as "RoPE"; case does not matter.
    flags : iterable of str
        Return only vectors that have all of these flags.

    Returns
    -------
    list of VectorCase

    Raises
    ------
    ValueError
        If no vector matches, because a loop over none would pass without judging anything.
    """
    home = shipped(version) if folder is None else Path(folder)
    wanted = set(flags)
    found = []
    surfaces, encodings = set(), set()
    for name, group, case in all_cases(home):
        declared = (group["encoding"] or {}).get("encoding", "")
        surfaces.add(group["surface"])
        encodings.add(declared)
        chosen = _is(surface, group["surface"]) and _is(encoding, declared)
        if chosen and wanted <= set(case["flags"]):
            found.append(VectorCase.read(name, group, case))
    if not found:
        asked = {"surface": surface, "encoding": encoding, "flags": sorted(wanted) or None}
        words = ", ".join(f"{what}={value!r}" for what, value in asked.items() if value is not None)
        alike = [
            name
            for asked_for, known in ((surface, surfaces), (encoding, encodings - {""}))
            if asked_for is not None and not find(asked_for, known)
            for name in near(asked_for, known)
        ]
        hint = f"; did you mean {' or '.join(map(repr, alike))}?" if alike else ""
        raise ValueError(
            f"there is no vector with {words}{hint}" if words else f"no vector in {home}"
        )
    return found


def _is(asked: str | None, name: str) -> bool:
    return asked is None or key(asked) == key(name)
