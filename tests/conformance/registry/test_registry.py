"""Every encoding has an entry, and does what every encoding has to do."""

import re

import pytest

import posenc_ref
from posenc_ref import Encoding
from posenc_ref.conformance import load_vectors
from posenc_ref.conformance.exact.bits import digest, write_array
from posenc_ref.conformance.exact.certificate import dtypes
from posenc_ref.conformance.registry import REGISTRY, entries, entry_of
from posenc_ref.conformance.surveys.own import labels
from tests.conformance.registry.entry_checks import CHECKS, CHECKS_OF_ALL, on, rows_of
from tests.tool import tool

ENTRIES = entries()
EXAMPLES = [(entry, name) for entry in ENTRIES for name in entry.examples]


def test_every_public_encoding_has_an_entry():
    public = {getattr(posenc_ref, name) for name in posenc_ref.__all__}
    concrete = {
        cls
        for cls in public
        if isinstance(cls, type)
        and issubclass(cls, Encoding)
        and hasattr(cls, "__dataclass_fields__")
    }
    assert concrete == set(REGISTRY)
    assert len({name for _, name in EXAMPLES}) == len(EXAMPLES)


def test_every_example_has_golden_vectors():
    shipped = {(case.id, digest(case.data["inputs"])) for case in load_vectors()}
    for entry, name in EXAMPLES:
        for recipe in entry.group(name).cases:
            inputs = {key: write_array(value) for key, value in recipe.inputs.items()}
            assert (f"{name}-{recipe.name}", digest(inputs)) in shipped


def test_the_entry_of_a_value():
    assert entry_of(posenc_ref.ALiBi(8)).name == "ALiBi"
    assert entry_of(posenc_ref.RoPE(8, layout="half")).name == "RoPE"
    assert entry_of(None) is None


def checks_of(entry):
    return CHECKS_OF_ALL if entry.encoding.family == "rotary" else CHECKS


@pytest.mark.day
@pytest.mark.parametrize(
    ("entry", "name", "check_entry"),
    [
        pytest.param(
            entry,
            name,
            check_entry,
            id=f"{entry.name}-{name}-{check_entry.__name__}",
            marks=() if name == next(iter(entry.examples)) else pytest.mark.nightly,
        )
        for entry, name in EXAMPLES
        for check_entry in checks_of(entry)
    ],
)
def test_an_example(entry, name, check_entry):
    check_entry(entry, name, entry.examples[name])


def on_libraries():
    """Every entry on every library; JAX compiles each, so one of each family is enough by day."""
    families = set()
    for entry in labels().values():
        for library in ("numpy", "torch", "array_api_strict", "jax"):
            compiled_before = library == "jax" and entry.encoding.family in families
            marks = pytest.mark.nightly if compiled_before else ()
            yield pytest.param(entry, library, id=f"{entry.name}-{library}", marks=marks)
        families.add(entry.encoding.family)


@pytest.mark.day
@pytest.mark.parametrize(("entry", "library"), [*on_libraries()])
def test_every_library_gives_the_same(entry, library):
    pytest.importorskip(library, reason="the library that is check_entry")
    found = on(library, entry, "float32")
    assert (found.verdict, found.messages, found.reason) == ("conforms", (), "")


# --- the page ------------------------------------------------------------------------------------

TOOL = tool("encodings_page")
PAGE = TOOL.PAGE
SCORES = re.compile(r"^Worst scores: .*$", re.MULTILINE)


@pytest.fixture(scope="module")
def today():
    """The page as it is made now."""
    return TOOL.document(ENTRIES, [row for entry in ENTRIES for row in rows_of(entry)])


@pytest.mark.day
def test_the_page_says_what_the_docstrings_say(today):
    shown = PAGE.read_text(encoding="utf-8")
    assert SCORES.sub("", shown) == SCORES.sub("", today), "run tools/encodings_page.py"


def test_the_bounds_of_the_page_hold(today):
    """Within a factor of two: the page has been made on another machine, at more positions."""
    shown = PAGE.read_text(encoding="utf-8")
    measured, bounds = (
        [float(0 if n == "equal" else n) for line in SCORES.findall(text) for n in numbers_of(line)]
        for text in (today, shown)
    )
    shown = [entry for entry in ENTRIES if entry.encoding.family != "rotary"]
    assert len(bounds) == len(shown) * len(dtypes())
    beyond = [m for m, b in zip(measured, bounds, strict=True) if m > 2 * b]
    assert beyond == [], "run tools/encodings_page.py"


def numbers_of(line):
    """The numbers of a line of scores."""
    return re.findall(r"float\d\d (\S+?)[,.]?(?= |$)", line)
