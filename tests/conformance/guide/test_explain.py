"""What `explain` says: plain text, in a useful order, by names in any spelling."""

import json
import re

import pytest

from posenc_ref import from_dict
from posenc_ref.conformance import CODES, SURFACES, explain
from posenc_ref.conformance.calling.conventions import NAMES as CONVENTIONS
from posenc_ref.conformance.guide.names import ALIASES, encodings, scalings
from posenc_ref.conformance.guide.overview import TOPICS
from posenc_ref.conformance.guide.text import docstring, unmarked

CLASSES = {cls.__name__: cls for cls in [*encodings(), *scalings()]}
NAMES = [*CODES, *SURFACES, *CLASSES, *TOPICS, *CONVENTIONS]
MARKUP = re.compile(r"``|:\w+:`|^ *-{3,}$|^ *={3,}|(?<!\w)\*\w[^*`]*\w\*(?!\w)", re.MULTILINE)


@pytest.mark.parametrize(
    "text", ["``a``", ":mod:`a`", "Notes\n-----\nb", "====  ====", "in *RoFormer*, 2021"]
)
def test_markup_is_found(text):
    assert MARKUP.search(text)


def test_nothing_is_printed_with_markup():
    texts = {name: re.sub(r"`[^`\n]*`", "`code`", explain(name)) for name in [None, *NAMES]}
    assert [name for name, text in texts.items() if MARKUP.search(text)] == []


def test_products_and_lists_keep_their_stars():
    text = "``a * b`` and *A Title,\nlong*: x * y * z\n* one"
    assert unmarked(text) == "`a * b` and A Title,\nlong: x * y * z\n* one"


def test_sections_are_indented_below_their_headings():
    text = docstring("First.\n\nParameters\n----------\na : int\n    See :class:`~p.B`.\n")
    assert text == "First.\n\nParameters\n    a : int\n        See `p.B`.\n"


def test_the_overview_begins_with_a_guide_and_the_surfaces():
    text = explain()
    places = [text.index(f"\n{title}") for title in ("Surfaces", "Encodings", "Frequency", "Codes")]
    assert places == sorted(places)
    assert text.index("--surface") < places[0]
    assert places[0] < 800  # on the first screen


@pytest.mark.parametrize("names", [SURFACES, CLASSES, CODES], ids=["surfaces", "classes", "codes"])
def test_the_overview_and_the_lists_have_every_name_once(names):
    lists = [explain(topic) for topic in TOPICS]
    for text in (explain(), "\n".join(lists)):
        entries = re.sub(r"(?m)^    (\S+) {2,}.*$", r"    \1,", text)  # without the sentences
        words = re.findall(r"[\w-]+", "".join(re.findall(r"(?m)^    \S.*$", entries)))
        assert [name for name in names if words.count(name) < 1] == []


def test_every_surface_has_a_result_and_explains_the_letters_of_its_shapes():
    for name in SURFACES:
        assert "  result " in explain(name), name
    shapes = re.search(r"  shapes +(.*)", explain("apply"))[1]
    assert shapes == "A axes of positions, B batch, H heads, S tokens, D channels of a head"
    assert re.search(r"  shapes +(.*)", explain("slopes"))[1] == "H heads"


def test_signatures_are_explained_with_a_stub():
    every = explain("signatures")
    assert [name for name in CONVENTIONS if f"{name}\n  call " not in every] == []
    one = explain("QK_cos_sin")
    assert one in every
    assert "def rotate(q, k, cos, sin):" in one
    assert list(CONVENTIONS)[-1] in explain().rpartition("Signatures")[2]


def test_every_code_belongs_to_one_of_few_groups():
    groups = {code.group for code in CODES.values()}
    assert "" not in groups
    assert len(groups) <= 12


@pytest.mark.parametrize(
    ("written", "name"),
    [("Key-Cache", "key_cache"), ("APPLY", "apply"), ("ROPE", "RoPE"), ("t5-bias", "T5Bias"),
     ("Angle_Precision", "angle-precision"), ("GPT-NeoX", "RoPE"), ("llama3 scaling",
     "Llama3Scaling"), ("Encodings", "encodings")],
)  # fmt: skip
def test_names_may_be_spelled_freely(written, name):
    assert explain(written) == explain(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ropee", "did you mean RoPE"),
        ("aply", "did you mean apply"),
        ("Llama-3.1-8B", "`posenc presets llama-3.1-8b`"),
        ("theta", "mentioned in base"),
        ("qqqq", "`posenc explain` without a name lists everything"),
    ],
)
def test_an_unknown_name_leads_on(name, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        explain(name)


def test_aliases_are_spelled_as_they_are_looked_up():
    assert [alias for alias in ALIASES if explain(alias) not in explain(ALIASES[alias])] == []


@pytest.mark.parametrize("name", CLASSES)
def test_the_json_declares_it(name):
    line = re.search(r"^JSON .*\n +(.*)$", explain(name), re.MULTILINE)[1]
    if "..." in line:
        assert name in line  # arrays are abbreviated
        return
    if name in {cls.__name__ for cls in scalings()}:
        body = {"encoding": "RoPE", "head_dim": 64, "layout": "half"}
        made = from_dict(body | json.loads(f"{{{line}}}")).scaling
    else:
        made = from_dict(json.loads(line.strip("'")))
    assert type(made) is CLASSES[name]
