"""Every reader of untrusted data keeps its promise on mutated inputs; see docs/reliability.md.

By day each area gets a few inputs of a fixed seed. ``POSENC_FUZZ_SECONDS=3600`` gives all areas
together so many seconds, with the inputs of ``POSENC_FUZZ_SEED`` (by default the date); .ci/nightly
sets both. A failure names its number, from which ``engine.mutated`` makes the input again.
"""

import base64
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.fuzz import engine, mutate
from tests.fuzz.engine import Target, fuzz, verdict
from tests.fuzz.targets import TARGETS

#: Inputs by day.  Files cost more, and Python imports what reads them.
DAY = {
    "from-dict": 300, "gguf-metadata": 200, "config": 60, "answers": 100, "constructors": 100,
    "methods": 60, "functions": 60, "fused": 30,
}  # fmt: skip
OTHERS = 12
CORPUS = Path(__file__).parent / "corpus"


def failures(area, tried):
    """Return the broken promises of a run as text."""
    lines = [f"{area}, input {n}: {why}" for n, why in tried.broken[:20]]
    return "\n".join([f"{len(tried.broken)} of {tried.inputs} inputs", *lines])


@pytest.mark.parametrize("area", TARGETS)
def test_mutated_inputs_are_read_or_refused(area):
    tried = fuzz(TARGETS[area], inputs=DAY.get(area, OTHERS))
    assert not tried.broken, failures(area, tried)
    assert tried.refused, "no mutation reached a check"


@pytest.mark.nightly
@pytest.mark.parametrize("area", TARGETS)
def test_many_mutated_inputs(area):
    seconds = float(os.environ.get("POSENC_FUZZ_SECONDS", "60")) / len(TARGETS)
    seed = int(os.environ.get("POSENC_FUZZ_SEED", f"{datetime.now(UTC):%Y%m%d}"))
    tried = fuzz(TARGETS[area], seed=seed, seconds=seconds)
    print(f"{area}: {tried.inputs} inputs of seed {seed}, {tried.accepted} accepted")
    assert not tried.broken, f"seed {seed}: {failures(area, tried)}"
    assert tried.accepted or tried.inputs < 5000, "no input was accepted"


def kept(area, entry):
    """Return the input of an entry of the corpus: JSON, bytes, or a text that repeats."""
    if "deep" in entry:
        given = {entry["key"]: mutate.deep(entry["deep"])}
        call = entry.get("value")
        return {**call, "with": call["with"] | given} if call else given
    if "value" in entry:
        return entry["value"]
    if "text" in entry:
        text = entry["text"] * entry["times"]
        return text if area == "declarations" else text.encode()
    data = base64.b64decode(entry["base64"])
    return (entry["suffix"], data) if "suffix" in entry else data


ENTRIES = [
    pytest.param(area, entry, id=f"{area}-{entry['once']}".replace(" ", "-"))
    for area in TARGETS
    for entry in json.loads((CORPUS / f"{area}.json").read_text())
]


@pytest.mark.parametrize(("area", "entry"), ENTRIES)
def test_inputs_that_once_failed(area, entry):
    accepted, why = verdict(TARGETS[area], kept(area, entry))
    assert (accepted, why) == (entry["accepted"], "")


def broken_by(call, **more):
    """Return how a function breaks the promise of a target."""
    target = Target("a", "", lambda: [0], lambda rng, value: value, call, **more)
    return verdict(target, 0)[1]


def refuse(error):
    """Return a function that raises an exception."""

    def call(given):
        raise error

    return call


def spin(given):
    """Never end."""
    while True:
        pass


def test_the_engine_sees_every_broken_promise(monkeypatch):
    monkeypatch.setattr(engine, "SECONDS", 0.05)
    assert broken_by(lambda given: given) == ""
    assert broken_by(refuse(ValueError("x must be 1, got 0"))) == ""
    assert "AttributeError" in broken_by(refuse(AttributeError("x")))
    assert "SystemExit" in broken_by(refuse(SystemExit(0)))
    assert "RecursionError" in broken_by(refuse(RecursionError("deep")))
    assert "without a message" in broken_by(refuse(ValueError()))
    assert "5000 characters" in broken_by(refuse(ValueError("x" * 5000)))
    assert "Python's own" in broken_by(refuse(TypeError("'<' not supported between a and b")))
    assert "not name the file" in broken_by(refuse(ValueError("no")), mentions=lambda: "a.json")
    assert "TooSlow" in broken_by(spin)
    assert "MemoryError" in broken_by(lambda given: bytearray(2 * engine.MEMORY))
    assert "wrong value" in broken_by(lambda given: 1, check=_one_is_two)


def _one_is_two(given, result):
    assert result == 2, result
