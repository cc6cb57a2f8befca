"""Expected outputs that processes share: the same numbers, computed once."""

import dataclasses
import importlib.util

import numpy as np
import pytest

from posenc_ref import Learned, RoPE, Sandwich, T5Bias
from posenc_ref.conformance.exact import kept
from posenc_ref.conformance.exact.reference import Entry
from posenc_ref.conformance.registry import entries

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mpmath") is None, reason="the formulas need mpmath"
)


@pytest.mark.parametrize("cls", [Learned, RoPE, Sandwich, T5Bias])
def test_another_process_reads_the_same_outputs(tmp_path, monkeypatch, cls):
    (entry,) = (entry for entry in entries() if entry.encoding is cls)
    name = next(iter(entry.examples))
    wanted = list(entry.cases(name))
    with kept.kept_in(str(tmp_path)):
        kept.cases.__wrapped__(entry, name)
        monkeypatch.setattr(Entry, "truth", None)  # nothing may be computed again
        found = kept.cases.__wrapped__(entry, name)
    for (recipe, output), (same, again) in zip(wanted, found, strict=True):
        assert recipe.name == same.name
        for field in dataclasses.fields(output):
            one, other = getattr(output, field.name), getattr(again, field.name)
            np.testing.assert_array_equal(one, other, strict=True)
    assert [file.name for file in tmp_path.iterdir()] == [f"{cls.__name__}-{name}.npz"]


def test_without_a_folder_nothing_is_written(tmp_path):
    (entry,) = (entry for entry in entries() if entry.encoding is T5Bias)
    name = next(iter(entry.examples))
    with kept.kept_in(str(tmp_path)), kept.kept_in(None):
        kept.cases.__wrapped__(entry, name)
    assert list(tmp_path.iterdir()) == []
