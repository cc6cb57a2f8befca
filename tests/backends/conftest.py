"""The fixture ``place``: every library, device and dtype that the backends declare."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from posenc_ref._namespace import device_of, dtype_name, has_float64, library, namespace
from posenc_ref.accuracy import budget
from posenc_ref.backends import Backend, backends


@dataclass(frozen=True)
class Place:
    """One declared capability: arrays of ``dtype`` on ``device`` of ``backend``."""

    backend: Backend
    device: str | None
    dtype: str

    def __str__(self):
        return "-".join(filter(None, (self.backend.name, self.device, self.dtype)))

    def array(self, values):
        return self.backend.asarray(np.asarray(values, np.float64), self.dtype, self.device)

    def integers(self, values):
        return self.backend.asarray(np.asarray(values, np.int64), "int64", self.device)

    def ways(self, positions):
        """Return positions on the host, and as an array of this place."""
        return positions, self.integers(positions)

    def host(self, array):
        return self.backend.asnumpy(array)

    def transposed(self, array):
        xp = namespace(array)
        return xp.permute_dims(array, tuple(reversed(range(array.ndim))))

    @property
    def module(self):
        """The module that a user passes as ``xp=``."""
        name = {"jax": "jax.numpy"}.get(self.backend.name, self.backend.module)
        return importlib.import_module(name)

    @property
    def home(self):
        """The device that a user passes as ``device=``."""
        return device_of(self.integers([0]))

    @property
    def working(self):
        """The dtype in which the specification computes here."""
        probe = self.integers([0])
        return "float64" if has_float64(namespace(probe), device_of(probe)) else "float32"

    def at_home(self, result, dtype=None):
        """Assert that ``result`` has this library, device and dtype, and return it on the host."""
        assert library(result) == library(self.integers([0]))
        assert device_of(result) == self.home
        assert dtype_name(result) == (dtype or self.dtype)
        return self.host(result)

    def judge(self, exact, result, terms, amplitude=0.0, dtype=None):
        """Assert that the error is within the tolerance, or one rounding if computed in float64."""
        dtype = dtype or self.dtype
        host = self.at_home(result, dtype)
        assert host.shape == exact.hi.shape
        _, score = exact.worst(host, terms, amplitude, dtype)
        assert score <= budget(dtype)
        if self.working == "float64":
            assert score < 2


def capabilities(backend: Backend) -> list[Place]:
    """Return what ``backend`` declares for this machine, float64 only on devices that have it."""
    places = [
        Place(backend, device, name) for device in backend.devices() for name in backend.dtypes
    ]
    return [p for p in places if p.dtype != "float64" or p.working == "float64"]


def _marks(place: Place) -> list[Any]:
    """Return ``nightly`` for Dask, which has tests of its own: its calls make graphs of NumPy's."""
    return [pytest.mark.nightly] if place.backend.name == "dask" else []


def parameters() -> list[Any]:
    """Return all capabilities; those of an unusable library are skipped with the reason."""
    found = []
    for backend in backends():
        reason = backend.missing()
        if reason is None:
            found += [
                pytest.param(place, id=str(place), marks=_marks(place))
                for place in capabilities(backend)
            ]
        else:
            mark = pytest.mark.skip(reason=reason)
            absent = [Place(backend, None, dtype) for dtype in backend.dtypes]
            found += [pytest.param(place, id=str(place), marks=mark) for place in absent]
    return found


def pytest_generate_tests(metafunc):
    if "place" in metafunc.fixturenames:
        metafunc.parametrize("place", parameters())


@pytest.fixture
def tested():
    """The function that returns the capabilities to test of a backend."""
    return capabilities


@pytest.fixture
def collected():
    """The parameters of ``place``, and whether each is skipped."""
    return [(p.values[0], any(m.name == "skip" for m in p.marks)) for p in parameters()]
