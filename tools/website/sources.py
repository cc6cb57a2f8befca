"""The files of the repository that pages link to, as pages."""

from .sections import ROOT
from .text import fenced

LANGUAGES = {
    ".py": "python", ".c": "c", ".mjs": "javascript", ".rs": "rust", ".yml": "yaml",
    ".json": "json", ".toml": "toml", ".cu": "cuda",
}  # fmt: skip
#: The most characters of a file that its page shows.
MOST = 100_000


def source_page(folder, path, linked):
    """Write the page of a file or a folder of the repository, and those of a folder's files."""
    here = ROOT / path
    if here.is_dir():
        files = sorted(p for p in here.iterdir() if p.suffix in LANGUAGES)
        lines = [f"- [{file.name}]({here.name}/{file.name}.md)" for file in files]
        for file in files:
            if (name := file.relative_to(ROOT).as_posix()) not in linked:
                source_page(folder, name, linked)
        body = "\n".join(lines)
    else:
        text = here.read_text(encoding="utf-8")
        body = ""
        if len(text) > MOST:
            body = f"It has {len(text)} characters; these are the first {MOST}.\n\n"
        body += fenced(text[:MOST], LANGUAGES.get(here.suffix, "text"))
    page = folder / "source" / f"{path}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f"---\norphan: true\n---\n\n# {here.name}\n\n`{path}` in the repository.\n\n{body}\n",
        encoding="utf-8",
    )
