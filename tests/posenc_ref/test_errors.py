"""Errors teach: each names the argument, what came and what is allowed.  Inputs are not changed."""

import numpy as np
import pytest

from posenc_ref import (
    ALiBi,
    Learned,
    LinearScaling,
    RoPE,
    Sinusoidal,
    T5Bias,
    convert_layout,
    layout_permutation,
    permute_fused_weights,
    permute_weights,
    scores,
)

W = np.random.default_rng(0).standard_normal((32, 4))
X = np.random.default_rng(1).standard_normal((2, 3, 5, 8)).astype(np.float32)
ROPE = RoPE(8, layout="half")

CONSTRUCTION = [
    # RoPE
    (lambda: RoPE(8), TypeError, "needs the argument 'layout': .* one of 'interleaved', 'half'"),
    (lambda: RoPE(8, "half"), TypeError, "needs the argument 'layout': layout must be one of"),
    (lambda: RoPE(), TypeError, "needs the argument 'head_dim': head_dim must be an integer"),
    (lambda: ALiBi(), TypeError, "'num_heads': num_heads must be an integer"),
    (lambda: Learned(), TypeError, r"'weight': weight must be a .* array of shape \(rows, dim\)"),
    (lambda: RoPE(8, layout="half", theta=1.0), TypeError, "unexpected keyword argument 'theta'"),
    (lambda: RoPE(8, layout="neox"), ValueError, "use 'half', which some libraries call"),
    (lambda: RoPE(8, layout="GPT-J"), ValueError, "use 'interleaved', which some libraries call"),
    (lambda: RoPE(8, layout="interleave"), ValueError, "did you mean 'interleaved'?"),
    (lambda: RoPE(8, layout=1), ValueError, "layout must be one of 'interleaved', 'half', got 1"),
    (lambda: RoPE(7, layout="half"), ValueError, r"head_dim must be even .*in pairs.*, got 7"),
    (lambda: RoPE(8, layout="half", rotary_dim=5), ValueError, "rotary_dim must be even"),
    (lambda: RoPE(8, layout="half", rotary_dim=10), ValueError, "at most head_dim = 8, got 10"),
    (lambda: RoPE(8, layout="half", rotary_dim=0), ValueError, "rotary_dim must be at least 2"),
    (lambda: RoPE(8, layout="half", rotary_dim=0.5), TypeError, "rotary_dim must be an integer"),
    (lambda: RoPE(8.0, layout="half"), TypeError, "head_dim must be an integer, got 8.0"),
    (lambda: RoPE(True, layout="half"), TypeError, "head_dim must be an integer, got True"),
    (lambda: RoPE(8, layout="half", base=-1e4), ValueError, "base must be greater than 1"),
    (lambda: RoPE(8, layout="half", base=1), ValueError, "base must be greater than 1, got 1"),
    (lambda: RoPE(8, layout="half", base="1e4"), TypeError, "base must be a real number"),
    (lambda: RoPE(8, layout="half", base=np.inf), ValueError, "base must be finite, got inf"),
    (lambda: RoPE(8, layout="half", sign=0), ValueError, "sign must be one of 1, -1, got 0"),
    (lambda: RoPE(8, layout="half", sign=True), ValueError, "sign must be one of 1, -1"),
    (lambda: RoPE(8, layout="half", scaling=4.0), TypeError, r"such as LinearScaling\(4.0\)"),
    (lambda: LinearScaling(0.5), ValueError, "factor must be at least 1, got 0.5"),
    (lambda: LinearScaling(np.nan), ValueError, "factor must be finite, got nan"),
    # Sinusoidal
    (lambda: Sinusoidal(7), ValueError, "dim must be even unless odd='extra-sin' or 'zero-pad'"),
    (lambda: Sinusoidal(0), ValueError, "dim must be at least 2, got 0"),
    (lambda: Sinusoidal(1, odd="zero-pad"), ValueError, "dim must be at least 2, got 1"),
    (lambda: Sinusoidal(8, layout="half"), ValueError, "use 'concat', which some libraries call"),
    (lambda: Sinusoidal(8, first="sine"), ValueError, "did you mean 'sin'?"),
    (lambda: Sinusoidal(8, denominator="d"), ValueError, "use 'dim', which some libraries call"),
    (lambda: Sinusoidal(8, denominator=0), ValueError, "denominator must be greater than 0"),
    (lambda: Sinusoidal(2, denominator="half-1"), ValueError, "needs dim >= 4, got dim 2"),
    (lambda: Sinusoidal(8, odd="zeropad"), ValueError, "did you mean 'zero-pad'"),
    (lambda: Sinusoidal(7, odd="extra-sin", first="cos"), ValueError, "first must be 'sin'"),
    (lambda: Sinusoidal(8, position_scale=0), ValueError, "position_scale must be greater than 0"),
    (lambda: Sinusoidal(8, offset=2.0**41), ValueError, "offset and offset . position_scale"),
    (lambda: Sinusoidal(8, offset=None), TypeError, "offset must be a real number, got None"),
    (lambda: Sinusoidal(8, base=0.5), ValueError, "base must be greater than 1, got 0.5"),
    (
        lambda: Sinusoidal(7, odd="extra-sin").shift_matrix(1),
        ValueError,
        "needs a cosine for every sine",
    ),
    # Learned
    (lambda: Learned([[1.0]]), TypeError, r"weight must be a real floating array .* got list"),
    (lambda: Learned(np.ones((3, 2), int)), TypeError, "real floating array.*got int64"),
    (lambda: Learned(np.ones(3)), ValueError, r"weight must have shape \(rows, dim\).*got \(3,\)"),
    (lambda: Learned(np.ones((0, 3))), ValueError, r"not empty, got \(0, 3\)"),
    (lambda: Learned(W, offset=1.5), TypeError, "offset must be an integer, got 1.5"),
    (lambda: Learned(W, padding_idx=32), ValueError, "a row of weight, below 32, got 32"),
    (lambda: Learned(W).ids_from_tokens(np.ones((1, 2), int)), ValueError, "padding_idx must be"),
    (lambda: Learned(W, padding_idx=1).ids_from_tokens([1]), TypeError, "an integer array"),
    # ALiBi
    (lambda: ALiBi(0), ValueError, "num_heads must be at least 1, got 0"),
    (lambda: ALiBi(8, causal=1), TypeError, "causal must be True or False, got 1"),
    (lambda: ALiBi(8, max_bias=0), ValueError, "max_bias must be greater than 0"),
    # T5Bias
    (
        lambda: T5Bias(np.ones((16, 4))),
        ValueError,
        r"with num_buckets = 32, got \(16, 4\)",
    ),
    (lambda: T5Bias(np.ones(32)), ValueError, r"table must have shape \(num_buckets, num_heads\)"),
    (lambda: T5Bias(np.ones((32, 2), int)), TypeError, "table must be a real floating array"),
    (lambda: T5Bias(np.ones((5, 2)), num_buckets=5), ValueError, "must be even when bidir"),
    (lambda: T5Bias(np.ones((2, 2)), num_buckets=2), ValueError, "num_buckets must be at least 4"),
    (lambda: T5Bias(W, max_distance=8), ValueError, r"at least 9 \(more than the 8 distances"),
    (lambda: T5Bias(W).bucket(0.5), TypeError, "relative_position must be integers, got dtype flo"),
    # Layouts
    (lambda: layout_permutation(8, source="neox", target="half"), ValueError, "source must be one"),
    (lambda: layout_permutation(8, source="half", target="x"), ValueError, "target must be one of"),
    (
        lambda: layout_permutation(8, source="half", target="half", rotary_dim=9),
        ValueError,
        "rotary_dim must be even and at most 8, got 9",
    ),
    (lambda: convert_layout([1.0], source="half", target="half"), TypeError, "x must be an array"),
    (lambda: permute_weights(np.ones((10, 2)), 3), ValueError, r"\(10, 2\) for 3 heads"),
    (
        lambda: permute_weights(np.ones((48, 2)), 3, head_dim=8),
        ValueError,
        r"n_heads \* head_dim = 3 \* 8 = 24 rows, got shape \(48, 2\) for 3 heads",
    ),
    (
        lambda: layout_permutation(8, source="half", target="half", rotary_start=7),
        ValueError,
        "rotary_start must be at most head_dim - 2 = 6, got 7",
    ),
    (
        lambda: layout_permutation(8, source="half", target="half", rotary_dim=6, rotary_start=4),
        ValueError,
        "rotary_dim must be even and at most 4 after rotary_start = 4, got 6",
    ),
    (
        lambda: permute_fused_weights(np.ones((48, 2)), (16, 8), head_dim=8),
        ValueError,
        r"sizes must be the rows of q, k and v in one group, got \(16, 8\)",
    ),
    (
        lambda: permute_fused_weights(np.ones((48, 2)), (16, 12, 8), head_dim=8),
        ValueError,
        "sizes must be multiples of head_dim = 8, got 12 rows of k",
    ),
    (
        lambda: permute_fused_weights(np.ones((48, 2)), (16, 8, 8), head_dim=8, groups=2),
        ValueError,
        r"w must have groups \* sum\(sizes\) = 2 \* 32 rows, got shape \(48, 2\)",
    ),
    (
        lambda: permute_fused_weights([1], (1, 1, 1), head_dim=2),
        TypeError,
        "w must be an array, got list",
    ),
    (lambda: permute_weights([1], 1), TypeError, "w must be an array, got list"),
    (lambda: permute_weights(np.ones(4), 0), ValueError, "n_heads must be at least 1"),
    (lambda: ALiBi(2).toeplitz(0, 3), ValueError, "q_len must be at least 1, got 0"),
]


@pytest.mark.parametrize(("build", "error", "message"), CONSTRUCTION)
def test_what_construction_refuses(build, error, message):
    with pytest.raises(error, match=message):
        build()


POSITIONS = [
    (True, TypeError, "positions must be an array, .* or a number, got the boolean True"),
    ([True, False], TypeError, "integers or real floats, got dtype bool"),
    (np.zeros(5, bool), TypeError, "integers or real floats, got dtype bool"),
    (np.zeros(5, complex), TypeError, "got dtype complex128"),
    (np.zeros(5, np.float16), TypeError, "got float16: .*all integers above 2048"),
    ("01234", TypeError, "an array, a list, a range or a number, got str"),
    (None, TypeError, "got NoneType"),
    (["a"], TypeError, "integers or real floats"),
    ([0.0, np.nan, 1, 2, 3], ValueError, "finite and at most .* got nan"),
    ([0.0, -np.inf, 1, 2, 3], ValueError, "finite and at most .* got inf"),
    ([0, 0, 0, 0, -(2**40) - 1], ValueError, "at most 1099511627776 in .* got 1099511627777"),
    (np.full(5, 2**64 - 1, np.uint64), ValueError, "at most .* got 18446744073709551615"),
    (np.full(5, -(2**63)), ValueError, "at most .* got 9223372036854775808"),
]


@pytest.mark.parametrize(("positions", "error", "message"), POSITIONS)
@pytest.mark.parametrize(
    "call",
    [
        lambda p: ROPE.cos_sin(p),
        lambda p: ROPE.apply(X, p),
        lambda p: ROPE.inverse(X, p),
        lambda p: Sinusoidal(8).table(p),
        lambda p: Sinusoidal(8).add(X, p),
        lambda p: ALiBi(3).bias(p, p),
        lambda p: scores(ROPE, X, X, p, p),
    ],
)
def test_values_that_are_no_positions_are_refused(call, positions, error, message):
    with pytest.raises(error, match=message):
        call(positions)


def test_bfloat16_positions():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    with pytest.raises(TypeError, match=r"got bfloat16: .*all integers above 256"):
        ROPE.apply(X, np.zeros(5, ml_dtypes.bfloat16))


def test_the_last_position_is_allowed():
    for p in (2**40, -(2**40), float(2**40)):
        ROPE.cos_sin(p)
        ALiBi(2).bias(p, p)
    # A faster first pair leaves fewer positions.
    Sinusoidal(8, position_scale=4).table(2**38)
    with pytest.raises(ValueError, match="at most 274877906944 in"):
        Sinusoidal(8, position_scale=4).table(2**38 + 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: Learned(np.ones((60, 8), np.float32)).table(p),
        lambda p: Learned(np.ones((60, 8), np.float32)).add(X, p),
        lambda p: T5Bias(W).bias(p, p),
    ],
)
def test_floats_where_integers_are_needed(call):
    with pytest.raises(TypeError, match="must be integers for this encoding, got dtype float64"):
        call(np.arange(5.0))
    call(np.arange(5))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (X.astype(np.int32), TypeError, "a real floating dtype, got int32; cast it first"),
        (X.astype(complex), TypeError, "a real floating dtype, got complex128"),
        (X.tolist(), TypeError, "x must be an array, got list"),
        (X[..., :6], ValueError, r"= 8, got \(2, 3, 5, 6\)"),
        (X[0, 0, 0], ValueError, r"shape \(\.\.\., S, .*got \(8,\)"),
    ],
)
@pytest.mark.parametrize(
    "call", [ROPE.apply, ROPE.inverse, Sinusoidal(8).add, Learned(np.ones((9, 8))).add]
)
def test_what_x_must_be(call, x, error, message):
    with pytest.raises(error, match=message):
        call(x, range(5))


def test_shift_checks_x_before_the_shift():
    with pytest.raises(ValueError, match="head_dim = 8"):
        ROPE.shift(X[..., :6], 3)
    with pytest.raises(TypeError, match="x must be an array"):
        ROPE.shift(X.tolist(), 3)


@pytest.mark.parametrize(
    "shape", [(4,), (6,), (1,), (3, 5), (2, 4), (2, 2, 5), (2, 3, 5, 1), (0,), (2, 3, 1)]
)
def test_positions_of_the_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"where S = 5; got positions of shape \("):
        ROPE.apply(X, np.zeros(shape, int))


def test_heads_and_sequence_exchanged():
    """The layout of flash-attn: the positions go with the axis before."""
    hint = "the sequence is x's axis -2"
    for x in (np.ones((1, 7, 3, 8)), np.ones((7, 3, 8))):
        with pytest.raises(ValueError, match=hint):
            ROPE.apply(x, range(7))
    with pytest.raises(ValueError, match="positions must have shape") as other:
        ROPE.apply(np.ones((1, 3, 7, 8)), range(6))
    assert hint not in str(other.value)


def test_bias_positions_of_the_wrong_shape():
    for q, k in (([[0]], [0]), (np.zeros((2, 3), int), np.zeros((3, 3), int)), ([[[0]]], [[[0]]])):
        with pytest.raises(ValueError, match=r"shapes \(Q,\) and \(K,\), or \(B, Q\) and \(B, K\)"):
            ALiBi(2).bias(q, k)
    with pytest.raises(TypeError, match="k_positions must be integers or real floats"):
        ALiBi(2).bias([0], [True])


def test_one_matrix_has_one_position():
    with pytest.raises(TypeError, match="position must be a real number"):
        ROPE.matrix([1, 2])
    with pytest.raises(TypeError, match="k must be a real number"):
        Sinusoidal(8).shift_matrix([1])


def test_seq_len_is_a_positive_integer():
    for call in (ROPE.frequencies, lambda n: ROPE.apply(X, range(5), seq_len=n)):
        with pytest.raises(ValueError, match="seq_len must be at least 1, got 0"):
            call(0)
        with pytest.raises(TypeError, match=r"seq_len must be an integer, got 1\.5"):
            call(1.5)


# -- other libraries and devices -------------------------------------------------------------


def test_positions_of_another_library():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    with pytest.raises(TypeError, match="positions are a torch array but x is a numpy array"):
        ROPE.apply(X, torch.arange(5))
    strict = pytest.importorskip(
        "array_api_strict", reason="array_api_strict is the library that is tried"
    ).arange(5)
    with pytest.raises(TypeError, match="pass positions as a NumPy array or as a torch array"):
        ROPE.apply(torch.tensor(X), strict)
    with pytest.raises(TypeError, match="positions are a torch array but the table is a numpy"):
        Learned(W).table(torch.arange(5))
    with pytest.raises(
        TypeError, match="positions are a torch array but the table is a numpy array"
    ):
        T5Bias(W).bias(torch.arange(2), torch.arange(2))
    with pytest.raises(TypeError, match=r"table's library, numpy, got .*torch"):
        Learned(np.ones((9, 8))).add(torch.tensor(X), range(5))
    with pytest.raises(TypeError, match="q and k must share a library, got torch and numpy"):
        scores(ROPE, torch.tensor(X), X, range(5), range(5))
    with pytest.raises(TypeError, match="bias is a torch array but q is a numpy array"):
        scores(ALiBi(3), X, X, torch.arange(5), torch.arange(5))
    with pytest.raises(TypeError, match="xp must be the library the positions belong to"):
        ROPE.cos_sin(torch.arange(5), xp=np)
    with pytest.raises(TypeError, match="xp must be an array library such as numpy or torch"):
        ROPE.cos_sin(range(5), xp="torch")


def test_positions_on_another_device():
    xp = pytest.importorskip(
        "array_api_strict", reason="array_api_strict is the library that is tried"
    )
    x = xp.asarray(X, device=xp.Device("device1"))
    here = xp.asarray(np.arange(5))
    with pytest.raises(ValueError, match=r"positions are on device .*CPU.* but x is on .*device1"):
        ROPE.apply(x, here)
    with pytest.raises(ValueError, match="or pass them as a NumPy array"):
        Sinusoidal(8).add(x, here)
    assert ROPE.apply(x, np.arange(5)).device == x.device


def test_float16_positions_of_torch():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    for dtype, limit in ((torch.float16, 2048), (torch.bfloat16, 256)):
        with pytest.raises(TypeError, match=f"above {limit}; build positions in int64"):
            ROPE.apply(torch.tensor(X), torch.arange(5, dtype=dtype))


def test_an_unknown_dtype_is_refused():
    with pytest.raises(TypeError, match="got bfloat32"):
        ROPE.cos_sin(range(3), dtype="bfloat32")


# -- nothing is written over -----------------------------------------------------------------


def locked(array):
    array = np.array(array)
    array.setflags(write=False)
    return array


@pytest.mark.parametrize(
    "call",
    [
        lambda x, p, w: ROPE.apply(x, p),
        lambda x, p, w: ROPE.inverse(x, p),
        lambda x, p, w: ROPE.shift(x, p),
        lambda x, p, w: ROPE.cos_sin(p),
        lambda x, p, w: Sinusoidal(8).table(p),
        lambda x, p, w: Sinusoidal(8, scale=1.0).add(x, p),
        lambda x, p, w: Learned(w, offset=1).add(x, p),
        lambda x, p, w: Learned(w, padding_idx=1).ids_from_tokens(p),
        lambda x, p, w: ALiBi(3).bias(p, p),
        lambda x, p, w: T5Bias(w).bias(p, p),
        lambda x, p, w: T5Bias(w).bucket(p),
        lambda x, p, w: scores(ROPE, x, x, p, p),
        lambda x, p, w: scores(ALiBi(3), x, x, p, p),
        lambda x, p, w: scores(Sinusoidal(8), x, x, p, p),
        lambda x, p, w: convert_layout(x, source="half", target="half"),
        lambda x, p, w: permute_weights(w, 4),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inputs_are_not_changed(call, dtype):
    inputs = X.astype(dtype), np.arange(5), np.random.default_rng(2).standard_normal((32, 8))
    before = [a.copy() for a in inputs]
    results = call(*inputs)
    for result in results if isinstance(results, tuple) else (results,):
        assert not any(np.shares_memory(result, a) for a in inputs)
        result[...] = 0  # and results are the caller's to write in
    assert all((a == b).all() for a, b in zip(inputs, before, strict=True))
    call(*map(locked, inputs))


def test_cached_constants_are_not_handed_out():
    for make in (
        lambda: ROPE.cos_sin([1, 2])[0],
        lambda: ROPE.frequencies(),
        lambda: ROPE.matrix(3),
        lambda: ALiBi(4).slopes(),
        lambda: ALiBi(4).toeplitz(3, 3),
        lambda: Sinusoidal(8).table([1, 2]),
        lambda: Sinusoidal(8).shift_matrix(2),
        lambda: layout_permutation(8, source="half", target="interleaved"),
        lambda: ROPE.pairs()[0],
    ):
        first = make()
        kept = first.copy()
        first[...] = 0
        assert (make() == kept).all()
