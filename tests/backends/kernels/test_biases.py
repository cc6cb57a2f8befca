"""Biases written in full, in every way, against the specification."""

import ml_dtypes
import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import fused, toeplitz, toeplitz_view
from posenc_ref.backends.kernels import threads

RNG = np.random.default_rng(6)
DTYPES = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}
BIASES = {
    "ALiBi": pr.ALiBi(6),
    "T5": pr.T5Bias(RNG.standard_normal((32, 3))),
}
#: h x w windows that are no squares, so that height and width cannot be exchanged.
WINDOWS = {
    "Swin": pr.SwinBias(RNG.standard_normal((5 * 7, 3)), window=(3, 4)),
    "Swin-row": pr.SwinBias(RNG.standard_normal((7, 3)), window=(1, 4)),
    "Swin-column": pr.SwinBias(RNG.standard_normal((7, 3)), window=(4, 1)),
    "LeViT": pr.LeViTBias(RNG.standard_normal((12, 3)), window=(4, 3)),
    "Swin-v2": pr.LogCPB(
        RNG.standard_normal((8, 2)), RNG.standard_normal(8), RNG.standard_normal((3, 8)),
        window=(3, 4),
    ),
    "ConViT": pr.ConViTBias(
        RNG.standard_normal((3, 3)), RNG.standard_normal(3), RNG.standard_normal(3), window=(3, 4)
    ),
    "CrossFormer": pr.DynamicWindowBias(
        (RNG.standard_normal((5, 2)), RNG.standard_normal((3, 5))),
        (RNG.standard_normal(5), RNG.standard_normal(3)),
        window=(3, 4),
    ),
}  # fmt: skip


@pytest.fixture(params=[False, True], ids=["small", "large"])
def large(request, monkeypatch):
    """Whether NumPy writes small matrices as it writes large ones."""
    if request.param:
        monkeypatch.setattr(toeplitz, "_LARGE", 1)
        monkeypatch.setattr(toeplitz, "_LONG", 1)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BIASES)
def test_biases_written_in_full(name, dtype, by):
    fast, kind = fused(BIASES[name]), DTYPES[dtype]
    for q, k in ((1, 1), (1, 9), (9, 1), (7, 7), (3, 300), (300, 3)):
        view = fast(q, k, dtype=kind)
        out = np.full(view.shape, 7, kind)
        loop = by if dtype in ("float64", "float32") and out.size > 2 else "numpy"
        path = fast(q, k, out=out, explain=True)[1]
        assert path.split(",")[0] == f"{loop}: {view[:, 0, 0].size * (q + k - 1)} numbers"
        assert np.array_equal(out, view)
        assert k == 1 or view.strides[-1] == view.itemsize  # so that copies read memory in order
        apart = np.full((*view.shape[:2], 2 * k), 7, kind)
        assert fast(q, k, out=apart[..., :k], explain=True)[1].startswith("numpy" if q > 1 else "")
        assert np.array_equal(apart[..., :k], view)
        assert (apart[..., k:] == 7).all()


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WINDOWS)
def test_window_biases_written_in_full(name, dtype, by, monkeypatch):
    monkeypatch.setattr(threads, "_LEAST", 1)
    encoding, kind = WINDOWS[name], DTYPES[dtype]
    w, n = encoding.window[1], encoding.tokens
    for q, k in ((n, n), (w, n), (n - w, n), (w, w), (n - w, n - w)):
        if not q:
            continue
        truth = encoding.truth(range(k - q, k), range(k))
        whole = encoding.bias(range(k - q, k), range(k)).astype(kind)
        for several in (1, 2, 5):
            fast, out = fused(encoding, threads=several), np.full(whole.shape, 7, kind)
            fresh = fast(q, k, dtype=kind)
            path = fast(q, k, out=out, explain=True)[1]
            loop = by if dtype in ("float64", "float32") and out.size > 2 else "numpy"
            count = 3 * (q // w + k // w - 1) * (2 * w - 1)
            assert path == f"{loop}: {count} numbers, copied into the full matrix"
            assert fresh.flags.writeable == (w > 1)  # else it is a view, as of other biases
            assert np.array_equal(fresh, out)
            assert truth.score(out, dtype=dtype).max() <= 1
            if name not in ("Swin-v2", "CrossFormer"):  # their sums may have another order
                assert np.array_equal(out, whole)
            reverse = np.full(whole.shape, 7, kind)[:, ::-1, ::-1]
            assert np.array_equal(fast(q, k, out=reverse), out)


def test_parts_of_a_row_of_a_window_are_made_by_the_specification():
    encoding = WINDOWS["Swin"]
    for q, k in ((3, 12), (12, 7), (5, 5), (1, 12)):
        if q > k:
            with pytest.raises(ValueError, match="q_positions must be tokens of the window"):
                fused(encoding)(q, k)
            continue
        whole, path = fused(encoding)(q, k, explain=True)
        assert path == "no fast path: the bias depends on more than key - query"
        assert np.array_equal(whole, encoding.bias(range(k - q, k), range(k)))
    for q, k in ((16, 16), (4, 16), (16, 12)):
        with pytest.raises(ValueError, match=r"must be tokens of the window, 0 \.\. 11"):
            fused(encoding)(q, k)


def test_a_class_token_has_no_offset(rng):
    encoding = pr.BEiTBias(rng.standard_normal((9 + 3, 2)), window=(2, 2))
    for n in (4, 5):  # 4 tokens are two rows of the window in number only
        whole, path = fused(encoding)(n, n, explain=True)
        assert path == "no fast path: the bias depends on more than key - query"
        assert np.array_equal(whole, encoding.bias(range(n), range(n)))


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("dtype", ["int64", "int8", "bool", "float32", ">f4", "complex128", "g"])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_numbers_by_offset_written_in_full(lead, dtype, by, rng, monkeypatch):
    monkeypatch.setattr(threads, "_LEAST", 1)
    for q, k in ((1, 1), (5, 9), (9, 5)):
        row = rng.integers(-100, 100, (*lead, q + k - 1)).astype(dtype)
        view = toeplitz_view(row, q, k)
        for n in (1, 2, 7):
            out = np.zeros((*lead, q, k), dtype)
            assert toeplitz_view(row, q, k, out=out, threads=n) is out
            assert np.array_equal(out, view)
            assert np.array_equal(out[..., 0, :], row[..., q - 1 :])
        apart = np.zeros((*lead, 2 * q, k), dtype)[..., ::-2, :]
        assert np.array_equal(toeplitz_view(row[..., ::-1], q, k, out=apart), view[..., ::-1, ::-1])


def test_arrays_that_numbers_by_offset_cannot_be_written_into():
    row = np.arange(18.0)[:8]
    for out, error, message in (
        (np.empty((3, 5)), ValueError, r"the view's shape \(3, 6\)"),
        (np.empty((3, 6), np.float32), ValueError, "dtype float64, got .* and float32"),
        ([[0.0] * 6] * 3, TypeError, "out must be an array like the view, got list"),
        (np.broadcast_to(row[:6], (3, 6)), ValueError, "out must be writeable"),
        (row.base.reshape(3, 6), ValueError, "out must not overlap row"),
    ):
        with pytest.raises(error, match=message):
            toeplitz_view(row, 3, 6, out=out)
    with pytest.raises(ValueError, match="threads must be at least 1"):
        toeplitz_view(row, 3, 6, out=np.empty((3, 6)), threads=0)


def test_buckets_written_in_full():
    some = np.zeros((1, 16, 2))
    encoding = pr.DeBERTa(some, some, buckets=8, max_position=20)
    row, out = encoding.bucket(np.arange(29, -30, -1)), np.empty((30, 30), np.int64)
    i, j = np.indices(out.shape)
    assert np.array_equal(toeplitz_view(row, 30, 30, out=out), encoding.bucket(i - j))
