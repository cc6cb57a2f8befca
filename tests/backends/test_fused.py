"""Fused paths of NumPy pass the conformance suite, and give equal bits for all memory layouts."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import budget
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import numpy_rotary, phasors
from posenc_ref.backends.kernels.tensor_layouts import TENSOR_LAYOUTS
from posenc_ref.conformance import check
from tests.night import by_day

RNG = np.random.default_rng(11)
D = 32
YARN = pr.YaRN(8.0, 512)
ROTARY = {
    "interleaved": pr.RoPE(D, layout="interleaved"),
    "half": pr.RoPE(D, layout="half"),
    "interleaved-partial": pr.RoPE(D, layout="interleaved", rotary_dim=12, scaling=YARN),
    "half-partial-backwards": pr.RoPE(D, layout="half", rotary_dim=20, sign=-1),
    "half-trailing": pr.RoPE(D, layout="half", rotary_dim=16, rotary_start=16, scaling=YARN),
    "dynamic": pr.RoPE(D, layout="half", scaling=pr.DynamicNTK(2.0, 64)),
    "sections-half": pr.MultiAxisRoPE(D, sections=(4, 6, 6), layout="half"),
    "sections-interleaved": pr.MultiAxisRoPE(
        D, sections=(8, 4, 4), layout="interleaved", arrangement="interleaved"
    ),
    "blockwise": pr.MultiAxisRoPE(D, sections=(8, 8), layout="blockwise"),
    "other-output": pr.RoPE(D, layout="half", output_layout="interleaved"),
}
FUSED = [name for name in ROTARY if name != "other-output"]
DTYPES = {"float64": np.float64, "float32": np.float32, "float16": np.float16}
DTYPES["bfloat16"] = ml_dtypes.bfloat16
SINUSOID = fused(pr.Sinusoidal(16))


def positions_of(encoding, positions):
    positions = np.asarray(positions)
    if encoding.num_axes == 1:
        return positions
    return np.stack([positions + 3 * axis for axis in range(encoding.num_axes)])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float32") for name in ROTARY]
    + [(name, dtype) for name in ("half", "interleaved-partial", "dynamic")
       for dtype in ("float64", "float16", "bfloat16")],
)  # fmt: skip
def test_the_suite_passes(name, dtype):
    encoding = ROTARY[name]
    fast = fused(encoding)
    report = check(lambda x, p: fast(x, p), encoding, "apply", dtype=dtype)
    assert report.passed, report


class Subclass(np.ndarray):
    """An array whose operators might do anything."""


@pytest.mark.parametrize("name", FUSED)
def test_explain_names_a_fused_path(name):
    encoding = ROTARY[name]
    x = np.ones((2, 5, D), np.float32)
    path = fused(encoding)(x, positions_of(encoding, range(5)), explain=True)[1]
    assert path.startswith("numpy: "), path
    assert ("side by side" in path) == ("interleaved" in name)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: (ROTARY["other-output"], np.ones((5, D))), "do not lie in a few slices"),
        (lambda: (pr.RoPE(D, layout="half"), np.ones((5, 2 * D))[:, ::2]), "not contiguous"),
        (lambda: (pr.RoPE(D, layout="half"), np.ones((5, D), ">f4")), "native"),
        (
            lambda: (pr.RoPE(D, layout="half"), np.ones((5, D)).view(Subclass)),
            "np.ndarray subclass",
        ),
        (lambda: (pr.MixedRoPE(4, np.ones((2, 2)), layout="half"), np.ones((5, 4))), "slices"),
    ],
)
def test_arrays_without_a_fused_path_run_the_specification(make, reason):
    encoding, x = make()
    at = positions_of(encoding, range(5))
    result, path = fused(encoding)(x, at, explain=True)
    assert path.startswith("no fast path: ")
    assert reason in path
    assert np.array_equal(result, encoding.apply(x, at))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUSED)
def test_tiles_give_the_same_bits(name, dtype, monkeypatch, rng):
    """Tiles of every size, in place, and with strides."""
    encoding = ROTARY[name]
    x = rng.standard_normal((2, 3, 61, D)).astype(DTYPES[dtype])
    at = positions_of(encoding, rng.integers(0, 9000, (2, 61)))
    fast = fused(encoding)
    whole = fast(x, at)
    for tile in (1, 4 * D, 7 * 8 * D, 2**20):
        monkeypatch.setattr(numpy_rotary, "_SMALL", 0)
        monkeypatch.setattr(numpy_rotary, "second_level", lambda tile=tile: 8 * tile)
        assert np.array_equal(fast(x, at), whole)
        placed = x.copy()
        assert fast(placed, at, out=placed) is placed
        assert np.array_equal(placed, whole)
        strided = np.zeros((3, 2, 2 * 61, D + 4), x.dtype).transpose(1, 0, 2, 3)[..., ::2, 2:-2]
        strided[...] = x
        assert np.array_equal(fast(strided, at), whole)
        heads_inside = x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3)
        assert np.array_equal(fast(heads_inside, at), whole)
        assert np.array_equal(fast(heads_inside, at, out=heads_inside), whole)
        goal = np.full_like(x, 7)
        assert np.array_equal(fast(x, at, out=goal), whole)


def test_an_out_that_overlaps_x_gets_the_right_values(rng):
    encoding = ROTARY["half"]
    buffer = rng.standard_normal((6, D)).astype(np.float32)
    expected = fused(encoding)(buffer[:-1].copy(), range(5))
    fused(encoding)(buffer[:-1], range(5), out=buffer[1:])
    assert np.array_equal(buffer[1:], expected)


@pytest.mark.parametrize("layout", TENSOR_LAYOUTS)
@pytest.mark.parametrize("name", by_day(["half", "interleaved-partial", "other-output"], {"half"}))
def test_tensor_layouts(name, layout):
    encoding = ROTARY[name]
    fast = fused(encoding, tensor_layout=layout)
    report = check(lambda x, p: fast(x, p), encoding, "apply", tensor_layout=layout)
    assert report.passed, report

    def in_place(x, p):
        return fast(x, p, out=x)

    report = check(in_place, encoding, "apply", tensor_layout=layout, inplace=True)
    assert report.passed, report


@pytest.mark.day
def test_queries_and_keys_in_one_call(rng):
    for encoding in (ROTARY["half"], ROTARY["dynamic"]):
        q = rng.standard_normal((1, 4, 3, D)).astype(np.float32)
        k = rng.standard_normal((1, 2, 90, D)).astype(np.float32)
        fast = fused(encoding)
        report = check(lambda *a, fast=fast: fast.qk(*a), encoding, "apply_qk")
        assert report.passed, report
        placed = q.copy(), k.copy()
        got = fast.qk(*placed, range(87, 90), range(90), out=placed)
        assert got[0] is placed[0]
        for one, other in zip(got, fast.qk(q, k, range(87, 90), range(90)), strict=True):
            assert np.array_equal(one, other)
        both, path = fast.qk(q, k, range(87, 90), range(90), explain=True)
        assert path == "numpy: halves, float32"
        assert np.array_equal(both[0], got[0])
        assert np.array_equal(both[1], got[1])
        path = fast.qk(q, k[..., ::-1], range(87, 90), range(90), explain=True)[1]
        assert path.startswith("for q, numpy: halves, float32; for k, no fast path: the last")


def test_prepared_tables_serve_every_window(rng):
    for name, dtype in itertools.product(FUSED, DTYPES):
        encoding = ROTARY[name]
        ready = fused(encoding).prepare(
            positions_of(encoding, range(100, 200)), like=np.zeros(1, DTYPES[dtype]), seq_len=200
        )
        x = rng.standard_normal((2, 3, 7, D)).astype(DTYPES[dtype])
        at = positions_of(encoding, range(150, 157))
        assert np.array_equal(ready(x, 50), fused(encoding)(x, at, seq_len=200))
    ready = fused(ROTARY["half"], tensor_layout="bshd").prepare(range(9), like=X)
    x = rng.standard_normal((2, 9, 3, D)).astype(np.float32)
    assert np.array_equal(
        ready(x).swapaxes(1, 2), fused(ROTARY["half"])(x.swapaxes(1, 2), range(9))
    )


def test_eight_threads_share_one_encoding(rng):
    fast = fused(ROTARY["half"])
    x = rng.standard_normal((4, 64, D)).astype(np.float32)
    alone = [fused(ROTARY["half"])(x, range(n, n + 64)) for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            together = list(pool.map(lambda n: fast(x, range(n, n + 64)), range(24)))
            assert all(map(np.array_equal, together, alone))


BIASES = [
    pr.ALiBi(6),
    pr.ALiBi(8, causal=False, max_bias=4.0),
    pr.T5Bias(RNG.standard_normal((32, 3)).astype(np.float32)),
    pr.T5Bias(RNG.standard_normal((32, 3)), bidirectional=False),
]


@pytest.mark.parametrize("encoding", BIASES, ids=[str(n) for n in range(4)])
def test_biases(encoding):
    fast = fused(encoding)
    for q, k in ((1, 1), (1, 9), (9, 1), (7, 7), (3, 300), (300, 3)):
        whole = encoding.bias(range(k - q, k), range(k))
        view, path = fast(q, k, explain=True)
        assert np.array_equal(view, whole)
        assert not view.flags.writeable
        assert f"a view of {len(whole) * (q + k - 1)} numbers" in path
        out = np.full(whole.shape, 7, np.float32)
        assert fast(q, k, out=out) is out
        assert np.array_equal(out, whole.astype(np.float32))
    report = check(lambda q, k: fast(q, k, dtype=np.float32), encoding, "bias")
    assert report.passed, report


def test_the_specification_makes_a_bias_that_depends_on_more_than_the_distance(rng):
    square = pr.BEiTBias(rng.standard_normal((12, 2)), window=(2, 2))
    whole, path = fused(square)(5, 5, explain=True)
    assert path == "no fast path: the bias depends on more than key - query"
    assert np.array_equal(whole, square.bias(range(5), range(5)))
    out = np.zeros(whole.shape, np.float32)
    assert fused(square)(5, 5, out=out) is out
    assert np.array_equal(out, whole.astype(np.float32))


def test_learned_arrays_of_torch_keep_their_gradients(rng):
    """A view would be an array of NumPy, through which no gradient passes."""
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    table = torch.from_numpy(rng.standard_normal((32, 3))).requires_grad_()
    window = torch.from_numpy(rng.standard_normal((9, 3))).requires_grad_()
    for encoding, learned, q, k in (
        (pr.T5Bias(table), table, 5, 9),
        (pr.SwinBias(window, window=(2, 2)), window, 4, 4),
    ):  # fmt: skip
        made, path = fused(encoding)(q, k, dtype=torch.float32, explain=True)
        assert path == "no fast path: the learned arrays are arrays of torch"
        assert made.dtype == torch.float32
        whole = encoding.bias(range(k - q, k), range(k))
        assert torch.equal(made, whole.float())
        (found,) = torch.autograd.grad(made.square().sum(), learned)
        (expected,) = torch.autograd.grad(whole.float().square().sum(), learned)
        assert torch.equal(found, expected)
    assert isinstance(fused(pr.T5Bias(table))(0, 9), torch.Tensor)
    with pytest.raises(TypeError, match="out cannot be given where the learned arrays"):
        fused(pr.T5Bias(table))(2, 2, out=np.zeros((3, 2, 2)))


def test_learned_arrays_of_jax_are_traced(rng):
    jax = pytest.importorskip("jax", reason="JAX's arrays are what is tried")
    table = jax.numpy.asarray(rng.standard_normal((32, 3)), "float32")

    def total(table):
        return fused(pr.T5Bias(table))(5, 9).sum()

    counts = jax.jit(jax.grad(total))(table)
    assert float(counts.sum()) == 3 * 5 * 9


X = np.ones((2, 5, D), np.float32)


def ready(n):
    return fused(ROTARY["half"]).prepare(range(n), like=X)


READ_ONLY = np.broadcast_to(np.float32(0), X.shape)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fused(pr.Learned(np.ones((3, 4)))), TypeError, "Learned; call its own .*table"),
        (lambda: fused("RoPE"), TypeError, "got str; if the string is the name of a preset, pass"),
        (lambda: fused(pr.ALiBi(2).to_dict()), TypeError, "got dict; .*from_dict"),
        (lambda: fused(pr.ALiBi), TypeError, r"pass an instance of the class: ALiBi\("),
        (lambda: fused(pr.preset("gemma-3-4b")), TypeError, "'sliding_attention'"),
        (lambda: fused(pr.XPos(D, layout="half")), TypeError, "apply_queries and apply_keys"),
        (lambda: fused(ROTARY["half"], tensor_layout="hbsd"), ValueError, "'bhsd'"),
        (lambda: fused(pr.ALiBi(2), tensor_layout="bshd"), ValueError, "for rotary encodings"),
        (lambda: fused(ROTARY["half"])(X[..., :6], range(5)), ValueError, "head_dim"),
        (lambda: fused(ROTARY["half"])(X, range(4)), ValueError, "positions must have shape"),
        (lambda: fused(ROTARY["half"])(X.astype(int), range(5)), TypeError, "x must have"),
        (lambda: fused(ROTARY["half"])(X, [0.0, 1, 2, 3, np.inf]), ValueError, "finite"),
        (lambda: fused(ROTARY["half"])(X, range(5), out=X[:1]), ValueError, "out must have"),
        (lambda: fused(ROTARY["half"])(X, range(5), out=READ_ONLY), ValueError, "writeable"),
        (lambda: fused(ROTARY["half"])(X, range(5), out=[1]), TypeError, "out must be an array"),
        (lambda: fused(ROTARY["half"], tensor_layout="bshd")(X, range(5)), ValueError, "4 axes"),
        (lambda: fused(ROTARY["half"], tensor_layout="bs(hd)")(X[..., :9], range(5)), ValueError,
         "multiple of head_dim"),
        (lambda: fused(ROTARY["other-output"]).prepare(range(5), like=X), ValueError,
         "like must be"),
        (lambda: fused(ROTARY["half"]).prepare(np.ones((2, 5)), like=X), ValueError, "one row"),
        (lambda: fused(ROTARY["half"]).prepare(range(5), like=np.float32), TypeError,
         "like must be an array such as x, got type"),
        (lambda: ready(5)(X, 1), ValueError, r"start \+ S at most 5, .*S = 5"),
        (lambda: ready(9)(X, -1), ValueError, "start must be at least 0"),
        (lambda: ready(5)(X[0, 0]), ValueError, "x must have shape"),
        (lambda: ready(5)(X.astype(float)), TypeError, "float32"),
        (lambda: SINUSOID(range(5), out=np.ones((5, 3))), ValueError, "out must have"),
        (lambda: SINUSOID(range(5), dtype=int), TypeError, "dtype must be one of"),
        (lambda: SINUSOID(range(5), dtype="bf16"), TypeError, "import ml_dtypes.*got 'bf16'"),
        (lambda: fused(BIASES[0])(2, 5, dtype=pr), TypeError, "dtype must be one of NumPy's"),
        (lambda: SINUSOID(range(5), dtype=int, out=np.ones((5, 16))), TypeError, "dtype must be"),
        (lambda: fused(BIASES[0])(-1, 5), ValueError, "q_len must be at least 0"),
        (lambda: fused(BIASES[0])(2, 5, out=np.ones(3)), ValueError, "out must have shape"),
    ],
)  # fmt: skip
def test_refused_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_error_of_tables_is_below_the_tolerance_of_outputs():
    assert budget("float64") > phasors.ERROR_BOUND * 2.0**53


def test_kept_tables_depend_on_the_length_and_the_axes_of_x():
    """The same positions again, in calls that need other tables."""
    rows = np.arange(10).reshape(2, 5)
    flat = np.linspace(-1, 1, 2 * 5 * D, dtype=np.float32).reshape(2, 5, D)
    tall = np.stack([flat, 2 * flat, flat], axis=1)
    fast, encoding = fused(pr.RoPE(D, layout="half")), pr.RoPE(D, layout="half")
    for x in (tall, flat, tall):
        one = np.stack(
            [fast(np.ascontiguousarray(row), at) for row, at in zip(x, rows, strict=True)]
        )
        assert np.array_equal(fast(x, rows), one)
        assert fast(x, rows).shape == encoding.apply(x, rows).shape
    line = flat.reshape(1, 10, D)
    assert np.array_equal(fast(line, rows.ravel()), fast(flat, rows).reshape(line.shape))
    dynamic = fused(pr.RoPE(D, layout="half", scaling=pr.DynamicNTK(2.0, 8)))
    short, long = (dynamic(flat, rows, seq_len=n) for n in (10, 4000))
    assert not np.array_equal(short, long)
    assert np.array_equal(short, dynamic(flat, rows, seq_len=10))
