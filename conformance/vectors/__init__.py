"""Golden vectors: inputs with their exact outputs, for implementations in any language.

``load_vectors()`` reads them; ``docs/vectors.md`` describes the files, which need nothing from
this package.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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
    """The golden vectors, or some of them.

    Nothing is verified (``posenc vectors --verify`` does that).

        >>> for case in load_vectors(surface="apply", encoding="RoPE"):
        ...     score = case.judge(my_rope(case.declared, *case.arguments()))

    Parameters
    ----------
    version : str
        Of the format: "v0".
    folder : path, optional
        A copy of the vectors; by default those that are installed with the package.
    surface : str, optional
        Only those of one surface, such as "apply".
    encoding : str, optional
        Only those of one class, such as "RoPE".
    flags : iterable of str
        Only those that have all of these flags.

    Returns
    -------
    list of VectorCase

    Raises
    ------
    ValueError
        A choice that leaves no vector: a loop over none would pass without a judgement.
    """
    home = shipped(version) if folder is None else Path(folder)
    wanted = set(flags)
    found = []
    for name, group, case in all_cases(home):
        chosen = surface in (None, group["surface"]) and wanted <= set(case["flags"])
        declared = group["encoding"] or {}
        if chosen and encoding in (None, declared.get("encoding")):
            found.append(VectorCase.read(name, group, case))
    if not found:
        asked = {"surface": surface, "encoding": encoding, "flags": sorted(wanted) or None}
        words = ", ".join(f"{key}={value!r}" for key, value in asked.items() if value is not None)
        raise ValueError(f"there is no vector with {words}" if words else f"no vector in {home}")
    return found
