"""Badges of libraries: files that shields.io draws (https://shields.io/badges/endpoint-badge)."""

from typing import Any

from posenc_ref.conformance.harness.plural import plural

from .rows import Library


def badge(library: Library) -> dict[str, Any]:
    """Return the badge of a library: how many functions of its newest release are ok.

    A function that deviates in one dtype deviates.  The badge is green if every judged function is
    ok, yellow if one deviates, and grey if none was judged.
    """
    counts = library.latest
    ok, wrong = counts.get("conforms", 0), counts.get("deviates", 0)
    said = [f"{ok} ok"] if ok else []
    said += [plural(wrong, "deviates", "deviate")] if wrong else []
    colour = "yellow" if wrong else "brightgreen" if ok else "lightgrey"
    return {
        "schemaVersion": 1,
        "label": f"posenc_ref: {library.name} {library.newest.name}",
        "message": ", ".join(said) or "not judged",
        "color": colour,
    }
