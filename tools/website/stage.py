"""Write the sources of the site: the pages in docs/, and those that are made from the package."""

import re
import shutil
from pathlib import PurePosixPath

from . import api, book, codes, home, models
from .sections import REPLACED, ROOT, sections
from .sources import source_page

#: Pages outside docs/, and where they are on the site.
OUTSIDE = {
    "README.md": "start/index",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
}
LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^()\s]+)\)")
FENCE = re.compile(r"^(```.*?^```$)", re.DOTALL | re.MULTILINE)


def stage(folder):
    """Write every page below ``folder``, which must not exist."""
    folder.mkdir(parents=True)
    linked = set()
    for path, name in pages().items():
        text = (ROOT / path).read_text(encoding="utf-8")
        write(folder, name, moved(text, path, name, linked))
    for module in (home, book, models, codes, api):
        for name, text in module.made().items():
            linked |= set(re.findall(r"\(/source/([^)]+)\.md\)", text))
            write(folder, name, text)
    for path in sorted(linked):
        source_page(folder, path, linked)
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
        if re.match(r"\w+:", target) or target.startswith("#"):
            return found[0]
        file, _, anchor = target.partition("#")
        repository = (ROOT / path).parent.joinpath(file).resolve().relative_to(ROOT).as_posix()
        page = repository.removeprefix("docs/").removesuffix(".md")
        if repository.endswith((".svg", ".png")):
            place = page
        elif page in REPLACED:
            place = f"{REPLACED[page]}/{anchor or 'index'}.md"
            anchor = ""
        elif repository in known:
            place = f"{known[repository]}.md"
        else:
            linked.add(repository)
            place = f"source/{repository}.md"
        return f"{label}({relative(place, name)}{'#' if anchor else ''}{anchor})"

    parts = FENCE.split(text)
    return "".join(p if p.startswith("```") else LINK.sub(rewrite, p) for p in parts)


def relative(place, name):
    """Return the link from the page ``name`` to ``place``, both from the root of the site."""
    here = PurePosixPath(name).parent
    up = 0
    while not PurePosixPath(place).is_relative_to(here):
        here, up = here.parent, up + 1
    rest = PurePosixPath(place).relative_to(here).as_posix()
    return "../" * up + rest
