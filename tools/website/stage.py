"""Write the sources of the site: the pages in docs/, and those that are made from the package."""

import re
import shutil
from pathlib import PurePosixPath

from . import api, book, codes, home, models, pictures
from .home import toctree
from .sections import REPLACED, ROOT, sections
from .sources import source_page

#: Pages outside docs/, and where they are on the site.
OUTSIDE = {
    "README.md": "start/index",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "SECURITY.md": "security",
}
#: A link, unless code comes first: a block, or a piece with a link inside.
LINK = re.compile(
    r"^```.*?^```$|`[^`\n]+`|(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^()\s]+)\)",
    re.DOTALL | re.MULTILINE,
)


def stage(folder, *, drawn=True):
    """Write every page below ``folder``, which must not exist; ``drawn``: the pictures too."""
    folder.mkdir(parents=True)
    linked = set()
    for path, name in pages().items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if name == "tutorials/index":
            text += "\n" + toctree(tutorials(), hidden=True)
        write(folder, name, moved(text, path, name, linked))
    for path in notebooks():
        (folder / "notebooks").mkdir(exist_ok=True)
        shutil.copyfile(path, folder / "notebooks" / path.name)
    for module in (home, book, models, codes, api):
        for name, text in module.made().items():
            linked |= set(re.findall(r"\(/source/([^)]+)\.md\)", text))
            write(folder, name, text)
    for path in sorted(linked):
        source_page(folder, path, linked)
    if drawn:
        pictures.draw(folder)
    for picture in (ROOT / "docs").rglob("*.svg"):
        place = folder / picture.relative_to(ROOT / "docs")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, place)


def write(folder, name, text):
    """Write the page ``name``; a FileExistsError if there is one."""
    path = folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def tutorials():
    """Return the pages of the tutorials and notebooks, in the order of the index."""
    text = (ROOT / "docs/tutorials/index.md").read_text(encoding="utf-8")
    order = re.findall(r"\]\(([\w/.-]+)\.(?:md|py)\)", text)
    return [f"/tutorials/{one}".replace("/tutorials/../", "/") for one in order]


def notebooks():
    """Return the files of the notebooks."""
    return sorted((ROOT / "docs/notebooks").glob("*.py"))


def pages():
    """Return the committed pages: path in the repository -> name on the site."""
    shown = [page for section in sections() for page in section.pages]
    own = sorted((ROOT / "docs/tutorials").glob("*.md"))
    shown += [path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in own]
    return OUTSIDE | {f"docs/{page}.md": page for page in shown}


def moved(text, path, name, linked):
    """Return a page of the repository with its relative links as they are on the site.

    Parameters
    ----------
    text, path : str
        The page, and its path in the repository.
    name : str
        Its name on the site.
    linked : set of str
        Gets the paths of files that are no pages: the site shows them under ``source/``.
    """
    known = pages()

    def rewrite(found):
        label, target = found[1], found[2]
        if label is None or re.match(r"\w+:", target) or target.startswith("#"):
            return found[0]
        file, _, anchor = target.partition("#")
        repository = (ROOT / path).parent.joinpath(file).resolve().relative_to(ROOT).as_posix()
        page = repository.removeprefix("docs/").removesuffix(".md")
        if repository.endswith((".svg", ".png")):
            place = page
        elif page in REPLACED:
            place = f"{REPLACED[page]}/{anchor or 'index'}.md"
            anchor = ""
        elif repository.startswith("docs/notebooks/") and repository.endswith(".py"):
            place = repository.removeprefix("docs/")
        elif repository in known:
            place = f"{known[repository]}.md"
        else:
            linked.add(repository)
            place = f"source/{repository}.md"
        return f"{label}({relative(place, name)}{'#' if anchor else ''}{anchor})"

    return LINK.sub(rewrite, text)


def relative(place, name):
    """Return the link from the page ``name`` to ``place``, both from the root of the site."""
    here = PurePosixPath(name).parent
    up = 0
    while not PurePosixPath(place).is_relative_to(here):
        here, up = here.parent, up + 1
    rest = PurePosixPath(place).relative_to(here).as_posix()
    return "../" * up + rest
