"""The first page of the site, and the index of every section."""

from .sections import sections

#: Sections whose index another module writes, or is a page of the repository.
OWN = {"start", "book", "models", "codes", "api", "tutorials"}
#: What an index begins with.
BEGINS = {
    "conformance": '**<a href="libraries/index.html">The page of libraries</a>**: every function '
    "in every release that was judged, with filters, time lines, claims and badges.\n\n"
}
HOME = """# posenc-ref

The executable specification of Transformer positional encodings, and a suite that judges other
implementations against it: which encoding a function computes, how exact it is, and which mistake
it makes.

{blocks}

```{{toctree}}
:hidden:

{names}
contributing
changelog
security
```
"""


def made():
    """Return the pages: name -> text."""
    shown = sections()
    blocks = "\n".join(
        f"**[{section.title}]({section.name}/index.md)**\n: {section.purpose}\n"
        for section in shown
    )
    names = "\n".join(f"{section.title} <{section.name}/index>" for section in shown)
    found = {"index": HOME.format(blocks=blocks, names=names)}
    for section in shown:
        if section.name not in OWN:
            found[f"{section.name}/index"] = index(section, BEGINS.get(section.name, ""))
    return found


def section_named(name):
    """Return the section with this name."""
    return next(section for section in sections() if section.name == name)


def index(section, text=""):
    """Return the index of a section: its purpose, ``text``, and its hand-written pages."""
    head = f"# {section.title}\n\n{section.purpose}\n\n{text}"
    return head + toctree(f"/{page}" for page in section.pages)


def toctree(names, *, hidden=False, caption=None):
    """Return a list of pages, which is their order in the navigation."""
    options = (":hidden:\n" if hidden else "") + (f":caption: {caption}\n" if caption else "")
    return f"```{{toctree}}\n{options}:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n\n"
