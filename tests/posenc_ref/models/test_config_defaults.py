"""The tables of conventions and defaults, against the transformers that is installed."""

import functools
import importlib.util
import re
from pathlib import Path

import pytest
import transformers

from posenc_ref.models.config_facts import table

ROOT = Path(__file__).resolve().parents[3]
MODELS = Path(transformers.__file__).parent / "models"
TEXT, VISION = (table(name)["models"] for name in ("text_models", "vision_models"))


def tool():
    spec = importlib.util.spec_from_file_location(
        "config_defaults", ROOT / "tools" / "configurations" / "config_defaults.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.nightly
def test_defaults_are_those_of_the_classes():
    module = tool()
    assert module.text() == module.TARGET.read_text(encoding="utf-8"), (
        "run python tools/configurations/config_defaults.py"
    )


def test_every_model_has_defaults():
    assert set(table("config_defaults")["models"]) == {*TEXT, *VISION}
    assert not set(TEXT) & set(VISION)


def test_versions_agree():
    names = ("text_models", "vision_models", "config_defaults")
    assert {table(name)["transformers"] for name in names} == {"5.23.0"}


# Files that define a rotation nobody uses, or that inherit theirs; and one that is not expressed.
UNUSED = {
    "canary", "cohere_asr", "jamba", "kimi_linear", "nemotron_asr_streaming", "nemotron_h",
    "parakeet",
}  # fmt: skip
COMPOSITES = {"cosmos3_omni", "glm46v", "hyperclovax_vision_v2", "minicpmv4_7"}
REFUSED = {"lightglue", "musicflamingo", "pp_doclayout_v2", "vjepa2"}


@functools.cache
def rotary_files():
    """The source of every modelling file that speaks of a rotation, by name."""
    found = {}
    for path in sorted(MODELS.glob("*/modeling_*.py")):
        source = path.read_text(encoding="utf-8")
        text = source.lower()
        if "rotary" in text or "freqs_cis" in text or re.search(r"\brope_", text):
            found[path.stem.removeprefix("modeling_")] = source
    return found


def test_every_file_with_rotary_code_has_an_entry():
    entries = {
        entry.get("file", name) for models in (TEXT, VISION) for name, entry in models.items()
    }
    missing = set(rotary_files()) - entries
    assert missing - UNUSED - COMPOSITES - REFUSED == {"esmfold2"}
    # The modelling files of these three do not name their rotation.
    assert entries - set(rotary_files()) == {"internlm3", "iquestcoder", "kimi_linear"}


def rotate_half(source):
    """The source of the function of this name, or None."""
    found = re.search(r"^def rotate_half\(.*?(?=^\S)", source or "", re.MULTILINE | re.DOTALL)
    return found and found[0]


# How each way of pairing channels reads in the source.
PAIRINGS = {"half": r"shape\[-1\] // 2|chunk\(2", "interleaved": r"\[\.\.\., (0)?::2\]|::2\]"}


def test_layouts_are_those_of_rotate_half():
    """Where a file has one function that turns by a quarter, its text shows the pairing."""
    checked = 0
    for name, entry in TEXT.items():
        source = rotary_files().get(entry.get("file", name))
        turn = rotate_half(source)
        if turn is None or name in ("ernie4_5_vl_moe_text", "glm4v_text", "glm_ocr_text"):
            continue
        both = "\ndef apply_rotary_pos_emb_interleave(" in source
        if both or entry.get("output_layout"):
            continue
        assert re.search(PAIRINGS[entry["layout"]], turn), name
        checked += 1
    assert checked > 140


def test_signs_are_those_of_rotate_half():
    """-x2 comes first where the sign is 1."""
    for name, entry in TEXT.items():
        turn = rotate_half(rotary_files().get(entry.get("file", name)))
        if turn is None:
            continue
        negative_first = "-x2, x1" in turn
        assert (entry.get("sign", 1) == 1) is negative_first, name
