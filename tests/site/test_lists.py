"""Every public encoding, scaling, surface, code and model has its page, and no other is there."""

import inspect
import json
import re

import pytest

import posenc_ref
from posenc_ref import ModelEncoding, presets
from posenc_ref.conformance import CODES, SURFACES
from posenc_ref.encoding import Value
from tests.mutants import CORRECT, WRONG
from tools.website.corpus import EXAMPLES, OWN, source
from tools.website.sections import sections
from tools.website.stage import moved, relative

RECORDED = json.loads(EXAMPLES.read_text(encoding="utf-8"))["codes"]
PUBLIC = [getattr(posenc_ref, name) for name in posenc_ref.__all__]
#: Every public class whose objects are declarations, apart from whole models.
CLASSES = {
    c.__name__.lower()
    for c in PUBLIC
    if inspect.isclass(c)
    and issubclass(c, Value)
    and "__dataclass_fields__" in vars(c)
    and c is not ModelEncoding
}
PAGES = {"book": CLASSES, "surfaces": SURFACES, "codes": CODES, "models": presets()}


@pytest.mark.parametrize("folder", PAGES)
def test_the_site_has_these_pages_and_no_others(staged, folder):
    made = {path.name.removesuffix(".md") for path in (staged / folder).glob("*.md")} - {"index"}
    assert made == {name.lower() for name in PAGES[folder]}


def test_a_page_of_the_book_has_its_parts(staged):
    for name in CLASSES:
        page = (staged / f"book/{name}.md").read_text(encoding="utf-8")
        for part in ("Formula", "Picture", "Source", "Code", "Declaration", "Reference"):
            assert f"## {part}" in page, (name, part)
        assert not re.search("::$", page.partition("## Code")[0], re.MULTILINE), name
        assert "{formula}`" in page or name in ("sinusoidal3d", "hybrid", "learned"), name


def test_only_a_model_without_positions_is_said_to_have_none(staged):
    """A model whose settings are not public is another thing."""
    for name in presets():
        page = (staged / f"models/{name}.md").read_text(encoding="utf-8")
        try:
            encodings = posenc_ref.preset(name).encodings.values()
        except ValueError:  # facts must be given
            encodings = [...]
        nothing = all(one is None for one in encodings)
        assert ("no positional encoding" in page) == nothing, name


def test_a_page_of_a_code_has_an_example_and_its_report(staged):
    for name, code in CODES.items():
        page = (staged / f"codes/{name}.md").read_text(encoding="utf-8")
        assert code.meaning in page
        assert code.remedy in page
        assert re.search(rf"## Its report\n\n```text\n.*?^\w+: {name}: ", page, re.DOTALL | re.M), (
            name
        )


def test_every_code_has_a_recorded_example():
    assert set(RECORDED) == set(CODES)
    cases = {case.name: case for case in [*WRONG, *CORRECT, *OWN]}
    for code, recorded in RECORDED.items():
        first = re.search(r"^(?:error|note): ([\w-]+): ", recorded["report"], re.MULTILINE)
        assert first[1] == code
        assert cases[recorded["case"]].expected[:1] in ((code,), ()), code


@pytest.mark.nightly
def test_the_recorded_reports_are_those_of_today():
    from tools.code_examples import judge

    cases = {case.name: case for case in [*WRONG, *CORRECT, *OWN]}
    for code, recorded in RECORDED.items():
        report = judge(cases[recorded["case"]])
        was = re.findall(r"^(?:error|note): .*", recorded["report"], re.MULTILINE)
        now = re.findall(r"^(?:error|note): .*", str(report), re.MULTILINE)
        assert now == was, f"python tools/code_examples.py {code}"


def test_an_example_has_what_it_calls():
    case = next(case for case in WRONG if case.name == "half-split-and-default-base")
    defined = re.findall(r"^def (\w+)", source(case), re.MULTILINE)
    assert defined[-1] == "half_split_and_default_base"
    assert {"turn_half", "phase", "over_heads", "inv_freq"} == set(defined[:-1])


def test_every_page_of_the_documentation_is_in_a_section():
    shown = [page for section in sections() for page in section.pages]
    assert len(shown) == len(set(shown))
    folder = EXAMPLES.parents[1]
    assert {f"{page}.md" for page in shown} == {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.md")
        if path.name != "encodings.md" and "tutorials" not in path.parts
    }


@pytest.mark.parametrize(
    ("link", "page", "name", "expected", "source"),
    [
        ("judging.md#the-unit", "docs/compare.md", "compare", "judging.md#the-unit", None),
        ("docs/judging.md", "README.md", "start/index", "../judging.md", None),
        ("generated/encodings.md#fope", "docs/per-head.md", "per-head", "book/fope.md", None),
        ("../posenc_ref/rope.py", "docs/a.md", "a", "source/posenc_ref/rope.py.md", "rope.py"),
        ("../../README.md", "docs/generated/a.md", "generated/a", "../start/index.md", None),
        ("https://a.b/c.md", "README.md", "start/index", "https://a.b/c.md", None),
    ],
)
def test_a_link_leads_to_the_page_on_the_site(link, page, name, expected, source):
    linked = set()
    text = moved(f"see [a `b`]({link}), `[x](y.md)`\n\n```md\n[z](w.md)\n```\n", page, name, linked)
    assert f"[a `b`]({expected})" in text
    assert "[z](w.md)" in text
    assert [path.rpartition("/")[2] for path in linked] == ([source] if source else [])


def test_a_link_goes_up_and_down():
    assert relative("a/b/c.md", "a/d") == "b/c.md"
    assert relative("a/b.md", "c/d/e") == "../../a/b.md"


def test_the_list_of_models_has_each_once_under_its_family(staged):
    text = (staged / "models/index.md").read_text(encoding="utf-8")
    families = dict(re.findall(r"^## (.*)\n\n((?:\|.*\n)+)", text, re.MULTILINE))
    listed = {
        title: re.findall(r"^\| \[([^\]]+)\]\(/models/", rows, re.MULTILINE)
        for title, rows in families.items()
    }
    assert sorted(name for names in listed.values() for name in names) == sorted(presets())
    assert all(len(names) >= 3 for names in listed.values())
    assert {"llama-4-scout", "llama-7b"} < set(listed["llama"])
    for title, names in listed.items():
        for name in names:
            page = (staged / f"models/{name}.md").read_text(encoding="utf-8")
            assert f"(/models/index.md#{title.replace(' ', '-')})" in page, name
            others = page.partition("## Other models of the name")[2]
            assert title == "other models" or others.count("](/models/") == len(names) - 1, name
