"""The published claims about other libraries."""

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


def test_the_deviations_that_are_no_claims_are_counted():
    own = set(tool("mrope_models").NOTES.values())
    scripts = sorted(path.name for path in (claims.GENERATED / "mrope-deviations").glob("*.py"))
    assert all(any(f"mrope-deviations/{name})" in note for note in own) for name in scripts)
    text = (claims.ROOT / "docs" / "libraries.md").read_text(encoding="utf-8")
    assert (len(scripts), len(own)) == (9, 9)
    assert "mrope-models.md) has nine deviations more" in text
    head = claims.page(claims.claims(), [])
    assert "[mrope-models.md](mrope-models.md) has 9 deviations more" in head


def test_the_page_of_libraries_links_every_claim_and_has_no_empty_cell():
    text = pages.page(read_ndjson(claims.REPORT), claims.claims())
    for n, claim in enumerate(claims.claims(), 1):
        linked = f"[claim {n}](claims.md#claim-{n})"
        assert (linked in text) == (claim.library in LIBRARIES), claim.entry.title
    assert not [line for line in text.splitlines() if line.endswith("|  |")]
    assert "- FLUX, bfloat16 ids: angles are coarse" in text
