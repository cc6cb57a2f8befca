"""Parts of Markdown documents that several surveys share."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from posenc_ref._text import code
from posenc_ref._text import markdown as escaped

from .expected import CLAIMS, Expected, explanation
from .record import Outcome, Survey, versions


def claims() -> str:
    """Return what the kinds of deviations are."""
    lines = [f"- **{name}**: {meaning}." for name, meaning in CLAIMS.items()]
    return "\n".join(["A deviation is one of these:\n", *lines])


def document(
    title: str, libraries: Mapping[str, str], command: str, duration: str, parts: Sequence[str]
) -> str:
    """Return a document; its head states the command, the date and the library versions."""
    every = {**libraries, **versions()}
    order = (*libraries, "numpy", "python", "posenc_ref", "specification")
    named = ", ".join(f"{name} {every[name]}" for name in order)
    head = [
        f"# {title}",
        f"{datetime.date.today().isoformat()}, with {named}. Written by `{command}` in "
        f"{duration} of processor time.",
    ]
    return "\n\n".join(filter(None, [*head, *parts])) + "\n"


def deviations(
    found: Survey,
    known: Sequence[Expected],
    folder: Path | None,
    scripts: str,
    most: int | None = None,
) -> Iterator[str]:
    """Yield a section about deviations, grouped by the :class:`Expected` that explains them.

    The folder ``scripts``, inside ``folder``, has a script for each deviation.  A group lists at
    most ``most`` outcomes.
    """
    lines = [line for line in found.outcomes if line.verdict == "deviates"]
    if lines:
        yield "## Deviations"
    for entry in known:
        own = [line for line in lines if explanation(line, known) is entry]
        if own:
            yield f"### {entry.title} ({entry.claim})"
            yield entry.reason
            yield f"*Reach.* {entry.reach}"
            yield f"*Effect.* {entry.effect}"
            yield f"*Evidence.* {entry.evidence}"
            yield f"*Upstream.* {entry.upstream[:1].upper()}{entry.upstream[1:]}."
            yield "*Found in*\n\n" + "\n".join(_named(own, most))
            script = folder / scripts / entry.script if folder else None
            if script is not None and script.is_file():
                code = script.read_text(encoding="utf-8").strip()
                yield f"`{scripts}/{entry.script}` reproduces the deviation without posenc_ref:"
                yield f"```python\n{code}\n```"
    for line in lines:
        if explanation(line, known) is None:
            yield f"### {escaped(line.name)}\n\n**Unexplained.** {escaped(line.found)}."


def _named(lines: Sequence[Outcome], most: int | None) -> Iterator[str]:
    for line in lines[:most]:
        source = f" ({escaped(line.source)})" if line.source else ""
        yield f"- {code(line.name)}{source}: {escaped(line.found)}"
    if most is not None and len(lines) > most:
        yield f"- and {len(lines) - most} more outcomes with this deviation"
