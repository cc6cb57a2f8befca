"""The function that fills in the identity card of each surface."""

from __future__ import annotations

from collections.abc import Callable

from posenc_ref.conformance.functions.judge import ROWS
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.signatures import SURFACES, load

from .adapted import viewed
from .card import Card
from .plain import positions
from .plain.vision_probes import VISION

Identifier = Callable[[Run, Card], None]

#: The surfaces that need more than their view or the comparison with a plain function.
_OWN = {
    "grid": "identify.images.grid:identify",
    "convolve": "identify.images.convolutions:identify",
    "convolve_grid": "identify.images.convolutions:identify",
    "mrope_position_ids": "identify.plain.rules:identify",
    "layers": "identify.plain.models:layers",
    "softmax_scale": "identify.plain.models:softmax_scale",
    "ids_from_tokens": "identify.plain.models:ids_from_tokens",
}


def identifier(surface: str) -> Identifier:
    """Return the function that fills in the card of a surface."""
    if surface in _OWN:
        return load(_OWN[surface])
    if surface in viewed.EVERY:
        return viewed.identify
    if surface in positions.EVERY:
        return positions.identify
    return load(SURFACES[surface].identify)


#: Surfaces that are judged against a rule, which :func:`check` compares and nothing identifies.
_RULES = {name for name, row in SURFACES.items() if row.families == ("positions",)} - set(_OWN)
#: Plain functions of the declared encoding, which nothing measures.
_OF_ENCODING = {
    name for name, row in SURFACES.items()
    if row.needs_encoding and name in positions.EVERY
    and not row.identify and name not in {*_OWN, *viewed.EVERY}
}  # fmt: skip
#: The surfaces whose functions can be identified: the others of ``check``, and visual positions.
IDENTIFIED = (*(name for name in SURFACES if name not in _RULES | _OF_ENCODING), *VISION)


def measured_as(surface: str) -> str:
    """Return the surface that a function of ``surface`` is seen as."""
    return viewed.EVERY[surface].surface if surface in viewed.EVERY else surface


def has_function(surface: str) -> bool:
    """Return whether the specification has a function for a surface that needs no encoding."""
    return surface in ROWS and not SURFACES[surface].needs_encoding
