"""``check`` refuses wrong arguments, and an ``Implementation`` supplies the others."""

import sys

import numpy as np
import pytest

import posenc_ref.conformance
from posenc_ref import ALiBi, RoPE, Sinusoidal
from posenc_ref.backends import backend
from posenc_ref.conformance import SURFACES, Implementation, check
from posenc_ref.conformance.harness.signatures import load
from tests.conformance.handwritten import HEAD_DIM, inv_freq, rope, sinusoid

ENCODING = RoPE(HEAD_DIM, layout="half")


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "error", "message"),
    [
        (3, (ENCODING, "apply"), {}, TypeError, "fn must be callable, got int"),
        (None, (ENCODING, "apply"), {}, TypeError, "fn must be callable, got NoneType"),
        (rope(), ("Rope", "apply"), {}, TypeError, "such as RoPE.64, layout=.half.. .*got .Rope"),
        (rope(), (ENCODING, "aply"), {}, ValueError, "got 'aply'; did you mean apply"),
        (
            rope(),
            (Sinusoidal(8), "apply"),
            {},
            ValueError,
            "surface 'apply' is for rotary encodings, got Sinusoidal",
        ),
        (
            rope(),
            (ENCODING, "bias"),
            {},
            ValueError,
            "surface 'bias' is for bias encodings, got RoPE",
        ),
        (
            sinusoid(),
            (ALiBi(4), "table"),
            {},
            ValueError,
            "surface 'table' is for table encodings, got ALiBi",
        ),
        (rope(), (None, "apply"), {}, ValueError, "encoding must be given"),
        (sinusoid(), (None, "table"), {"head_dim": 8}, ValueError, "encoding must be given"),
        (
            rope(),
            (ENCODING, "apply"),
            {"head_dim": 2 * HEAD_DIM},
            ValueError,
            "as in the encoding, got",
        ),
        (rope(), (ENCODING, "apply"), {"dtype": "f32"}, ValueError, "dtype must be .*, got 'f32'"),
        (
            rope(),
            (ENCODING, "apply"),
            {"precision": "half"},
            ValueError,
            "precision must be one of None, .*, got 'half'",
        ),
        (
            rope(),
            (ENCODING, "apply"),
            {"angles": "bfloat16"},
            ValueError,
            "angles must be one of None, 'float32', 'float64', 'exact', got 'bfloat16'",
        ),
        (
            rope(),
            (ENCODING, "apply"),
            {"tensor_layout": "bsdh"},
            ValueError,
            "tensor_layout must be one of 'bhsd', .*, got 'bsdh'",
        ),
        (
            rope(),
            (ENCODING, "apply"),
            {"backend": "tensorflow"},
            ValueError,
            "backend must be one of numpy, torch, .*, got 'tensorflow'",
        ),
        (
            rope(),
            (ENCODING, "apply"),
            {"max_position": 127},
            ValueError,
            "max_position must be at least 128, got 127",
        ),
    ],
)
def test_wrong_arguments_are_refused(fn, args, kwargs, error, message):
    with pytest.raises(error, match=message):
        check(fn, *args, **kwargs)


def test_a_surface_for_other_encodings_names_those_for_this_one():
    with pytest.raises(ValueError, match=r"encodings, got Sinusoidal; judge it on .table. or"):
        check(rope(), Sinusoidal(16), "bias")


def test_a_backend_that_is_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ValueError, match=r"backend jax is not installed (.*); pip install"):
        check(rope(), ENCODING, "apply", backend="jax")


def test_a_dtype_that_the_library_does_not_have():
    pytest.importorskip("array_api_strict", reason="array_api_strict is the library that is tried")
    assert "bfloat16" not in backend("array_api_strict").dtypes
    with pytest.raises(ValueError, match=r"dtype must be one that array_api_strict has here, .*"):
        check(rope(), ENCODING, "apply", backend="array_api_strict", dtype="bfloat16")


def test_every_surface_is_described():
    for surface in SURFACES:
        assert f"``{surface}``" in check.__doc__


def test_every_name_is_exported():
    for name in posenc_ref.conformance.__all__:
        assert hasattr(posenc_ref.conformance, name)


def test_an_implementation_supplies_the_arguments():
    seen = []

    def bshd(x, p):
        seen.append(x.shape)
        return rope()(x.swapaxes(1, 2), p).swapaxes(1, 2)

    bound = Implementation(bshd, "apply", "mine", ENCODING, tensor_layout="bshd", head_dim=HEAD_DIM)
    report = check(bound)
    assert report.passed, report
    assert (report.subject, report.surface, report.backend) == ("mine", "apply", "numpy")
    assert seen[0] == (2, 5, 3, HEAD_DIM)
    # Given arguments take precedence.
    wrong = check(bound, ENCODING.replace(base=500.0), name="other")
    assert wrong.subject == "other"
    assert wrong.codes == ["base"]
    assert not check(bound, tensor_layout="bhsd").passed


def test_the_default_name_is_that_of_the_function():
    assert check(inv_freq, ENCODING, "frequencies").subject == "inv_freq"

    class Instance:
        def __call__(self):
            return inv_freq()

    assert check(Instance(), ENCODING, "frequencies").subject == "Instance"
    assert check(inv_freq, ENCODING, "frequencies", name="given").subject == "given"


def test_a_function_that_starts_to_raise_does_not_stop_the_check():
    for count in (0, 1, 3, 5, 8, 13, 20):
        for right, encoding, surface in (
            (rope(), ENCODING, "apply"),
            (sinusoid(), Sinusoidal(HEAD_DIM), "table"),
        ):
            left = iter(range(count))

            def tires(*args, right=right, left=left):
                if next(left, None) is None:
                    raise RuntimeError("tired")
                return right(*args)

            report = check(tires, encoding, surface)
            assert report.codes[0] == "raises", report
            assert "RuntimeError: tired" in report.findings[0].evidence


def test_the_seed_changes_the_inputs():
    def inputs(seed):
        seen = []
        check(lambda x, p: seen.append(x) or x, ENCODING, "apply", seed=seed)
        return seen[0]

    assert np.array_equal(inputs(0), inputs(0))
    assert not np.array_equal(inputs(0), inputs(1))


def test_warnings_of_a_wrong_function_do_not_stop_the_check():
    report = check(lambda x, p: rope()(x, p) * np.float32(0), ENCODING, "apply")
    assert report.verdict == "deviates"
    report = check(lambda x, p: x / np.zeros_like(x), ENCODING, "apply")
    assert report.codes[0] == "nonfinite"


@pytest.mark.parametrize("row", SURFACES.values(), ids=SURFACES)
def test_the_functions_of_a_surface_exist(row):
    assert callable(load(row.judge))
    assert not row.identify or callable(load(row.identify))
