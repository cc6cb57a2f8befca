"""CuPy on a machine without a GPU: it is declared, and says why its tests are skipped."""

import dataclasses
import subprocess
import sys

import pytest

from posenc_ref.backends import backend, cupy

BACKEND = cupy.BACKEND


def test_the_declaration_needs_no_gpu():
    assert backend("cupy") is BACKEND
    assert BACKEND.dtypes == ("float64", "float32", "float16", "bfloat16")
    assert BACKEND.devices() == ("cuda",)


def test_the_reason_for_skipping():
    reason = BACKEND.missing()
    if reason is None:
        pytest.skip("a CUDA device is here: test_capabilities.py runs on it")
    absent = reason.startswith("cupy is not installed (") and BACKEND.install in reason
    assert absent or reason.startswith("cupy cannot be used here: no working CUDA device (")


def test_an_error_of_the_device_is_a_reason_to_skip():
    """A stand-in for cupy raises the error of a machine without a device."""

    class CUDARuntimeError(RuntimeError):
        pass

    class Runtime:
        pass

    Runtime.CUDARuntimeError = CUDARuntimeError
    fake = type(sys)("cupy")
    fake.cuda = type("cuda", (), {"runtime": Runtime})

    def zeros(n):
        raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    fake.zeros = zeros
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = fake
    try:
        reason = dataclasses.replace(BACKEND, module="math").missing()
    finally:
        if before is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = before
    assert reason == (
        "cupy cannot be used here: no working CUDA device "
        "(cudaErrorNoDevice: no CUDA-capable device is detected)"
    )


def test_importing_backends_loads_no_library():
    """`posenc_ref.backends` describes CuPy, PyTorch and JAX without importing them."""
    probe = (
        "import sys, posenc_ref.backends; "
        "print([m for m in ('cupy', 'torch', 'jax', 'dask', 'ml_dtypes') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", probe], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
