"""The published claims about other libraries."""

import re
from fnmatch import fnmatchcase as fnmatch

from posenc_ref.conformance.adapters.library import LIBRARIES
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from tests.tool import tool

claims, pages = tool("claims"), tool("libraries_page")


def test_every_claim_has_a_script_that_is_there():
    for claim in claims.claims():
        assert (claims.GENERATED / claim.script).is_file(), claim.script


def test_a_claim_that_is_only_rounding_is_one_of_precision():
    only_rounding = {"angle-precision", "table-precision", "dtype"}
    found = {c.entry.title: c.entry.claim for c in claims.claims()
             if only_rounding.issuperset(c.entry.codes)}  # fmt: skip
    assert found
    assert set(found.values()) == {"precision"}


def test_a_table_that_counts_padding_is_a_convention():
    found = {c.entry.title: c.entry.claim for c in claims.claims() if c.entry.codes == ("padding",)}
    assert found
    assert set(found.values()) == {"convention"}


def test_the_page_of_libraries_links_every_claim_and_has_no_empty_cell():
    text = pages.page(read_ndjson(claims.REPORT), claims.claims())
    for n, claim in enumerate(claims.claims(), 1):
        linked = f"[claim {n}](claims.md#claim-{n})"
        assert (linked in text) == (claim.library in LIBRARIES), claim.entry.title
    assert not [line for line in text.splitlines() if line.endswith("|  |")]
    assert "- FLUX, bfloat16 ids: angles are coarse" in text


def test_every_deviation_of_position_ids_is_a_claim_about_the_model():
    """The reach of each claim is what the table of models says, no more and no less."""
    notes = tool("mrope_models").NOTES
    entries = {c.entry.script: c.entry for c in claims.claims() if "mrope-dev" in c.script}
    scripts = {path.name for path in (claims.GENERATED / "mrope-deviations").glob("*.py")}
    assert set(entries) == scripts
    met = set()
    page = (claims.GENERATED / "mrope-models.md").read_text(encoding="utf-8")
    for line in page.splitlines():
        if not re.fullmatch(r"\| \w+ \| `?[^|]*\| [^|]*calls\) \| [^|]*calls\) \|", line):
            continue
        model, _, *cells = line.strip("| ").split(" | ")
        for mode, cell in zip(("forward", "generate"), cells, strict=True):
            found = cell.partition(" (")[0].removesuffix("conforms")
            while found:
                note = max((note for note in notes if found.startswith(note)), key=len)
                found = found.removeprefix(note).removeprefix(", ")
                for script in notes[note]:
                    own = [p for p in entries[script].patterns if fnmatch(f"{model} {mode}", p)]
                    assert own, (model, mode, script)
                    met |= {(script, pattern) for pattern in own}
    for name, meaning in re.findall(r"^- \*\*([^*]+):\*\* (.*)\.$", page, re.MULTILINE):
        assert meaning == tool("mrope_models").meaning(name)  # with the numbers of the claims
    assert met == {(script, p) for script, entry in entries.items() for p in entry.patterns}
