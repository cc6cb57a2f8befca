"""The function sees its own library's arrays in its own layout; what comes back is NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest

from posenc_ref.conformance.harness.driver import Driver, Malformed, Refused
from posenc_ref.conformance.harness.tensor_layouts import TENSOR_LAYOUTS

X = np.arange(2 * 3 * 5 * 4, dtype=np.float64).reshape(2, 3, 5, 4)  # B, H, S, D
AT = np.arange(5)
#: What stands where in the array that the function gets.
INSIDE = {
    "bhsd": ((2, 3, 5, 4), lambda b, h, s: (b, h, s)),
    "bshd": ((2, 5, 3, 4), lambda b, h, s: (b, s, h)),
    "sbhd": ((5, 2, 3, 4), lambda b, h, s: (s, b, h)),
    "thd": ((10, 3, 4), lambda b, h, s: (5 * b + s, h)),
    "t(hd)": ((10, 12), lambda b, h, s: (5 * b + s, slice(4 * h, 4 * h + 4))),
    "bs(hd)": ((2, 5, 12), lambda b, h, s: (b, s, slice(4 * h, 4 * h + 4))),
}
#: The layouts with one axis for the tokens of all rows.
FLAT = ("thd", "t(hd)")


@pytest.mark.parametrize("layout", TENSOR_LAYOUTS)
def test_every_token_lies_where_the_layout_says(layout):
    seen = []

    def spy(x, positions):
        seen.append((x, positions))
        return x + 1

    y = Driver(spy, tensor_layout=layout).apply(X, AT)
    np.testing.assert_array_equal(y, X + 1)
    x, positions = seen[0]
    shape, index = INSIDE[layout]
    assert x.shape == shape
    assert x.flags.c_contiguous
    assert x.dtype == np.float32
    assert positions.dtype == np.int64
    for b, h, s in np.ndindex(2, 3, 5):
        np.testing.assert_array_equal(x[index(b, h, s)], X[b, h, s])
    np.testing.assert_array_equal(positions, np.tile(AT, 2) if layout in FLAT else AT)


@pytest.mark.parametrize("layout", TENSOR_LAYOUTS)
def test_positions_of_each_row(layout):
    rows = np.array([[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]])
    seen = []
    Driver(lambda x, p: seen.append(p) or x, tensor_layout=layout).apply(X, rows)
    np.testing.assert_array_equal(seen[0], rows.reshape(-1) if layout in FLAT else rows)


@pytest.mark.parametrize("layout", TENSOR_LAYOUTS)
def test_another_shape_is_malformed(layout):
    with pytest.raises(Malformed, match="expected shape"):
        Driver(lambda x, p: x[:1], tensor_layout=layout).apply(X, AT)


def test_what_is_written_over_is_noted():
    def on_x(x, positions):
        x[0, 0, 0, 0] += 1
        return x.copy()

    def on_positions(x, positions):
        positions += 1
        return x

    for fn, name in ((on_x, "x"), (on_positions, "positions"), (lambda x, p: x + p.sum(), None)):
        driver = Driver(fn)
        driver.apply(X, AT)
        assert driver.mutated == name
    alone = Driver(lambda p: np.add(p, 1, out=p))
    alone.call(AT)
    assert alone.mutated == "positions"
    fractions = Driver(lambda x, p: on_positions(x, p))
    fractions.apply(X, AT.astype(np.float32))
    assert fractions.mutated == "positions"


def test_overwritten_lazy_arguments_are_seen_without_computing_them():
    pytest.importorskip("dask", reason="its arrays are lazy")

    def in_place(array):
        array[..., :1] = 0

    def nothing(array):
        return array + 1

    for wrong, argument, name in (
        (in_place, 0, "x"), (in_place, 1, "positions"), (nothing, 0, None)
    ):  # fmt: skip
        driver = Driver(lambda *args, w=wrong, i=argument: w(args[i]), backend_name="dask")
        driver.call(X, AT)
        assert driver.mutated == name


def test_nan_in_an_input_is_no_mutation():
    holed = X.copy()
    holed[0, 0, 0, 0] = np.nan
    driver = Driver(lambda x, p: x)
    driver.apply(holed, AT)
    assert driver.mutated is None


def test_the_callers_arrays_are_never_handed_out():
    x, at = X.astype(np.float32), AT.copy()

    def ruin(x, positions):
        x[...] = 0
        positions[...] = 0
        return x

    Driver(ruin).apply(x, at)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(at, AT)


def test_exceptions_are_refusals_with_their_first_line():
    def refuses(x, p):
        raise KeyError("no such\nrow")

    with pytest.raises(Refused, match=r"^KeyError: ") as caught:
        Driver(refuses).apply(X, AT)
    assert isinstance(caught.value.cause, KeyError)
    assert len(str(Refused(ValueError("long " * 500)))) == 200

    def exits(x, p):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Driver(exits).apply(X, AT)


@pytest.mark.parametrize("result", [None, "text", (1, 2), {"a": 1}, object()])
def test_what_is_no_array_is_malformed(result):
    with pytest.raises(Malformed, match="expected an array"):
        Driver(lambda: result).array(result)


@pytest.mark.parametrize("result", [1.5, 3, True, [1.0, 2.0], np.float32(2)])
def test_numbers_and_lists_are_arrays(result):
    np.testing.assert_array_equal(Driver(None).array(result), np.asarray(result))


def test_dtypes_that_come_out_are_noted():
    driver = Driver(None)
    for dtype in (np.float16, np.float32, np.int64):
        driver.array(np.ones(2, dtype))
    assert driver.out_dtypes == {"float16", "float32", "int64"}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_bfloat16(backend):
    library = "ml_dtypes" if backend == "numpy" else backend
    pytest.importorskip(library, reason=f"{library} has the bfloat16 that is tried")
    seen = []
    driver = Driver(lambda x, p: seen.append((x, p)) or x, backend, dtype="bfloat16")
    third = np.full((1, 1, 1, 2), 1 / 3)
    y = driver.apply(third, np.arange(1))
    assert "bfloat16" in str(seen[0][0].dtype)
    assert "int64" in str(seen[0][1].dtype)
    assert driver.out_dtypes == {"bfloat16"}
    assert y.dtype == np.float64
    assert y[0, 0, 0, 0] == 171 / 512 == driver.rounded(third)[0, 0, 0, 0]


def test_torch_tensors_that_need_gradients_come_back():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    driver = Driver(lambda x, p: x * torch.ones(4, requires_grad=True), "torch")
    np.testing.assert_array_equal(driver.apply(X, AT), X)
    assert driver.out_dtypes == {"float32"}


@pytest.mark.parametrize(("dtype", "sent"), [("bfloat16", np.float32), ("float64", np.float64)])
def test_fractions_are_float32_or_better(dtype, sent):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    seen = []
    at = np.array([0.5, 257.25], np.float32)
    driver = Driver(lambda x, p: seen.append(p) or x, dtype=dtype)
    driver.apply(X[:, :, :2], at)
    assert seen[0].dtype == sent
    np.testing.assert_array_equal(seen[0], at)


def test_one_argument_in_place_of_q_and_k_has_no_heads():
    driver = SimpleNamespace(tensor_layout="bshd", names=("q", "k", "positions"))
    q, k = np.ones((1, 5, 4, 8)), np.ones((1, 5, 2, 8))
    assert Driver._heads(driver, (q, k)) == (4, 2)
    assert Driver._heads(driver, (q,)) is None
