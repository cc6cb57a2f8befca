"""The first page of the site, and the index of every section."""

import re

from .sections import ROOT, sections

#: Sections whose index another module writes, or is a page of the repository.
OWN = {"start", "book", "models", "codes", "api", "tutorials"}
#: What the index of a section says besides its purpose.
TEXTS = {
    "conformance": """<a href="libraries/index.html">Libraries, release by release</a>: a matrix
with filters, a time line for each library, and every claim with the script that shows it. The pages
below have the same as text, and the surveys of transformers.

"""
}
HOME = """# posenc-ref

The executable specification of Transformer positional encodings, and a suite that judges other
implementations against it: which encoding a function computes, how exact it is, and which mistake
it makes. Here a function uses base 10000 where the model has 500000:

{example}

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
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example, *_) = re.findall(r"^```console$.*?^```$", readme, re.DOTALL | re.MULTILINE)
    found = {"index": HOME.format(example=example, blocks=blocks, names=names)}
    for section in shown:
        if section.name not in OWN:
            found[f"{section.name}/index"] = index(section, TEXTS.get(section.name, ""))
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
