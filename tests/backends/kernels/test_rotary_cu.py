"""The CUDA kernel on the CPU: all cases, under sanitizers, and with bugs inserted.

A GPU is needed to test the code that NVRTC makes, CuPy's own calls (``cupy_device.py``), streams
and speed: ``benchmarks/gpu_rope.py`` does that.
"""

import itertools
import os
import shutil
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import ml_dtypes
import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.backends import fused, fused_cupy
from posenc_ref.conformance import check
from tests.backends.kernels import rotary_cases, rotary_checks, rotary_model
from tests.backends.kernels.rotary_model import HERE, SOURCE, Array, build
from tests.backends.test_fused import ROTARY, D, positions_of

ROOT = HERE.parents[2]


def compiler():
    """Skip the test without g++, or fail in CI, where g++ is required."""
    if shutil.which("g++") is None:
        if os.environ.get("CI"):
            pytest.fail("g++ is missing: the kernel cannot be run")
        pytest.skip("g++ is missing: the CUDA kernel is not run here")


def run_cases(paths, **environment):
    """Run all cases in a subprocess for each of the libraries at ``paths``."""
    return subprocess.run(
        [sys.executable, "-m", "tests.backends.kernels.rotary_cases", *paths],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler()
    return build(tmp_path_factory.mktemp("rotary"))


@pytest.fixture
def stand_in(library, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", sys.modules.get("cupy"))
    yield rotary_model.install(library)
    rotary_model.forget()


@pytest.mark.parametrize("name", rotary_cases.CASES)
def test_the_kernel_on_the_cpu(name, stand_in):
    rotary_cases.CASES[name]()


def test_every_variant_of_the_kernel_was_run(stand_in):
    for run in rotary_cases.CASES.values():
        run()
    kinds = {"half16": 8, "brain16": 8, "float": 4, "double": 2}
    every = {
        f"rotary<{kind}, {width}, {layout}, {table}, 4>"
        for kind, pack in kinds.items()
        for width in (1, pack)
        for layout in ("false", "true")
        for table in ("false", "true")
    }
    assert set(stand_in.launched) == every


@pytest.mark.parametrize("name", ["half-trailing", "interleaved-partial", "sections-half"])
def test_the_inverse(name, stand_in):
    """Angles computed in the kernel, from a table, and prepared; the inverse divides by m."""
    encoding = ROTARY[name]
    x = np.random.default_rng(6).standard_normal((2, 3, 7, D)).astype(np.float32)
    size = np.broadcast_to(np.linalg.norm(x, axis=-1, keepdims=True), x.shape)
    undo = fused(encoding).inverse
    for first in (100_003, 0.5):
        at = positions_of(encoding, first + np.arange(7))
        true = encoding.inverse(x.astype(np.float64), at)
        ready = undo.prepare(at, like=Array(x))
        for y in (undo(Array(x), at), ready(Array(x)), undo.qk(Array(x), Array(x), at)[1]):
            assert (
                Truth(true, size, np.zeros(())).score(y.host).max() <= rotary_checks.MOST["float32"]
            )


def test_the_model_converts_like_the_instructions(library):
    """The model rounds to 16 bits as NumPy and ml_dtypes do, ties and subnormals included."""
    import ctypes

    high = np.arange(2**16, dtype=np.uint32) << 16
    generator = np.random.default_rng(0)
    bits = [high, high | 0x8000, generator.integers(0, 2**32, 2**18, dtype=np.uint32)]
    bits += [np.arange(a, a + 8192, dtype=np.uint32)
             for a in (0x33000000, 0x38000000, 0x387FE000, 0x477FE000)]  # fmt: skip
    values = np.concatenate(bits).view(np.float32)
    half, brain = (np.empty(values.size, np.uint16) for _ in range(2))
    given = [ctypes.c_void_p(a.ctypes.data) for a in (values, half, brain)]
    ctypes.CDLL(str(library)).convert(*given, ctypes.c_longlong(values.size))
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16), values.astype(ml_dtypes.bfloat16)
    known = ~np.isnan(values)
    for got, true in zip((half, brain), expected, strict=True):
        assert np.array_equal(got[known], true.view(np.uint16)[known])
        assert np.isnan(got.view(true.dtype)[~known].astype(np.float32)).all()


def sanitized(folder, source=None):
    """Run all cases under AddressSanitizer and UndefinedBehaviorSanitizer."""
    flags = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    path = build(folder, source=source, flags=flags)
    names = ("libasan.so", "libubsan.so")
    found = [subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True,
                            check=True).stdout.strip() for name in names]  # fmt: skip
    return run_cases([str(path)], LD_PRELOAD=":".join(found), ASAN_OPTIONS="detect_leaks=0")


@pytest.mark.nightly
def test_under_sanitizers(tmp_path):
    """No case accesses memory outside an array or has undefined behaviour."""
    compiler()
    run = sanitized(tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith("\tright\n")


@pytest.mark.nightly
def test_sanitizers_detect_a_read_outside_the_table(tmp_path):
    """With this bug the values are right: NaN is written, but memory outside the table is read."""
    compiler()
    before, after = "position = known[j] ? given + g.offset : 0;", "position = given + g.offset;"
    source = SOURCE.read_text(encoding="utf-8")
    assert source.count(before) == 1
    run = sanitized(tmp_path, source.replace(before, after))
    assert run.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in run.stderr or "runtime error" in run.stderr


#: name -> (text of the source, text with the bug)
BUGS = {
    "quadrant rounded down": ("(phase + (1ULL << 61)) >> 62", "phase >> 62"),
    "sign in the upper half turn": ("s = (quarter & 2) ? negative(a) : a", "s = a"),
    "positions of 32 bits": ("const u64 p = (u64)position;", "const u64 p = (u32)position;"),
    "frequencies of 32 bits": ("p * frequency +", "p * (frequency >> 32 << 32) +"),
    "frequencies of 64 bits": ("upper_half(p, below) - (position < 0 ? below : 0)", "0"),
    "negative positions": ("- (position < 0 ? below : 0)", ""),
    "a coefficient of float32": ("0x1.466bbap-9f", "0x1.46600ap-9f"),
    "a coefficient of float64": ("0x1.466bc6775aae2p-9);", "0x1.466bc6775a000p-9);"),
    "last head": ("if (end > g.heads[0] + g.heads[1]) end = g.heads[0] + g.heads[1];",
                  "if (end > g.heads[0] + g.heads[1] - 1) end = g.heads[0] + g.heads[1] - 1;"),
    "keys by the strides of queries": ("key ? g.x_strides[1] : g.x_strides[0]", "g.x_strides[0]"),
    "last token": ("if (token >= g.batch * g.rows) return;",
                   "if (token >= g.batch * g.rows - 1) return;"),
    "second channel of a pair": ("INTERLEAVED ? 2 * j + 1 :", "INTERLEAVED ? 2 * j :"),
    "passed channels": ("if (g.gaps == 0) return;", "return;"),
    "only the first gap": ("k < g.gaps", "k < 1"),
    "only the first run": ("g.run[r++].pairs;", "g.run[r].pairs;\n    r = 0;"),
    "lower bound of positions": ("g.lowest <= given && given", "given"),
    "upper bound of positions": ("given <= g.highest", "given <= g.highest + 1"),
    "no flag": ("if (!known[j]) *g.flag = 1;", ""),
    "factor on sin only": ("c[j] = times(c[j], cos_factor);", ""),
    "sign of the rotation": ("nearest(g.sin_factor, sin_factor);",
                             "nearest(g.cos_factor, sin_factor);"),
    "positions of the first axis": ("at + g.axes[p + j] * g.place[2] : at", "at : at"),
    "positions of the first batch row": ("b * g.place[0] + s * g.place[1]", "s * g.place[1]"),
    "written before it is read": ("const A x1 = widened(in.v[i1])",
                                    "const A x1 = widened(j ? out.v[i1] : in.v[i1])"),
    "offsets of 32 bits": ("+ (b * sx[0] + h * sx[1] + s * sx[2])",
                           "+ (int)(b * sx[0] + h * sx[1] + s * sx[2])"),
    "backward strides": ("row.dy = sy[3];", "row.dy = sy[3] < 0 ? -sy[3] : sy[3];"),
}  # fmt: skip


def with_bug(folder, bug):
    before, after = BUGS[bug]
    source = SOURCE.read_text(encoding="utf-8")
    assert source.count(before) == 1, f"{bug}: {before!r} is not in the source exactly once"
    place = folder / bug.replace(" ", "-")
    place.mkdir()
    return str(build(place, source=source.replace(before, after), flags=("-O0",)))


@pytest.mark.nightly
def test_inserted_bugs_are_caught(tmp_path):
    compiler()
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda bug: with_bug(tmp_path, bug), BUGS))
    run = run_cases(paths)
    assert run.returncode == 0, run.stderr
    found = [line.split("\t") for line in run.stdout.splitlines()]
    assert [path for path, _ in found] == paths
    verdicts = dict(zip(BUGS, [verdict for _, verdict in found], strict=True))
    assert [bug for bug, verdict in verdicts.items() if verdict == "right"] == []


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("half", "float32"), ("interleaved-partial", "bfloat16"), ("sections-half", "float16")],
)
def test_the_suite_passes(name, dtype, stand_in):
    encoding = ROTARY[name]
    fast = fused(encoding)
    report = check(lambda x, p: fast(Array(x), p).host, encoding, "apply", dtype=dtype)
    assert report.passed, report
    assert stand_in.launched


def test_the_suite_passes_for_queries_and_keys(stand_in):
    encoding = ROTARY["dynamic"]
    fast = fused(encoding)

    def turned(q, k, *positions):
        return tuple(y.host for y in fast.qk(Array(q), Array(k), *positions))

    report = check(turned, encoding, "apply_qk")
    assert report.passed, report


def test_a_plan_is_made_once(stand_in):
    fast = fused(ROTARY["half"])
    fused_cupy._plan.cache_clear()
    q, k = Array(rotary_checks.random(2, 6, 1, 32)), Array(rotary_checks.random(2, 2, 1, 32))
    for position in range(50):
        fast.qk(q, k, [position])
    assert fused_cupy._plan.cache_info().misses == 1


def test_eight_threads_share_kernels_plans_and_angles(stand_in, monkeypatch):
    """One kernel and one flag are made, and the values are those of one thread."""
    fast = fused(ROTARY["dynamic"])
    q, k = rotary_cases.random(2, 6, 8, D), rotary_cases.random(2, 2, 8, D)

    def call(n, fast):
        return [y.host for y in fast.qk(Array(q), Array(k), range(40 * n, 40 * n + 8))]

    alone = [call(n, fused(ROTARY["dynamic"])) for n in range(24)]
    rotary_model.forget()
    made, start = [], Barrier(8)
    for name in ("RawModule", "zeros"):
        slow = getattr(stand_in, name)

        def make(*given, name=name, slow=slow, **options):
            made.append(name)
            time.sleep(0.01)  # so that the other threads arrive
            return slow(*given, **options)

        monkeypatch.setattr(stand_in, name, make)

    def work(first):
        start.wait()
        return {n: call(n, fast) for n in (*range(first, 24), *range(first))}

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(work, range(0, 24, 3)):
            for n, together in found.items():
                assert all(map(np.array_equal, together, alone[n]))
    assert sorted(made) == ["RawModule", "zeros"]


def test_shared_memory_is_ready_for_other_streams(stand_in):
    """The host waits for prepared tables and the flag, and for nothing else."""
    fast, x = fused(ROTARY["half"]), Array(rotary_cases.random(2, 3, D))
    waits = stand_in.stream.waits
    fast(x, range(3))
    assert stand_in.stream.waits == waits + 1  # the flag
    ready = fast.prepare(range(9), like=x)
    assert stand_in.stream.waits == waits + 2
    ready(x, 3)
    fast(x, [1, 7, 4])
    assert stand_in.stream.waits == waits + 2


def test_work_goes_to_the_device_of_x(stand_in, monkeypatch):
    """The current device does not matter."""
    entered = []
    monkeypatch.setattr(stand_in.cuda.runtime, "getDevice", lambda: 1)
    monkeypatch.setattr(rotary_model.Device, "__enter__", lambda self: entered.append(self.id))
    fused(ROTARY["half"])(Array(rotary_cases.random(2, 3, D)), range(3))
    assert len(entered) >= 3  # angles, the result, the launch
    assert set(entered) == {0}


def test_the_number_of_kept_angles_is_bounded(stand_in):
    fast, x = fused(ROTARY["half"]), Array(rotary_cases.random(2, 3, D))
    for first in range(100):
        fast(x, [first, 7, 9])
    assert len(fast._tables.cupy.kept) <= 64


def test_kept_angles_depend_on_everything_they_need(stand_in):
    """The same positions again, in calls with other dtypes, lengths, axes or encodings."""
    half, rows = ROTARY["half"], np.arange(10).reshape(2, 5)
    fast = fused(half)
    for dtype in ("float32", "float64", "float16", "float32"):
        x = rotary_cases.random(2, 3, 5, D, dtype=dtype)
        for at in (np.arange(5) + 0.5, range(5)):
            assert rotary_cases.exact(half, x, at, fast(Array(x), at).host)
        for one, at in ((x[:, 0], rows), (x, rows), (x.reshape(1, 3, 10, D), rows.ravel())):
            assert rotary_cases.exact(half, one, at, fast(Array(one), at).host)
    moved = pr.MultiAxisRoPE(D, sections=(8, 8), layout="half", offset=0.5)
    between = fused(moved)
    for dtype in ("float32", "float64", "float32"):
        x = rotary_cases.random(2, 3, 5, D, dtype=dtype)
        assert rotary_cases.exact(moved, x, range(5), between(Array(x), range(5)).host)
    dynamic = fused(ROTARY["dynamic"])
    for n, at in itertools.product((700, 90, 700), (range(5), [4, 0, 7, 1, 1], [0.5, 1, 2, 3, 4])):
        got = dynamic(Array(x), at, seq_len=n).host
        assert rotary_cases.exact(ROTARY["dynamic"], x, at, got, n)
    sections = fused(ROTARY["sections-half"])
    for at in (rows[0], np.stack([rows[0], rows[1], rows[0]]), rows[0]):
        got = sections(Array(x), at).host
        assert rotary_cases.exact(ROTARY["sections-half"], x, at, got)
    with pytest.raises(ValueError, match="positions must have shape"):
        fast(Array(x[:, :, :4]), range(5))


def test_angles_are_made_for_each_stream(stand_in, monkeypatch):
    """Memory of a pool may be reused safely on one stream only."""
    fast, x = fused(ROTARY["half"]), Array(rotary_cases.random(2, 3, D))
    first = [fast(x, at).host for at in ([1, 7, 4], range(3))]
    kept, other = len(fast._tables.cupy.kept), rotary_model.Stream()
    other.ptr = 8
    monkeypatch.setattr(stand_in.cuda, "get_current_stream", lambda: other)
    again = [fast(x, at).host for at in ([1, 7, 4], range(3))]
    assert len(fast._tables.cupy.kept) == 2 * kept
    assert all(map(np.array_equal, first, again))


def test_queries_and_keys_of_different_dtype_or_shape(stand_in):
    fast = fused(ROTARY["half"])
    q = rotary_cases.random(2, 6, 4, D)
    for k in (rotary_cases.random(2, 2, 4, D, dtype="float16"), rotary_cases.random(2, 4, D)):
        for x, got in zip((q, k), fast.qk(Array(q), Array(k), range(4)), strict=True):
            assert rotary_cases.exact(ROTARY["half"], x, range(4), got.host)
    for k, at in ((rotary_cases.random(2, 2, 9, D), range(4)),
                  (rotary_cases.random(3, 2, 4, D), np.zeros((2, 4), int))):  # fmt: skip
        with pytest.raises(ValueError, match="positions must have shape"):
            fast.qk(Array(q), Array(k), at)
    with pytest.raises(ValueError, match="out must be on x's device a, got one on b"):
        fused_cupy.checked_out(*[types.SimpleNamespace(device=name) for name in "ba"])


def test_the_domain_of_fast_frequencies(stand_in):
    encoding = pr.RoPE(4, layout="half", scaling=pr.GivenFrequencies((1e6, 1.0)))
    limit, x = int(2**40 / 1e6), rotary_cases.random(4, 4)
    at = np.array([limit, -limit, limit + 1, -limit - 1])
    y = fused(encoding)(Array(x), Array(at)).host
    assert np.isnan(y).all(axis=-1).tolist() == [False, False, True, True]
    assert rotary_cases.exact(encoding, x[:2], at[:2], y[:2])
    with pytest.raises(ValueError, match="positions must be finite and at most"):
        fused(encoding)(Array(x), Array(np.array([0, 1, 2, 2**64 - 1], np.uint64)))
