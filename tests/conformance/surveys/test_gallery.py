"""The gallery: cards of real functions are what their sources say, and nothing else passes."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref import GivenFrequencies, Learned, RoPE, Sinusoidal, T5Bias, YaRN
from posenc_ref.conformance import cli
from posenc_ref.conformance.adapters.library import HEAVY, LIBRARIES, carded, functions, missing
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.surveys.gallery import document, run
from posenc_ref.conformance.surveys.gallery.judge import RIGHT, compare
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.worker import outcomes_here
from tests.night import by_day

DOCUMENT = Path(__file__).parents[3] / "docs/generated/identity-cards.md"
FAST = [entry for entry in carded() if entry.fast and entry.library not in missing()]
SLOW = [entry for entry in carded() if not entry.fast and entry.library not in missing()]


def cards(page):
    """The cards of the page, by the name of the entry."""
    return dict(re.findall(r"(?m)^### (.*)\n\n```text\n([^`]*)\n```$", page))


def compared(card):
    """A card in one line for each thing said, less what another processor may round otherwise."""
    unwrapped = re.sub(r"\n {13}", " ", card)
    kept = re.sub(r" \(worst \S+ units\)|(?<= of them), .* relative", "", unwrapped)
    return re.sub(r"(?m)^(accuracy .*) \d+ on$", r"\1 ... on", kept).splitlines()


#: The other cards are much alike.
DAY = {
    "transformers Llama",
    "transformers Marian",
    "transformers MPT, slopes",
    "transformers T5 decoder, buckets",
    "diffusers get_timestep_embedding",
    "onnxruntime ONNX RotaryEmbedding-23",
}
BY_DAY = by_day(FAST, [entry for entry in FAST if entry.name in DAY])


@pytest.mark.parametrize("entry", BY_DAY, ids=lambda entry: entry.name)
def test_a_card_is_what_the_source_says_and_the_page_shows(entry):
    (found,) = outcomes_here(run.judge_name, entry.name)
    assert found.right, f"{found.reason}\n{found.card}"
    shown = cards(DOCUMENT.read_text(encoding="utf-8"))[entry.name]
    assert compared(shown) == compared(found.card), (
        "with every library installed, run "
        "posenc gallery --markdown docs/generated/identity-cards.md"
    )


@pytest.mark.nightly
@pytest.mark.parametrize("entry", SLOW, ids=lambda entry: entry.name)
def test_every_other_card_is_what_the_source_says(entry):
    (found,) = outcomes_here(run.judge_name, entry.name)
    assert found.right, f"{found.reason}\n{found.card}"


def test_a_page_that_says_less_is_found():
    """One sentence fewer, or another number that is no rounding."""
    card = cards(DOCUMENT.read_text(encoding="utf-8"))["mlx fast.rope"]
    for part in (r"limit  .*\n", r"used by .*\n", r"(?<=RoPE\(6)4"):
        less = re.sub(part, "", card, count=1)
        assert less != card, part
        assert compared(less) != compared(card), part
    rounded = re.sub(r"worst \S+", "worst 7.77", card)
    assert rounded != card
    assert compared(rounded) == compared(card)


def test_every_library_has_a_fast_entry_and_is_installed():
    light = set(LIBRARIES) - set(HEAVY)
    assert {entry.library for entry in functions() if entry.fast} == light
    if light & set(missing()):
        pytest.skip(f"not installed: {', '.join(sorted(light & set(missing())))}")


def test_every_entry_names_its_source():
    for entry in functions():
        assert re.search(r"\.(py|cc|cpp): \w", entry.source), entry.name
        assert entry.library in LIBRARIES


def card(encoding, surface="apply", **more):
    return Card("fn", surface, "numpy", "float32", encoding=encoding, **more)


SINES = Sinusoidal(64, layout="concat")
HALF = RoPE(64, layout="half")
MEASURED = RoPE(8, layout="half", scaling=GivenFrequencies((1.0, 0.5, 0.3, 0.1)))
OFF = RoPE(8, layout="half", scaling=GivenFrequencies((1.0, 0.5, 0.3, 0.11)))
YARN = RoPE(64, layout="half", scaling=YaRN(4.0, 2048))
LONGER = RoPE(64, layout="half", scaling=YaRN(4.0, 2050))
OTHER = RoPE(64, layout="half", scaling=YaRN(4.0, 4096))
ROWS = np.arange(12.0).reshape(6, 2)
FREE = {"relations": ("original_max_position may be another",)}


@pytest.mark.parametrize(
    ("found", "expected", "right"),
    [
        (card(SINES, "table"), SINES, "equal"),
        (card(SINES, "table"), Sinusoidal(64), ""),
        (card(None, "table"), SINES, ""),
        (card(HALF, aliases=(YARN,)), YARN, "alias"),
        (card(HALF), YARN, ""),
        (card(YARN, **FREE), LONGER, "relation"),
        (card(YARN), LONGER, ""),
        (card(YARN, **FREE), OTHER, ""),
        (card(YARN, **FREE), HALF, ""),
        (card(MEASURED), MEASURED.replace(base=2.0), "measured"),
        (card(MEASURED), OFF, ""),
        (card(Learned(ROWS[2:]), "table", **FREE), Learned(ROWS, offset=2), "relation"),
        (card(Learned(ROWS), "table", **FREE), Learned(ROWS, offset=2), ""),
        (card(T5Bias(np.zeros((32, 1))), "bucket"), T5Bias(np.ones((32, 4))), "equal"),
        (
            card(T5Bias(np.zeros((32, 1))), "bucket"),
            T5Bias(np.ones((32, 4)), bidirectional=False),
            "",
        ),
    ],
)
def test_what_counts_as_right(found, expected, right):
    entry = dataclasses.replace(FAST[0], expected=expected, unknown="", deviations=())
    assert compare(found, entry)[0] == right
    assert bool(compare(found, entry)[1]) == (right == "")


def test_no_encoding_needs_its_reason():
    entry = dataclasses.replace(FAST[0], expected=None, unknown="no rotation")
    assert compare(card(None, unknown=["this is no rotation"]), entry) == ("unknown", "")
    assert compare(card(None, unknown=["something else"]), entry)[0] == ""
    with pytest.raises(ValueError, match="give either `expected` or `unknown`"):
        dataclasses.replace(FAST[0], expected=None, unknown="")


SOURCED = next(entry for entry in FAST if entry.name == "transformers T5 encoder, buckets")


@pytest.mark.parametrize(
    "wrong",
    [
        {"expected": T5Bias(np.zeros((32, 1)), max_distance=64)},
        {"expected": T5Bias(np.zeros((16, 1)), num_buckets=16)},
        {"expected": HALF},
        {"expected": None, "unknown": "the table"},
        {"deviations": ("state",)},
    ],
)
def test_a_wrong_expectation_is_red(wrong, monkeypatch, tmp_path):
    entry = dataclasses.replace(SOURCED, **wrong)
    for listing in ("functions", "carded"):
        monkeypatch.setattr(run, listing, lambda: (entry,))
    file = tmp_path / "cards.json"
    said = CliRunner().invoke(cli.app, ["gallery", "--processes", "0", "--json", str(file)])
    assert said.exit_code == 1, said.output
    assert "WRONG" in said.output
    outcome = json.loads(file.read_text())["entries"][0]["outcome"]
    assert outcome["wrong"]
    assert not outcome["right"]


@pytest.mark.nightly
def test_the_command_writes_what_it_found(tmp_path):
    page, file = tmp_path / "cards.md", tmp_path / "cards.json"
    options = ["--only", "mlx alibi, slopes", "--markdown", str(page), "--json", str(file)]
    said = CliRunner().invoke(cli.app, ["gallery", "--processes", "1", *options])
    assert said.exit_code == 0, said.output
    assert "1 functions identified, 1 agree with the source (1 equal)" in said.output
    assert re.search(r"\| equal \| [\d.]+ \|", page.read_text(encoding="utf-8"))
    assert json.loads(file.read_text())["entries"][0]["outcome"]["right"] == "equal"


def test_a_name_that_is_not_there_is_a_usage_error():
    said = CliRunner().invoke(cli.app, ["gallery", "--only", "no such function"])
    assert said.exit_code == 2
    assert "'no such function'" in said.output


def test_what_is_not_installed_is_named_and_counted(monkeypatch):
    monkeypatch.setattr(run, "missing", lambda: {SOURCED.library: "..."})
    said = CliRunner().invoke(cli.app, ["gallery", "--only", "t5 encoder", "--processes", "0"])
    assert "2 not run, as transformers is not installed: pip install 'transformers" in said.output
    assert said.exit_code == 3, "nothing was identified"


def test_the_document_is_about_these_functions():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    told = [document.cells(entry) for entry in carded()]
    assert [row.split(" | ")[:-2] for row in rows] == [
        f"| {' | '.join(cell)}".split(" | ") for cell in told
    ], "posenc gallery --markdown docs/generated/identity-cards.md"
    outcomes = [row.split(" | ")[-2] for row in rows]
    assert not [outcome for outcome in outcomes if "WRONG" in outcome]
    shown = re.findall(r"(?m)^### (.*)$", text)
    assert shown == [
        entry.name for entry, outcome in zip(carded(), outcomes, strict=True)
        if outcome != "not run"
    ]  # fmt: skip
    assert f"{len(shown)} functions identified, {len(shown)} agree with the source" in text


def test_the_summary_counts_what_is_wrong():
    word = next(iter(RIGHT))
    right, wrong = Outcome(right=word), Outcome()
    good, bad = run.Gallery([right, right]).summary, run.Gallery([right, wrong, wrong]).summary
    assert good == f"2 functions identified, 2 agree with the source (2 {word}) (0 s)"
    assert bad == f"3 functions identified, 1 agree with the source (1 {word}), 2 WRONG (0 s)"
