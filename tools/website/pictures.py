"""The pictures of the book, drawn as ``posenc plot`` draws them."""

from functools import cache

from posenc_ref import from_dict
from posenc_ref.conformance.plots.declarations import examples
from posenc_ref.conformance.plots.draw import drawn
from posenc_ref.conformance.plots.encodings import KINDS, pictures
from posenc_ref.conformance.registry import entries
from posenc_ref.conformance.vectors.files import all_cases, shipped

from .facts import page_of


@cache
def shown():
    """Return the example whose picture is shown, by the name of its class.

    Encodings are shown by their first registered example, frequency scalings by that of the first
    golden vector that has one, other declarations by the example of ``posenc plot``.
    """
    found = {entry.name: next(iter(entry.examples.values())) for entry in entries()}
    found |= {cls.__name__: example for cls, example in examples().items()}
    for _, group, _ in all_cases(shipped()):
        declared = group["encoding"] or {}
        scaling = declared.get("scaling")
        if scaling and scaling["scaling"] not in found:
            found[scaling["scaling"]] = from_dict(declared)
    return found


def draw(folder):
    """Write every picture of the book below ``folder``."""
    for name, example in shown().items():
        for picture in pictures(example):
            path = folder / place(name, picture)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(drawn([("", [picture])]))


def place(name, picture):
    """Return the file of a picture."""
    return f"{page_of('book', name)}-{picture.name}.svg"


def of(cls):
    """Return the pictures of an encoding or another declaration."""
    example = shown()[cls.__name__]
    found = pictures(example)
    images = "\n".join(
        f"![{KINDS[one.name].capitalize()}](/{place(cls.__name__, one)})" for one in found
    )
    said = "; ".join(KINDS[one.name] for one in found)
    return f"## Picture\n\n`{example!r}`: {said}.\n\n{images}\n\n"
