"""The sweep over encodings that are no rotation: census, drivers, outcomes, document, command."""

import ast
import re
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref import Learned
from posenc_ref.conformance import cli
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.surveys.expected import expected, stale
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.transformers.case import FAMILIES
from posenc_ref.conformance.surveys.transformers.census import models_folder
from posenc_ref.conformance.surveys.transformers.sweep import Sweep
from posenc_ref.conformance.surveys.transformers_other import (
    document as sweep_other_document,
)
from posenc_ref.conformance.surveys.transformers_other import (
    sweep as sweep_other,
)
from posenc_ref.conformance.surveys.transformers_other.census import (
    CLASSES,
    KINDS,
    classes,
    places,
    read,
)
from posenc_ref.conformance.surveys.transformers_other.sweep import (
    EXPECTED,
    PlaceCase,
    judge_place,
    outcomes,
)
from posenc_ref.conformance.surveys.worker import outcomes_here

pytest.importorskip("torch", reason="PyTorch runs the modules that are judged")
transformers = pytest.importorskip("transformers", reason="transformers is what is judged")

DOCS = Path(__file__).parents[3] / "docs/generated"
SCRIPTS = sorted((DOCS / sweep_other_document.SCRIPTS).glob("*.py"))
PAGE = DOCS / "transformers-sweep-other.md"
GOOD = "conforms"
BLANK = Outcome(
    "learned", "m", case="m.C.a", target="m.C.a", module="C", dtype="float32", source="m.py:1"
)


def judged(*names):
    """The lines of places, judged in this process."""
    return [
        line for place in places(names) for line in outcomes_here(judge_place, PlaceCase(place))
    ]


@pytest.mark.nightly
def test_every_folder_of_the_library_is_something():
    found = classes()
    folders = {p.name for p in models_folder().iterdir() if (p / "__init__.py").is_file()}
    assert set(found) == folders
    assert set(found.values()) <= set(CLASSES)
    assert {place.model for place in places()} == {m for m in found if found[m] == "non-rotary"}
    for model, kind in {
        "bert": "non-rotary", "llama": "rotary only", "mamba": "none", "llava": "parts",
        "byt5": "no model code", "t5": "non-rotary", "ctrl": "non-rotary", "dinat": "non-rotary",
    }.items():  # fmt: skip
        assert found[model] == kind, model


@pytest.mark.nightly
def test_every_kind_belongs_to_a_family():
    assert sorted(kind for family in FAMILIES.values() for kind in family) == sorted(KINDS)
    assert {place.kind for place in places()} <= set(KINDS)


def test_places_are_read_from_a_source():
    source = """
class Table(nn.Embedding):
    def forward(self, ids): return super().forward(ids + 2)
class A(nn.Module):
    def __init__(self, config):
        self.embed_positions = Table(config.n, config.d)
        self.query_position_embeddings = nn.Embedding(3, 4)
        self.position_ids = nn.Buffer(torch.arange(3))
        self.post_layernorm = nn.LayerNorm(3)
class BSinePositionEmbedding(nn.Module):
    def forward(self, x): return torch.cat([x.sin(), x.cos()])
class CRotaryEmbedding(nn.Module):
    def forward(self, position_ids): return position_ids.sin(), position_ids.cos()
def build_alibi_tensor(mask): return mask
"""
    found = [(p.owner, p.attribute, p.kind) for p in read("m", source)]
    assert found == [
        ("A", "embed_positions", "learned"),
        ("BSinePositionEmbedding", "", "image sines"),
        ("build_alibi_tensor", "", "alibi"),
    ]


@pytest.mark.nightly
def test_a_handful_of_real_models_conform():
    found = judged(
        "bert.BertEmbeddings*", "opt.OPTDecoder*", "roberta.Rob*", "vit.ViTE*", "mbart.*Encoder*"
    )
    assert {(line.group, line.part) for line in found} == {
        ("bert", "table"), ("bert", "decode_positions"), ("opt", "position_ids"),
        ("opt", "decode_positions"), ("roberta", "ids_from_tokens"),
        ("roberta", "decode_positions"), ("vit", "table"), ("vit", "grid"), ("mbart", "table"),
        ("mbart", "table, padded"),
    }  # fmt: skip
    assert [line.verdict for line in found] == ["conforms"] * len(found)
    (grid,) = [line for line in found if line.part == "grid"]
    assert 0 < grid.worst <= grid.budget
    assert not grid.limits  # every size was judged
    assert all(line.executed and line.source and line.kind == "learned" for line in found)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("marian.Mar*", ["table"]),
        ("m2m_100.*", ["ids_from_tokens", "table"]),
        ("sam.SamPositionalEmbedding", ["table"]),
        ("deformable_detr.*SinePositionEmbedding", ["grid", "grid, in a larger image"]),
        ("rt_detr.*", ["grid"]),
        ("lw_detr.encode*", ["table, boxes", "table, points"]),
        ("t5", ["bias", "bucket"]),
        ("layoutlm.*x_pos*", ["table"]),
        ("swin.*Bias*", ["bias"]),
        ("sam.*rel_pos_h", ["scores"]),
        ("deberta.Disentangled*", ["scores"]),
        ("sew_d.Disentangled*", ["scores"]),
        ("voxtral_realtime.*TimeEmbedding", ["table"]),
        ("wav2vec2_bert.*distance*", ["scores"]),
        ("parakeet.*relative_k*", ["scores"]),
    ],
)
def test_one_of_every_kind_conforms(name, parts):
    found = judged(name)
    assert sorted(line.part for line in found) == parts
    assert [(line.name, line.reason, line.messages) for line in found if line.verdict != GOOD] == []
    assert all(line.executed for line in found)


@pytest.mark.nightly
def test_a_grid_that_is_resized_in_another_way_deviates():
    (place,) = places(["vit.ViTEmbeddings.*"])
    _, (implementation, encoding) = sweep_other.subjects(place)
    assert encoding.mode == "bicubic"
    for wrong in ({"mode": "bilinear"}, {"antialias": True}, {"align_corners": True}):
        other = encoding.replace(**wrong)
        (line,) = outcomes(BLANK, lambda other=other: [(implementation, other)])
        assert (line.verdict, line.worst > line.budget) == ("deviates", True)


@pytest.mark.nightly
def test_the_rows_that_a_mask_gives_are_told_from_those_that_it_does_not():
    """OPT's positions follow the mask: declared as counted from the start, they deviate."""
    (place,) = places(["opt"])
    implementation, _ = next(iter(sweep_other.subjects(place)))
    (line,) = outcomes(BLANK, lambda: [(implementation, None)])
    assert line.verdict == "conforms"
    counted = subject(lambda mask: np.broadcast_to(np.arange(mask.shape[1]), mask.shape))
    wrong = replace(counted[0], surface="position_ids")
    (line,) = outcomes(BLANK, lambda: [(wrong, None)])
    assert (line.verdict, line.codes) == ("deviates", ("padding",))


@pytest.mark.nightly
def test_a_window_that_is_not_square_is_found():
    found = judged("beit.*table")
    assert [(line.part, line.verdict) for line in found] == [
        ("bias, a window of 4 x 4", "conforms"),
        ("bias, a window of 4 x 6", "deviates"),
    ]
    assert Sweep(found, known=expected(EXPECTED)).exit_code == 0


def test_a_bug_on_record_is_found_and_explained():
    found = judged("biogpt")
    (wrong,) = [line for line in found if line.verdict != "conforms"]
    assert (wrong.part, wrong.codes) == ("position_ids", ("padding",))
    sweep = Sweep(found, known=expected(EXPECTED))
    assert sweep.exit_code == 0
    assert Sweep(found, known=()).exit_code == 1


def subject(fn, surface="table", encoding=None):
    return Implementation(call=fn, surface=surface, name="m.C.a"), encoding


def test_a_wrong_module_deviates():
    weight = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    right, wrong = Learned(weight, offset=2), Learned(weight)
    made = [subject(lambda p: right.table(p), encoding=right)]
    assert [line.verdict for line in outcomes(BLANK, lambda: made)] == ["conforms"]
    made = [subject(lambda p: wrong.table(p), encoding=right)]
    (line,) = outcomes(BLANK, lambda: made)
    assert (line.verdict, line.codes) == ("deviates", ("position-origin",))
    assert Sweep([line], known=()).exit_code == 1


def test_what_raises_is_not_drivable_and_a_run_that_judged_nothing_is_red():
    def nothing():
        raise RuntimeError("no such\nweights")
        yield

    (line,) = outcomes(BLANK, nothing)
    assert (line.verdict, line.reason) == ("undrivable", "RuntimeError: no such weights")
    assert Sweep([line], known=()).exit_code == 3
    (line,) = outcomes(BLANK, list)
    assert (line.verdict, line.reason) == ("undrivable", "nothing about it is judged")

    def refuses(p):
        raise TypeError("not this way")

    weight = np.ones((4, 2), np.float32)
    (line,) = outcomes(BLANK, lambda: [subject(refuses, encoding=Learned(weight))])
    assert (line.verdict, line.reason) == (
        "undrivable",
        "a call with positions 0..3 raises an exception: TypeError: not this way",
    )
    (line,) = outcomes(BLANK, lambda: [subject(refuses, surface="no such surface")])
    assert line.verdict == "gap"


def test_later_lines_survive_an_error():
    weight = np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32)

    def made():
        yield subject(Learned(weight).table, encoding=Learned(weight))
        raise ValueError("then this")

    assert [line.verdict for line in outcomes(BLANK, made)] == ["conforms", "undrivable"]


@pytest.mark.nightly
def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["sweep", "--family", "table", "--only", "bert", "--markdown", "s.md"]
    result = CliRunner().invoke(cli.app, [*arguments, "--processes", "1"])
    assert result.exit_code == 0, result.output
    assert "2 judged, 2 conforming, 0 deviating" in result.output
    text = Path("s.md").read_text(encoding="utf-8")
    assert "Written by `posenc sweep --family table --markdown FILE`" in text
    assert "| bert.BertEmbeddings.position_embeddings | learned | table | `Learned(" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "tables"], "--family must be one of rotary, table, bias, score"),
        (
            ["--family", "table", "--dtype", "bfloat16"],
            "cannot be combined with --family rotary, --rope-type",
        ),
        (["--family", "table", "--family", "rotary"], "cannot be combined"),
        (["--family", "bias", "--only", "bert"], "no place of these families is called 'bert'"),
    ],
)
def test_mistaken_users(arguments, message):
    result = CliRunner().invoke(cli.app, ["sweep", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_every_deviation_on_record_has_its_script():
    known = {entry.script for entry in expected(EXPECTED) if entry.outcome == "deviates"}
    assert {path.name for path in SCRIPTS} == known


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_deviation_shows_without_this_project(path, capsys):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert "posenc_ref" not in path.read_text(encoding="utf-8")
    assert any(isinstance(n, ast.Assert) for n in ast.walk(tree))
    runpy.run_path(str(path))
    assert capsys.readouterr().out


#: What is not judged: see the reasons in the document.
UNDRIVEN = {
    "dinat.NeighborhoodAttention.rpb",
    "mlcd.MLCDVisionModel.class_pos_emb",
    "muse_glimmer.MuseGlimmerVisionPatchEmbedder.position_embedding_table",
    "muse_spark.MuseSparkVisionPatchEmbedder.position_embedding_table",
    "pp_doclayout_v2.PPDocLayoutV2ReadingOrderEncoder.rel_pos_x_bias",
    "pp_doclayout_v2.PPDocLayoutV2ReadingOrderEncoder.rel_pos_y_bias",
    "prophetnet.ProphetNetNgramSelfAttention.relative_pos_embeddings",
    "timesfm2_5.TimesFm2_5PositionalEmbedding",
    "tvp.TvpVisualInputEmbedding.position_embeddings",
}


def test_nothing_else_is_left_out():
    """What the document does not judge is known by name, and refuses when it is asked again."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("## Not drivable\n")
    said = dict(
        re.findall(r"^- `([^`]+)` \(.*?\): (.+)$", rest.partition("\n## ")[0], re.MULTILINE)
    )
    assert set(said) == UNDRIVEN
    for place in places():
        if place.name in said:
            (line,) = outcomes_here(judge_place, PlaceCase(place))
            assert (line.verdict, line.reason) == ("undrivable", said[place.name]), place.name


def test_the_document_is_of_this_census_and_these_claims():
    text = PAGE.read_text(encoding="utf-8")
    assert sweep_other_document.census() in text
    for entry in expected(EXPECTED):
        assert entry.reason in text
    for path in SCRIPTS:
        assert path.read_text(encoding="utf-8").strip() in text
    for place in places():
        assert place.name in text, place.name
    assert "Unexplained" not in text
    assert stale([], expected(EXPECTED)) == []
    assert sweep_other.FAMILIES is FAMILIES
