"""Backends are described completely and truthfully, and every declared capability is tested."""

import dataclasses
import inspect

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref._namespace import dtype_name
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.backends import Backend, backend, backends
from posenc_ref.backends import numpy as numpy_backend
from posenc_ref.conformance.surveys.own import judge_entry, labels
from posenc_ref.conformance.surveys.record import Outcome
from tests.conformance.exact.fixed_point import Exact, to_fixed


def usable():
    return [b for b in backends() if b.missing() is None]


def untested(declared, collected):
    """Return the capabilities of ``declared`` backends that no collected parameter covers."""
    run = {(place.backend.name, place.device, place.dtype) for place, skipped in collected}
    gaps = []
    for b in declared:
        devices = b.devices() if b.missing() is None else (None,)
        gaps += [(b.name, device, dtype) for device in devices for dtype in b.dtypes]
    return [gap for gap in gaps if gap not in run]


def test_every_declared_capability_is_tested(collected):
    # The one exception is a device without float64, which must refuse float64.
    gaps = untested(backends(), collected)
    assert gaps == [("array_api_strict", "no_float64", "float64")]
    with pytest.raises(ValueError, match="float64"):
        backend("array_api_strict").asarray(np.ones(2), "float64", "no_float64")


def test_every_dtype_and_device_is_one_parameter(collected):
    for b in backends():
        mine = [skipped for place, skipped in collected if place.backend is b]
        if b.missing() is None:
            assert not any(mine)
            strict = b.name == "array_api_strict"
            assert len(mine) == len(b.dtypes) * len(b.devices()) - strict
        else:
            assert all(mine)
            assert len(mine) == len(b.dtypes)


def test_a_declared_but_untested_capability_is_found(collected):
    more = dataclasses.replace(numpy_backend.BACKEND, devices=lambda: ("cpu", "quantum"))
    gaps = untested([more], collected)
    assert ("numpy", "quantum", "float32") in gaps
    wider = dataclasses.replace(numpy_backend.BACKEND, dtypes=("float32", "float128"))
    assert untested([wider], collected) == [("numpy", "cpu", "float128")]


def test_a_falsely_declared_dtype_fails(tested):
    """It must not turn into a skipped test."""
    wrong = dataclasses.replace(numpy_backend.BACKEND, dtypes=("float8",))
    (place,) = tested(wrong)
    with pytest.raises(TypeError):
        place.array([1.0])


def test_place_judge_rejects_wrong_results(tested):
    """Values from float32 angles, and another dtype, shape, library or device."""
    place = next(p for p in tested(backend("numpy")) if p.dtype == "float64")
    p = np.array([2**20 + 1, 2**21 + 7])
    cos, _ = RoPE(8, layout="half").cos_sin(p)
    exact = Exact(to_fixed(cos))
    place.judge(exact, cos, np.abs(cos), 1.0)
    float32 = np.cos(p[:, None] * RoPE(8, layout="half").frequencies().astype(np.float32))
    for wrong in (float32.astype(np.float64), cos.astype(np.float32), cos * np.nan, cos[:1]):
        with pytest.raises(AssertionError):
            place.judge(exact, wrong, np.abs(cos), 1.0)
    strict = [p for b in usable() if b.name == "array_api_strict" for p in tested(b)]
    for other in strict[:1]:
        with pytest.raises(AssertionError):
            place.at_home(other.array([1.0]), "float64")
        elsewhere = next(p for p in strict if p.device != other.device and p.dtype == other.dtype)
        with pytest.raises(AssertionError):
            other.at_home(elsewhere.array([1.0]))


@pytest.mark.parametrize("b", backends(), ids=lambda b: b.name)
def test_declarations_are_well_formed(b):
    assert backend(b.name) is b
    assert set(b.dtypes) <= set(ROUNDOFF)
    assert len(set(b.dtypes)) == len(b.dtypes) > 0
    assert "pip install" in b.install
    assert inspect.getdoc(inspect.getmodule(b.asarray))
    reason = b.missing()
    assert reason is None or (b.name in reason and len(reason) > 20)


@pytest.mark.parametrize("b", usable(), ids=lambda b: b.name)
def test_a_usable_backend_has_a_version_and_a_device(b):
    assert b.version[0].isdigit()
    assert len(b.devices()) > 0


def test_arrays_are_converted_from_and_to_numpy(place):
    values = np.array([[0.0, -1.5], [3.0, 0.15625]])
    array = place.array(values)
    assert dtype_name(array) == place.dtype
    back = place.host(array)
    assert back.dtype == np.float64
    assert (back == values).all()
    integers = place.host(place.integers([3, -1]))
    assert integers.dtype.kind == "i"
    assert integers.tolist() == [3, -1]


def test_a_missing_library_says_how_to_install_it():
    b = Backend(
        name="nowhere",
        module="nowhere.array",
        distribution="nowhere-dist",
        install="pip install nowhere",
        dtypes=("float32",),
        devices=lambda: ("cpu",),
        asarray=lambda values, dtype, device: values,
        asnumpy=lambda array: array,
    )
    assert b.missing() == (
        "nowhere is not installed (No module named 'nowhere'); pip install nowhere"
    )
    assert b.version == ""
    broken = dataclasses.replace(b, module="math", unusable=lambda: "it is Sunday")
    assert broken.missing() == "nowhere cannot be used here: it is Sunday"


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match=r"must be one of numpy, torch, jax.*got 'tensorflow'"):
        backend("tensorflow")


@pytest.mark.parametrize("label", labels())
def test_every_encoding_runs_on_a_device_without_float64(label):
    pytest.importorskip("array_api_strict", reason="it has a device without float64")
    strict, blank = backend("array_api_strict"), Outcome("backend", "array_api_strict")
    found = judge_entry(labels()[label], strict, "float32", "no_float64", blank, None, 1)
    assert found.verdict == "conforms"
