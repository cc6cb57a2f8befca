"""What to do if no calling convention fits: judge the function by its names, or say why not."""

from __future__ import annotations

import inspect

from posenc_ref import Bias, Encoding, Rotary, Table
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.signatures import SURFACES

from .conventions import CONVENTIONS, NAMES, Convention
from .grids import SIZES
from .instances import MethodOf, main_call
from .libraries import libraries_of
from .roles import role_of
from .rotations import VECTORS
from .signatures import is_function, signature_of
from .subject import Request, name_of

#: The most reasons that are printed if a class cannot be made.
_MOST = 4


def fits_family(surface: str, encoding: Encoding | None) -> bool:
    """Return whether an encoding of this family is judged on a surface."""
    if encoding is None:
        return True
    families = SURFACES[surface].families
    if isinstance(encoding, Rotary):
        return "rotary" in families
    if isinstance(encoding, Table):
        return "table" in families
    return not isinstance(encoding, Bias) or not {"rotary", "table"} & set(families)


def nothing_fits(request: Request) -> str:
    """Return what was tried, the nearest convention, and code that would turn into it."""
    target, surface = request.target, request.surface
    reasons = list(dict.fromkeys(request.tried))
    try:
        owner = target if is_function(target) else main_call(target)
        takes_, roles = str(signature_of(owner or target)), set[str | None]()
        roles |= {role_of(n) for n in signature_of(owner or target).parameters}
        made = signature_of(target).parameters if inspect.isclass(target) else ()
        sizes = (roles | {role_of(n) for n in made}) & {*SIZES}
    except (TypeError, ValueError):
        takes_, roles, sizes = "(...)", set(), set()
    bound = {surface for c in CONVENTIONS for surface in c.surfaces}
    if surface is not None and surface not in bound:
        return (
            f"{name_of(target)}{takes_} does not take the arguments of surface {surface!r}: "
            f"{SURFACES[surface].call}; wrap it in a function that does"
        )
    hints = []
    if sizes and request.encoding is None and request.axes == 1:
        hints.append("a function of whole grids needs --axes 2, or --axes 3 with frames")
    elif sizes and request.axes > 1 and is_function(target) and not roles & {*VECTORS}:
        hints.append("a table of a grid is judged with the rotation that takes it, and --table")
    if isinstance(target, type | MethodOf) and any("--init" in reason for reason in reasons):
        missing = [reason for reason in reasons if "--init" in reason]
        more = len(missing) - _MOST
        missing[_MOST:] = [f"and {plural(more, 'refusal', 'refusals')} like these"] * (more > 0)
        return "\n".join(hints + missing)
    rows = [c for c in CONVENTIONS if surface is None or surface in c.surfaces]
    rows = [NAMES[request.signature]] if request.signature is not None else rows
    rows = [c for c in rows if fits_family(c.surfaces[0], request.encoding)] or list(CONVENTIONS)

    def near(convention: Convention) -> tuple[int, int]:
        shared = len(roles & set(convention.roles))
        return shared, (shared - len(convention.roles)) * bool(shared)

    nearest = max(rows, key=near)
    lines = [f"no calling convention fits {name_of(target)}{takes_}"]
    first = [reason for reason in reasons if reason.startswith(f"{nearest.name}: ")]
    reasons = [*first, *(reason for reason in reasons if reason not in first)]
    lines += hints
    lines += [f"  tried: {reason}" for reason in reasons[:3]]
    lines += [f"the nearest convention is {nearest.name!r}: {nearest.call}",
              "write a wrapper such as:", *nearest.stub.splitlines(),
              "or choose a convention with --signature and --tensor-layout; `posenc explain "
              "signatures` lists them"]  # fmt: skip
    return "\n".join(lines)


def as_named(request: Request, head_dim: int | None) -> Implementation | None:
    """Return a function whose parameters are named exactly as a surface's, as that surface.

    Nothing else fits it, because it raises or gives no array in every trial call: it is judged, so
    that the report says so.
    """
    if request.encoding is None or request.table is not None or request.signature is not None:
        return None
    if not inspect.isroutine(request.target) or request.init:
        return None
    try:
        names = tuple(signature_of(request.target).parameters)
    except (TypeError, ValueError):  # no signature, as of functions in C
        return None
    bound = dict.fromkeys(surface for c in CONVENTIONS for surface in c.surfaces)
    for surface in bound if request.surface is None else (request.surface,):
        record = SURFACES[surface]
        if names and names == record.arguments and fits_family(surface, request.encoding):
            return Implementation(
                request.target,
                surface,
                name_of(request.target),
                request.encoding,
                backend=request.backend or libraries_of(request.target)[0].backend,
                tensor_layout=request.tensor_layout or "bhsd",
                head_dim=head_dim,
                axes=request.axes,
            )
    return None
