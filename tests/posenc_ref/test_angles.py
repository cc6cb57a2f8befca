"""The certificate: cos and sin within 2 * 2**-53 of 50-digit arithmetic, on every library."""

import dataclasses
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref.angles import (
    DIGITS,
    ERROR_BOUND,
    MAX_POSITION,
    Turns,
    cos_sin,
    decimal_context,
    geometric,
    turns,
)
from posenc_ref.conformance.exact.digits import mpmath, nearest_quarter_turns
from tests.conformance.exact.fixed_point import Exact, consecutive_cos_sin, exact_cos_sin
from tests.conformance.exact.fixed_point import geometric as exact_geometric

mp = mpmath().mp
# base, pairs, frequencies used (a stride), offset
GRID = [
    (17.0, 1, 1, 0.0),
    (17.0, 32, 4, 0.0),
    (10000.0, 4, 1, 0.0),
    (10000.0, 32, 1, 0.0),
    (10000.0, 256, 8, 0.0),
    (500000.0, 64, 4, 0.0),
    (1000000.0, 128, 16, 0.0),
    (75000000.0, 64, 8, 0.0),
    (10000.0, 32, 4, 2.0),
    (10000.0, 16, 2, -0.3),
    (75000000.0, 16, 2, 2.0**40 - 1.5),
]


@dataclasses.dataclass
class Case:
    name: str
    positions: np.ndarray
    turns: Turns
    offset: float
    cos: Exact
    sin: Exact

    def worst(self, cos, sin):
        return max(float(self.cos.error(cos).max()), float(self.sin.error(sin).max()))


def positions_for(rng, count):
    """Integers of every size, powers of two and their neighbours, fractions, both signs."""
    powers = np.array([2.0**b + d for b in range(0, 41, 4) for d in (-1, 0, 1)])
    sizes = 2.0 ** rng.uniform(0, 40, count)
    small = rng.integers(0, 4097, count)
    tiny = np.array([0.0, -0.0, 2.0**-1074, 1e-300, 2.0**-30, 0.1, 1 / 3])
    parts = [small, np.rint(sizes), -np.rint(sizes[::3]), sizes, -sizes[::3], powers, tiny]
    return np.clip(np.concatenate(parts), -MAX_POSITION, MAX_POSITION)


def make(name, base, exponents, offset, positions):
    with decimal_context():
        decimals = [Decimal(e.numerator) / e.denominator for e in exponents]
        parts = turns(geometric(base, decimals))
    exact = exact_geometric(base, exponents)
    with mp.workdps(DIGITS):
        phases = [w * offset for w in exact]
    cos, sin = exact_cos_sin(positions, exact, phases)
    return Case(name, np.asarray(positions), parts, offset, Exact(cos), Exact(sin))


def numpy_tables(case):
    return cos_sin(case.positions, case.turns, np, None, case.offset)


@pytest.fixture(scope="module")
def cases():
    rng = np.random.default_rng(20240607)
    return [
        make(
            f"base {base:g}, {pairs} pairs, offset {offset:g}",
            base,
            [Fraction(k, pairs) for k in range(0, pairs, stride)],
            offset,
            positions_for(rng, 12),
        )
        for base, pairs, stride, offset in GRID
    ]


def test_frequencies_have_fifty_digits():
    for base, pairs, _, _ in GRID:
        exponents = [Fraction(k, pairs) for k in range(pairs)]
        with decimal_context():
            ours = geometric(base, [Decimal(e.numerator) / e.denominator for e in exponents])
        with mp.workdps(70):
            for w, e in zip(ours, exponents, strict=True):
                want = mp.mpf(base) ** (-mp.mpf(e.numerator) / e.denominator)
                assert abs(mp.mpf(str(w)) / want - 1) <= mp.mpf(10) ** -49


def test_numpy_is_certified(cases):
    for case in cases:
        assert case.worst(*numpy_tables(case)) <= ERROR_BOUND, case.name


def test_every_position_up_to_4096_is_certified():
    exponents = [Fraction(k, 32) for k in range(32)]
    waves = exact_geometric(10000.0, exponents)
    cos, sin = consecutive_cos_sin(4097, waves)
    # The two exact routes agree to a few of their last bits before either judges anything.
    some = [0, 1, 777, 4096]
    for dense, direct in zip((cos, sin), exact_cos_sin(some, waves), strict=True):
        assert abs(dense[some] - direct).max() <= 4 * 4096
    with decimal_context():
        parts = turns(geometric(10000.0, [Decimal(k) / 32 for k in range(32)]))
    case = Case("dense", np.arange(4097.0), parts, 0.0, Exact(cos), Exact(sin))
    assert case.worst(*numpy_tables(case)) <= ERROR_BOUND


@pytest.mark.parametrize(("base", "pairs"), [(10000.0, 64), (500000.0, 64), (7.5e7, 32), (17.0, 8)])
def test_positions_nearest_to_multiples_of_a_quarter_turn(base, pairs):
    rng = np.random.default_rng(5)
    near = 0
    for k in range(pairs):
        (w,) = exact_geometric(base, [Fraction(k, pairs)])
        positions = [float(p) for p in nearest_quarter_turns(w)]
        with mp.workdps(DIGITS):
            # Floats right beside k pi / (4 w), anywhere in the domain.
            largest = MAX_POSITION * 4 * w / mp.pi
            multiples = [int(largest * mp.mpf(float(u))) for u in 2.0 ** rng.uniform(-40, 0, 12)]
            positions += [float(n * mp.pi / (4 * w)) for n in multiples]
        case = make("", base, [Fraction(k, pairs)], 0, positions)
        near += int((np.minimum(np.abs(case.cos.hi), np.abs(case.sin.hi)) < 2.0**-9).sum())
        assert case.worst(*numpy_tables(case)) <= ERROR_BOUND, (k, base)
    assert near > 6 * pairs  # the search did find angles close to multiples of pi/2


@given(
    base=st.floats(1.0001, 1e9),
    exponent=st.fractions(0, 1, max_denominator=512),
    position=st.floats(-MAX_POSITION, MAX_POSITION) | st.integers(-MAX_POSITION, MAX_POSITION),
    offset=st.sampled_from([0.0, 1.0]) | st.floats(-MAX_POSITION, MAX_POSITION),
)
def test_any_position_is_certified(base, exponent, position, offset):
    case = make("", base, [exponent], offset, [float(position)])
    assert case.worst(*numpy_tables(case)) <= ERROR_BOUND


# -- the certificate can be failed -----------------------------------------------------------


def naive(case):
    """What everybody writes: cos(p * w) in float64."""
    frequencies = (case.turns.t1 + case.turns.t2 + case.turns.t3) * (2 * np.pi)
    angle = (case.positions[:, None] + case.offset) * frequencies
    return np.cos(angle), np.sin(angle)


def whole_turns_dropped_late(case):
    """Turns, but the product is rounded before the whole turns come off."""
    frequencies = case.turns.t1 + case.turns.t2 + case.turns.t3
    angle = (case.positions[:, None] + case.offset) * frequencies
    angle = 2 * np.pi * (angle - np.rint(angle))
    return np.cos(angle), np.sin(angle)


def without(**parts):
    """One part of the frequencies left out."""

    def broken(case):
        return cos_sin(
            case.positions, dataclasses.replace(case.turns, **parts), np, None, case.offset
        )

    return broken


def offset_rounded(case):
    return cos_sin(case.positions + case.offset, case.turns, np)


def offset_ignored(case):
    return cos_sin(case.positions, case.turns, np)


def rounded_to_float32(case):
    c, s = numpy_tables(case)
    return c.astype(np.float32), s.astype(np.float32)


@pytest.mark.parametrize(
    "wrong",
    [
        naive,
        whole_turns_dropped_late,
        rounded_to_float32,
        without(t2=0.0),
        without(t3=0.0),
        offset_rounded,
        offset_ignored,
    ],
)
def test_the_certificate_rejects(cases, wrong):
    assert max(case.worst(*wrong(case)) for case in cases) > ERROR_BOUND


def test_a_nan_is_not_certified(cases):
    c, s = numpy_tables(cases[0])
    c[3] = np.nan
    assert not cases[0].worst(c, s) <= ERROR_BOUND


# -- the other libraries ---------------------------------------------------------------------


def test_torch_is_certified(cases):
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    xp = pytest.importorskip("array_api_compat.torch", reason="array_api_compat reads the tensors")
    for case in cases:
        c, s = cos_sin(torch.tensor(case.positions), case.turns, xp, "cpu", case.offset)
        assert c.dtype is torch.float64
        assert case.worst(c.numpy(), s.numpy()) <= ERROR_BOUND, case.name


def sampled(few):
    """Parametrize ``some``: a pull request tries these cases, the nightly run all of them."""
    return pytest.mark.parametrize(
        "some",
        [
            pytest.param(few, id="sample"),
            pytest.param(slice(None), id="all", marks=pytest.mark.nightly),
        ],
    )


@sampled(slice(None, None, 2))
def test_dask_is_certified(cases, some):
    da = pytest.importorskip("dask.array", reason="Dask's arrays are what is tried")
    xp = pytest.importorskip(
        "array_api_compat.dask.array", reason="array_api_compat reads the arrays"
    )
    for case in cases[some]:
        c, s = cos_sin(da.from_array(case.positions, chunks=50), case.turns, xp, None, case.offset)
        assert isinstance(c, da.Array)
        assert case.worst(*da.compute(c, s)) <= ERROR_BOUND, case.name


@pytest.mark.parametrize("device", ["CPU_DEVICE", "device1"])
def test_array_api_strict_is_certified(cases, device):
    xp = pytest.importorskip(
        "array_api_strict", reason="array_api_strict is the library that is tried"
    )
    place, host = xp.Device(device), xp.Device("CPU_DEVICE")
    for case in cases:
        p = xp.asarray(case.positions, device=place)
        found = cos_sin(p, case.turns, xp, place, case.offset)
        c, s = (np.asarray(a.to_device(host)) for a in found)
        assert case.worst(c, s) <= ERROR_BOUND, case.name


JAX = """
import sys
import jax, jax.numpy as jnp, numpy as np
from posenc_ref.angles import Turns, cos_sin

assert jax.config.jax_enable_x64
data = np.load(sys.argv[1])
out = {}
for i in range(int(data["count"])):
    parts = [data[f"{part}_{i}"] for part in ("t1", "t2", "t3")]
    t = Turns(*parts, frequencies=2 * np.pi * parts[0], fastest=1.0)
    offset = float(data[f"offset_{i}"])
    p = jnp.asarray(data[f"positions_{i}"])
    run = lambda p: cos_sin(p, t, jnp, None, offset)
    for name, f in (("eager", run), ("jit", jax.jit(run))):
        c, s = f(p)
        assert c.dtype == jnp.float64
        out[f"{name}_cos_{i}"], out[f"{name}_sin_{i}"] = np.asarray(c), np.asarray(s)
np.savez(sys.argv[2], **out)
"""


@sampled(slice(-1, None))
def test_jax_is_certified_with_and_without_jit(cases, some, tmp_path):
    pytest.importorskip("jax", reason="JAX's arrays are what is tried")
    cases = cases[some]
    data = {"count": len(cases)}
    for i, case in enumerate(cases):
        data |= {f"{part}_{i}": getattr(case.turns, part) for part in ("t1", "t2", "t3")}
        data |= {f"positions_{i}": case.positions, f"offset_{i}": case.offset}
    np.savez(tmp_path / "in.npz", **data)
    run = subprocess.run(
        [sys.executable, "-P", "-c", JAX, tmp_path / "in.npz", tmp_path / "out.npz"],
        env={**os.environ, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    out = np.load(tmp_path / "out.npz")
    for i, case in enumerate(cases):
        for how in ("eager", "jit"):
            found = case.worst(out[f"{how}_cos_{i}"], out[f"{how}_sin_{i}"])
            assert found <= ERROR_BOUND, (how, case.name)


def test_the_bound_is_the_one_that_is_promised():
    assert ERROR_BOUND * 2**53 == 2  # as in the docstring of the module
