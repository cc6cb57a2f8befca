"""The sections of the site and the hand-written pages of each."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Section:
    """A section: its folder on the site, its title, what it is for, and its pages in docs/."""

    name: str
    title: str
    purpose: str
    pages: tuple[str, ...] = ()


SECTIONS = (
    Section("start", "Start", "Install, and judge a first function in a minute."),
    Section("tutorials", "Tutorials", "Five tasks from beginning to end, and three notebooks."),
    Section(
        "book",
        "The book of encodings",
        "A page for every encoding, frequency scaling and surface: the formula, the code, a "
        "picture, the settings of models, and the mistakes that are known.",
        (
            "schedules", "tables", "biases-and-scores", "attention", "token-paths", "per-head",
            "cameras", "liere", "multimodal", "mechanisms",
        ),
    ),
    Section(
        "models",
        "Models",
        "A page for every model that is known by name, with the source of every setting.",
        ("models", "weights", "generated/configurations", "generated/mrope-models"),
    ),
    Section(
        "codes",
        "Codes",
        "A page for every mistake that a report names: a short wrong example, its report and the "
        "remedy.",
        ("causes", "locating", "generated/named-mistakes"),
    ),
    Section(
        "conformance",
        "Conformance",
        "What the functions of real libraries compute.",
        (
            "libraries", "generated/libraries", "generated/claims", "conformance-page",
            "generated/identity-cards", "generated/transformers-sweep",
            "generated/transformers-sweep-other", "generated/whole-models",
        ),
    ),
    Section(
        "guides",
        "Guides",
        "How to judge your own code: which functions, in CI, from files, against one another.",
        (
            "install", "signatures", "identify", "compare", "recorded", "ci", "onnx", "scale",
            "reliability",
        ),
    ),
    Section("errata", "Errata of tutorials", "What five well-read texts get wrong.", ("errata",)),
    Section("api", "API", "Every public name of the package."),
    Section(
        "kernels",
        "For kernel authors",
        "Exact vectors in JSON, and programs judged over a pipe: examples in C, Rust, JavaScript.",
        ("vectors", "any-language", "fast-paths", "gpu", "generated/benchmarks"),
    ),
    Section(
        "judged",
        "How it is judged",
        "The unit of every error in one worked example, and the tests of the judge itself.",
        (
            "unit", "judging", "generated/kill-matrix", "generated/mutation-testing",
            "generated/verdicts", "generated/half-precision", "generated/onnx-rotary-tests",
        ),
    ),
    Section(
        "absent", "Not here, because", "Mechanisms that have no class, and why.", ("not-here",)
    ),
)  # fmt: skip

#: Pages that the book replaces: their headings are pages of it.
REPLACED = {"generated/encodings": "book"}


def sections():
    """Return the sections with the pages that none names: generated ones judge, others guide."""
    named = {page for section in SECTIONS for page in section.pages} | set(REPLACED)
    found = [p.relative_to(ROOT / "docs").with_suffix("") for p in (ROOT / "docs").rglob("*.md")]
    left = {"guides": [], "conformance": []}
    for page in sorted(page.as_posix() for page in found):
        if page not in named and not page.startswith("tutorials/"):
            left["conformance" if page.startswith("generated/") else "guides"].append(page)
    return tuple(
        Section(s.name, s.title, s.purpose, (*s.pages, *left.get(s.name, ()))) for s in SECTIONS
    )
