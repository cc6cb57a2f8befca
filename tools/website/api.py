"""Every public name, with its docstring."""

import inspect

import posenc_ref
import posenc_ref.backends
import posenc_ref.conformance

from .facts import classes, link_to
from .home import section_named, toctree

MODULES = (posenc_ref, posenc_ref.backends, posenc_ref.conformance)


def made():
    """Return the pages: name -> text."""
    own = section_named("api")
    text = (
        f"# {own.title}\n\n{own.purpose} Encodings and frequency scalings have their reference in "
    )
    text += "[the book](/book/index.md).\n\n"
    text += toctree(f"/api/{module.__name__}" for module in MODULES)
    return {"api/index": text} | {f"api/{m.__name__}": page(m) for m in MODULES}


def page(module):
    """Return the page of a module."""
    known = set(classes())
    names = [name for name in module.__all__ if not name.startswith("__")]
    things = {name: getattr(module, name) for name in names}
    in_book = [name for name, thing in things.items() if inspect.isclass(thing) and thing in known]
    text = f"# {module.__name__}\n\n{(inspect.getdoc(module) or '').splitlines()[0]}\n\n"
    if in_book:
        links = ", ".join(f"{link_to('book', name)}" for name in in_book)
        text += f"## In the book\n\n{links}.\n\n"
    for title, chosen in (
        ("Classes", inspect.isclass),
        ("Functions", inspect.isfunction),
    ):
        rest = [n for n, thing in things.items() if chosen(thing) and n not in in_book]
        if rest:
            text += f"## {title}\n\n```{{eval-rst}}\n"
            directive = "autoclass" if title == "Classes" else "autofunction"
            for name in rest:
                text += f".. {directive}:: {module.__name__}.{name}\n"
                text += "   :members:\n\n" if title == "Classes" else "\n"
            text += "```\n\n"
    data = [n for n, t in things.items() if not inspect.isclass(t) and not inspect.isfunction(t)]
    if data:
        text += "## Values\n\n" + "".join(f"`{name}`\n: {kind(things[name])}\n\n" for name in data)
    return text


def kind(value):
    """Return what a value is."""
    if isinstance(value, dict):
        return f"a mapping with {len(value)} entries"
    return f"`{value!r}`"
