"""A new encoding is one class and one registration: CONTRIBUTING's, which is run here.

Everything picks it up by itself, and everything rejects a class whose formula is a little off.
"""

import dataclasses
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import posenc_ref
from posenc_ref import _registry
from posenc_ref.accuracy import Truth
from posenc_ref.conformance import explain, load_vectors, registry
from posenc_ref.conformance.exact.certificate import certify, certify_entry, format_table
from posenc_ref.conformance.surveys.verify import Options, verify
from posenc_ref.conformance.vectors.make import generate, recipes
from posenc_ref.conformance.vectors.verify import verify_vectors
from tests.conformance.registry.entry_checks import CHECKS, on
from tests.tool import tool

ROOT = Path(__file__).resolve().parents[3]
PAGE = tool("encodings_page")
FILES = dict(
    re.findall(
        r"`(\S+\.py)`:\n\n```python\n(.*?)^```$",
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)


def module(monkeypatch, name, source):
    """A module of this source under this name, as if its file stood there."""
    made = types.ModuleType(name)
    made.__package__ = name.rpartition(".")[0]
    monkeypatch.setitem(sys.modules, name, made)
    exec(compile(source, f"<{name}>", "exec"), vars(made))
    return made


@pytest.fixture
def entry(monkeypatch):
    """The example of CONTRIBUTING, added for the length of one test."""
    registry.entries()
    monkeypatch.setattr(registry, "REGISTRY", dict(registry.REGISTRY))
    known = _registry.CLASSES["encoding"]
    monkeypatch.setitem(_registry.CLASSES, "encoding", dict(known))
    made = module(monkeypatch, "posenc_ref.tisa", FILES["posenc_ref/tisa.py"])
    monkeypatch.setattr(posenc_ref, "TISA", made.TISA, raising=False)
    name = "posenc_ref.conformance.registry.tisa"
    module(monkeypatch, name, FILES["conformance/registry/tisa.py"])
    return registry.REGISTRY[made.TISA]


def off(x):
    """Numbers that are off by a bit of float32."""
    return x * (1 + 2.0**-23)


@pytest.fixture
def wrong(entry, monkeypatch):
    """The same with a class whose formula is a little off, and so is what it says of itself."""
    right = entry.encoding._of_offset
    monkeypatch.setattr(entry.encoding, "_of_offset", lambda self, r: off(right(self, r)))
    return entry


def test_an_encoding_is_added_in_six_files():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(r"^## Adding an encoding\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)[1]
    named = set(re.findall(r"`([\w/]*(?:tisa|__init__)\.py|tests/mutants/)`|(README)", section))
    assert {path or readme for path, readme in named} == {
        "posenc_ref/tisa.py",
        "posenc_ref/__init__.py",
        "conformance/registry/tisa.py",
        "tests/posenc_ref/test_tisa.py",
        "tests/mutants/",
        "README",
    }


def test_the_walk_through_has_its_files():
    assert list(FILES) == ["posenc_ref/tisa.py", "conformance/registry/tisa.py"]
    assert "TISA" not in posenc_ref.__all__


# --- it is picked up -----------------------------------------------------------------------------


def test_entries_have_it(entry):
    assert entry in registry.entries()
    assert registry.entry_of(entry.examples["tisa"]) is entry
    assert entry.encoding not in {e.encoding for e in registry.entries() if e is not entry}


def verified(library="numpy"):
    return verify(Options(only=f"{library} tisa*"))


def test_verify_judges_it(entry):
    found = verified()
    assert {o.dtype for o in found.outcomes} == {"float64", "float32", "float16", "bfloat16"}
    assert {o.label for o in found.outcomes} == {"TISA vectors"}
    assert {o.verdict for o in found.outcomes} == {"conforms"}
    assert found.exit_code == 0


def test_accuracy_has_its_rows(entry):
    rows = certify((entry,))
    assert {row.encoding for row in rows} == {"TISA: tisa"}
    assert {row.positions for row in rows} == {
        "as in its vectors", "up to 2**20", "up to 2**40"
    }  # fmt: skip
    assert all(row.passed for row in rows)
    assert "TISA: tisa" in format_table(rows)


def themes(entry, monkeypatch):
    """Generate the vectors of this entry alone."""
    monkeypatch.setattr(recipes, "entries", lambda: (entry,))
    monkeypatch.setattr(generate, "themes", recipes.registered)


def test_vectors_are_made_of_it(entry, monkeypatch, tmp_path):
    themes(entry, monkeypatch)
    generate.generate(tmp_path)
    cases = load_vectors(folder=tmp_path, encoding="TISA", surface="bias")
    assert [case.id for case in cases] == [f"tisa-{r.name}" for r in entry.group("tisa").cases]
    assert verify_vectors(tmp_path).passed


def test_the_page_has_its_section(entry):
    text = PAGE.document((entry,), certify_entry(entry))
    assert "### TISA\n\n`b_h(i, j) = sum_s a_hs exp(" in text
    assert "Source: Wennberg, Henter 2021" in text
    assert "\nProperties: translation.\n" in text
    assert re.search(r"Worst scores: float64 \S+, float32 \S+, float16 \S+", text)


def test_explain_shows_what_it_declares(entry, monkeypatch):
    monkeypatch.setattr(posenc_ref, "__all__", [*posenc_ref.__all__, "TISA"])
    monkeypatch.setattr(entry.encoding, "holds", frozenset({"symmetric"}))
    assert explain("tisa").endswith(
        "\n\nProperties\n    symmetric        `b(i, j) = b(j, i)`"
        "\n    translation      `b(i + s, j + s) = b(i, j)`"
    )


def test_no_pipe_hides_that_a_command_of_the_walk_through_failed():
    """A pipe would hide the exit status of the first."""
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^### Run these commands\n\n```sh\n(.*?)^```$", said, re.M | re.S)
    assert len(commands.splitlines()) == 5
    assert not {"|", ";"} & set(commands)


@pytest.mark.parametrize("check_entry", CHECKS, ids=lambda fn: fn.__name__)
def test_it_passes_the_checks_of_all_entries(entry, check_entry):
    check_entry(entry, "tisa", entry.examples["tisa"])


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_libraries_give_the_same(entry, library):
    pytest.importorskip(library, reason="the library that is check_entry")
    assert on(library, entry, "float32").verdict == "conforms"


# --- and a wrong one is rejected -----------------------------------------------------------------


def test_verify_rejects_a_wrong_one(wrong):
    found = verified()
    assert {o.dtype for o in found.outcomes if o.verdict == "deviates"} == {"float64"}
    assert found.exit_code == 1
    (outcome,) = [o for o in found.outcomes if o.verdict == "deviates"]
    assert "tisa-4-of-4 is off by" in outcome.messages[0]


def test_accuracy_rejects_a_wrong_one(wrong):
    assert {row.dtype for row in certify_entry(wrong) if not row.passed} == {"float64"}


def test_vectors_of_a_wrong_one_are_not_written(wrong, monkeypatch, tmp_path):
    themes(wrong, monkeypatch)
    with pytest.raises(generate.Disagreement, match="tisa-4-of-4: posenc_ref itself scores"):
        generate.generate(tmp_path / "v0")
    assert not (tmp_path / "v0").exists()


def test_the_page_is_not_written_of_a_wrong_one(wrong):
    with pytest.raises(ValueError, match=r"TISA: tisa scores .* units in float64"):
        PAGE.document((wrong,), certify_entry(wrong))


def test_a_wrong_one_is_not_certified_by_the_tests(wrong):
    (certified,) = [check for check in CHECKS if check.__name__ == "is_certified"]
    with pytest.raises(AssertionError):
        certified(wrong, "tisa", wrong.examples["tisa"])


def test_a_wider_unit_than_the_formula_has_is_found(entry, monkeypatch):
    """A class that declares more rounding than there is would let its implementations off."""
    (states,) = [check for check in CHECKS if check.__name__.startswith("states_the_error_unit")]
    honest = entry.encoding._truth_of

    def generous(self, offsets):
        t = honest(self, offsets)
        return Truth(t.value, 2 * t.terms, t.angle)

    monkeypatch.setattr(entry.encoding, "_truth_of", generous)
    said = (
        r"tisa-4-of-4, head \d, query at \d, key at \d: the class states A = (\S+), B = 0; "
        r".* follow A = (\S+), B = 0; the stated one is larger"
    )
    with pytest.raises(AssertionError, match=said) as found:
        states(entry, "tisa", entry.examples["tisa"])
    stated, derived = map(float, re.search(said, str(found.value)).groups())
    assert f"{stated:.4g}" == f"{2 * derived:.4g}"


def test_another_dtype_than_asked_for_is_found(entry, monkeypatch):
    right = entry.encoding.bias
    monkeypatch.setattr(
        entry.encoding, "bias", lambda self, q, k, dtype=None: right(self, q, k, dtype="float64")
    )
    found = on("numpy", entry, "float32")
    assert found.verdict == "deviates"
    assert "dtype" in found.codes


@pytest.mark.parametrize(
    "scores",
    [
        lambda e, q, k, at, k_at, scale: e._logits(q, k, at, k_at, scale),  # rounds often
        lambda e, q, k, at, k_at, scale: e._logits(q.astype(float), k, at, k_at, scale),
    ],
    ids=["in half precision", "float64 whatever q is"],
)
def test_scores_that_do_not_follow_the_queries_are_found(entry, monkeypatch, scores):
    (follows,) = [check for check in CHECKS if check.__name__ == "scores_follow_the_queries"]
    right = entry.encoding.scores

    def wrong(self, q, k, q_at, k_at, *, scale=None):
        if q.dtype != np.float16:
            return right(self, q, k, q_at, k_at, scale=scale)
        return scores(self, q, k, q_at, k_at, scale)

    monkeypatch.setattr(entry.encoding, "scores", wrong)
    with pytest.raises(AssertionError):
        follows(entry, "tisa", entry.examples["tisa"])


def test_a_judge_that_accepts_everything_is_found(entry, monkeypatch):
    from posenc_ref.conformance.exact.output import Output

    monkeypatch.setattr(Output, "score", lambda self, actual, dtype, **how: 0.0)
    found = on("numpy", entry, "float32")
    assert found.verdict == "error"
    assert "made wrong on purpose: tisa-4-of-4" in found.reason


# --- registering ---------------------------------------------------------------------------------


def test_an_encoding_has_one_entry(entry):
    again = registry.register(entry.encoding, spec="x", examples=entry.examples)
    with pytest.raises(ValueError, match="TISA has an entry already"):
        again(entry.exact)


@pytest.mark.parametrize("examples", [{}, {"alibi": posenc_ref.ALiBi(2)}])
def test_examples_are_of_the_class(entry, examples):
    registry.REGISTRY.pop(entry.encoding)
    with pytest.raises(ValueError, match="examples must be TISA objects"):
        registry.register(entry.encoding, spec="x", examples=examples)(entry.exact)


def test_tables_that_look_rows_up_say_which(entry):
    learned = registry.entry_of(posenc_ref.Learned(np.zeros((2, 2))))
    with pytest.raises(
        ValueError,
        match="learned-6 is a table of learned rows: register its positions with inputs=",
    ):
        dataclasses.replace(learned, inputs=None).group("learned-6")


def test_a_docstring_has_its_sections(entry):
    entry.encoding.__doc__ = "Translation-invariant self-attention."
    with pytest.raises(ValueError, match="the docstring of TISA must have the section 'Formula'"):
        PAGE.document((entry,), certify_entry(entry))
