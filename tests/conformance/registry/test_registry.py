"""Every encoding has an entry, and does what every encoding has to do."""

import re

import pytest

import posenc_ref
from posenc_ref import Encoding, Rotary
from posenc_ref.conformance.exact.certificate_row import dtypes
from posenc_ref.conformance.registry import REGISTRY, entries, entry_of
from tests.conformance.registry.registered import ASKED, on, rows_of
from tests.tool import tool

ENTRIES = entries()
EXAMPLES = [(entry, name) for entry in ENTRIES for name in entry.examples]


def test_every_public_encoding_has_an_entry():
    """Rotary forms are certified and have their vectors by surface: `certify` and the recipes."""
    public = {getattr(posenc_ref, name) for name in posenc_ref.__all__}
    concrete = {
        cls
        for cls in public
        if isinstance(cls, type)
        and issubclass(cls, Encoding)
        and hasattr(cls, "__dataclass_fields__")
    }
    rotary = {cls for cls in concrete if issubclass(cls, Rotary)}
    assert {cls.__name__ for cls in rotary} == {"RoPE", "MultiAxisRoPE", "MixedRoPE", "XPos"}
    assert concrete - rotary == set(REGISTRY)
    assert len({name for entry in ENTRIES for name in entry.examples}) == len(EXAMPLES)


def test_the_entry_of_a_value():
    assert entry_of(posenc_ref.ALiBi(8)).name == "ALiBi"
    assert entry_of(posenc_ref.RoPE(8, layout="half")) is None


@pytest.mark.parametrize("asked", ASKED, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize(("entry", "name"), EXAMPLES, ids=[f"{e.name}-{n}" for e, n in EXAMPLES])
def test_it(entry, name, asked):
    asked(entry, name, entry.examples[name])


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict", "jax"])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_library_gives_the_same(entry, library):
    pytest.importorskip(library, reason="the library that is asked")
    found = on(library, entry, "float32")
    assert (found.verdict, found.messages, found.reason) == ("conforms", (), "")


# --- the page ------------------------------------------------------------------------------------

TOOL = tool("encodings_page")
PAGE = TOOL.PAGE
SCORES = re.compile(r"^Worst scores: .*$", re.MULTILINE)


@pytest.fixture(scope="module")
def today():
    """The page as it is made now."""
    return TOOL.document([row for entry in ENTRIES for row in rows_of(entry)])


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
    assert len(bounds) == len(ENTRIES) * len(dtypes())
    beyond = [m for m, b in zip(measured, bounds, strict=True) if m > 2 * b]
    assert beyond == [], "run tools/encodings_page.py"


def numbers_of(line):
    """The numbers of a line of scores."""
    return re.findall(r"float\d\d (\S+?)[,.]?(?= |$)", line)
