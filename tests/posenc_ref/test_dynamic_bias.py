"""Dynamic position bias: 50 digits, x-transformers, CrossFormer's layers; LeViT's fewer queries."""

import numpy as np
import pytest

from posenc_ref import DynamicBias, DynamicWindowBias, LeViTBias, from_dict
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp
RNG = np.random.default_rng(31)
EPS = mp.mpf(1e-5)


def numbers(rng, *shape):
    return (rng.standard_normal(shape) / 2).astype(np.float32)


def linear(weight, bias, x):
    return [
        mp.fsum(mp.mpf(w) * v for w, v in zip(row, x, strict=True)) + mp.mpf(b)
        for row, b in zip(weight.tolist(), bias.tolist(), strict=True)
    ]


def network(e, x):
    """The network in 50 digits, from the fields alone."""
    last = len(e.weights) - 1
    for n in range(last + 1):
        x = linear(e.weights[n], e.biases[n], x)
        if n == last:
            return x
        if e.gains:
            mean = mp.fsum(x) / len(x)
            deviation = mp.sqrt(mp.fsum((v - mean) ** 2 for v in x) / len(x) + EPS)
            rows = zip(x, e.gains[n].tolist(), e.shifts[n].tolist(), strict=True)
            x = [(v - mean) / deviation * mp.mpf(g) + mp.mpf(s) for v, g, s in rows]
        if e.activation == "relu":
            x = [max(v, mp.mpf(0)) for v in x]
        else:
            x = [v / (1 + mp.exp(-v)) for v in x]


def layers(rng, *widths):
    pairs = list(zip(widths[1:], widths, strict=False))
    return tuple(numbers(rng, a, b) for a, b in pairs), tuple(numbers(rng, a) for a, _ in pairs)


def norms(rng, *widths):
    return tuple(1 + numbers(rng, w) for w in widths), tuple(numbers(rng, w) for w in widths)


PLAIN = DynamicBias(*layers(RNG, 1, 6, 5, 3))
NORMED = DynamicBias(
    *layers(RNG, 1, 6, 3), gains=norms(RNG, 6)[0], shifts=norms(RNG, 6)[1], activation="relu"
)
WINDOW = DynamicWindowBias(*layers(RNG, 2, 6, 6, 6, 3), *norms(RNG, 6, 6, 6), window=(3, 4))


def of_offset(e):
    def exact(i, j):
        r = i - j
        x = mp.sign(r) * mp.log(1 + abs(r)) if e.log_distance else mp.mpf(r)
        return network(e, [x])

    return exact


def of_window(e):
    w = e.window[1]
    return lambda i, j: network(e, [mp.mpf(i // w - j // w), mp.mpf(i % w - j % w)])


CASES = {
    "SiLU": (PLAIN, of_offset, [0, 3, 9, 41, 700]),
    "SiLU of the logarithm": (PLAIN.replace(log_distance=True), of_offset, [0, 3, 9, 70000]),
    "ReLU behind a norm": (NORMED, of_offset, [0, 3, 9, 41, 70000]),
    "window": (WINDOW, of_window, range(12)),
    "window, plain": (WINDOW.replace(gains=(), shifts=()), of_window, [0, 7, 11]),
}


@pytest.mark.parametrize("name", CASES)
def test_against_50_digits(name):
    encoding, of, at = CASES[name]
    exact = of(encoding)
    q_at, k_at = np.array(list(at)), np.array(list(at))[::-1].copy()
    truth = encoding.truth(q_at, k_at)
    want = np.zeros(truth.value.shape)
    with mp.workdps(DIGITS):
        for i, j in np.ndindex(want.shape[1:]):
            want[:, i, j] = exact(int(q_at[i]), int(k_at[j]))
    exactly = Truth(want, truth.terms, truth.angle)
    assert exactly.score(encoding.bias(q_at, k_at)).max() <= budget("float64")
    assert exactly.score(truth.value).max() <= budget("float64")
    assert exactly.score(want * (1 + 2.0**-30)).max() > budget("float64")
    assert from_dict(encoding.to_dict()) == encoding


def test_toeplitz_holds_the_whole_bias():
    t, bias = PLAIN.toeplitz(3, 7), PLAIN.bias(range(4, 7), range(7))
    truth = PLAIN.truth(range(4, 7), range(7))
    for i, j in np.ndindex(3, 7):
        one = Truth(*(part[:, i, j] for part in (bias, truth.terms, truth.angle)))
        assert one.score(t[:, j - i + 2]).max() <= budget("float64")


# --- libraries -----------------------------------------------------------------------------------


def x_transformers(log_distance, norm):
    module = pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is what is compared with"
    )
    from .attention import filled, host

    settings = {"log_distance": log_distance, "norm": norm}
    made = filled(module.DynamicPositionBias(6, heads=3, depth=2, **settings))
    made.float()  # its positions are
    *hidden, last = made.mlp
    linears, gains, shifts = [*(layer[0] for layer in hidden), last], (), ()
    if norm:  # the first is x-transformers' own, without a shift; the second torch's
        gains = (host(hidden[0][1].gamma), host(hidden[1][1].weight))
        shifts = (np.zeros(6), host(hidden[1][1].bias))
    encoding = DynamicBias(
        tuple(host(m.weight) for m in linears), tuple(host(m.bias) for m in linears),
        gains=gains, shifts=shifts, log_distance=log_distance,
    )  # fmt: skip
    return encoding, host(made(5, 40))


SETTINGS = [(False, False), (True, False), (False, True), (True, True)]


def worst_of_x_transformers():
    found = []
    for settings in SETTINGS:
        encoding, bias = x_transformers(*settings)
        truth = encoding.truth(range(35, 40), range(40))
        found.append(truth.score(bias, dtype="float32").max())
    return max(found)


def test_x_transformers():
    assert worst_of_x_transformers() <= budget("float32")
    for log_distance, norm in SETTINGS:
        encoding, bias = x_transformers(log_distance, norm)
        turned = encoding.replace(weights=(-encoding.weights[0], *encoding.weights[1:]))
        for wrong in (
            turned,  # key minus query
            encoding.replace(log_distance=not log_distance),
            encoding.replace(activation="relu"),
        ):
            truth = wrong.truth(range(35, 40), range(40))
            assert truth.score(bias, dtype="float32").max() > budget("float32")


def crossformer():
    """Layers of torch in the order of CrossFormer's code, over the offsets of a window."""
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    from .attention import filled, host

    nn = torch.nn
    stack = [nn.Linear(2, 6)]
    for width in (6, 6, 3):
        stack += [nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, width)]
    module = filled(nn.Sequential(*stack))
    h, w = 3, 4
    dy, dx = np.meshgrid(np.arange(1 - h, h), np.arange(1 - w, w), indexing="ij")
    table = host(module(torch.tensor(np.stack([dy, dx], -1).reshape(-1, 2)).double()))
    y, x = np.divmod(np.arange(h * w), w)
    index = (y[:, None] - y + h - 1) * (2 * w - 1) + x[:, None] - x + w - 1
    linears, normed = stack[::3], stack[1::3]
    encoding = DynamicWindowBias(
        tuple(host(m.weight) for m in linears), tuple(host(m.bias) for m in linears),
        tuple(host(m.weight) for m in normed), tuple(host(m.bias) for m in normed), window=(h, w),
    )  # fmt: skip
    return encoding, np.moveaxis(table[index], -1, 0)


def test_layers_of_crossformer():
    encoding, bias = crossformer()

    def worst(e):
        return e.truth(range(12), range(12)).score(bias).max()

    assert worst(encoding) <= budget("float64")
    first, *others = encoding.weights
    for wrong in (
        {"weights": (first[:, ::-1], *others)},  # (dx, dy)
        {"weights": (-first, *others)},  # key minus query
        {"weights": (first / 3, *others)},  # offsets divided by the side
        {"gains": (), "shifts": ()},
        {"activation": "silu"},
    ):
        assert worst(encoding.replace(**wrong)) > budget("float64"), wrong


# --- LeViT's smaller grids -----------------------------------------------------------------------


def levit_subsampled():
    """Queries at every second token of a 5 x 5 grid: the bias, and the real module's."""
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    from transformers.models.levit.modeling_levit import LevitAttentionSubsample

    from .attention import filled, host

    module = filled(LevitAttentionSubsample(24, 24, 8, 3, 2, 2, 5, 3))
    bias = host(module.get_attention_biases("cpu"))
    encoding = LeViTBias(host(module.attention_biases).T, window=(5, 5))
    return encoding, bias, np.arange(25).reshape(5, 5)[::2, ::2].ravel()


def test_queries_of_levit_that_are_fewer_stand_where_they_were():
    encoding, bias, at = levit_subsampled()
    assert (encoding.bias(at, range(25)) == bias).all()
    assert (encoding.bias(range(9), range(25)) != bias).any()
    assert (encoding.bias(range(16, 25), range(25)) != bias).any()


# --- the suite -----------------------------------------------------------------------------------


def biased(sign=1, log=False, act=None):
    act = act or (lambda x: x / (1 + np.exp(-x)))

    def bias(q_len, k_len):
        r = (k_len - q_len + np.arange(q_len))[:, None] - np.arange(k_len)
        x = (sign * r).astype(np.float32)[..., None]
        x = np.sign(x) * np.log1p(np.abs(x)) if log else x
        for n, (w, b) in enumerate(zip(PLAIN.weights, PLAIN.biases, strict=True)):
            x = act(x @ w.T + b) if n < 2 else x @ w.T + b
        return np.moveaxis(x, -1, 0)

    return bias


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({}, None),
        pytest.param({"sign": -1}, "bucket-sign", marks=pytest.mark.nightly),
        pytest.param({"log": True}, "position-scale", marks=pytest.mark.nightly),
        ({"act": lambda x: np.maximum(x, 0)}, "score-term"),
        ({"act": lambda x: 2 * x / (1 + np.exp(-x))}, "inaccurate"),
    ],
)
def test_the_suite_names_what_is_wrong(wrong, code):
    with np.errstate(over="ignore"):
        report = check(biased(**wrong), PLAIN, "bias")
    assert report.passed == (code is None)
    assert report.codes == ([code] if code else [])


def windowed(first):
    """A bias of windows whose first layer is another one."""
    other = WINDOW.replace(weights=(first, *WINDOW.weights[1:]))
    return lambda q_len, k_len: other.bias(range(q_len), range(k_len)).astype(np.float32)


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (WINDOW.weights[0], None),
        (WINDOW.weights[0][:, ::-1], "axis-order"),
        (-WINDOW.weights[0], "bucket-sign"),
        (WINDOW.weights[0] / np.float32([2, 3]), "position-scale"),
    ],
)
def test_the_suite_names_what_is_wrong_in_a_window(first, code):
    report = check(windowed(first), WINDOW, "bias")
    assert report.codes == ([code] if code else [])


def test_refusals():
    w, b = PLAIN.weights, PLAIN.biases
    for make, error, text in (
        (lambda: DynamicBias(w[0], b), TypeError, "weights must be a tuple of arrays, got ndarray"),
        (lambda: DynamicBias(w[:1], b[:1]), ValueError, "at least two layers, got 1"),
        (lambda: DynamicBias(w, b[:2]), ValueError, "biases must hold 3 arrays, got 2"),
        (lambda: DynamicBias(w, b, gains=b[:1]), ValueError, "gains must hold 0 or 2 arrays"),
        (lambda: DynamicBias(w, b, shifts=b[:2]), ValueError, "shifts must hold 0 arrays"),
        (lambda: DynamicBias(w[1:], b[1:]), ValueError, r"weights\[0\] must have shape \(W1, 1\)"),
        (lambda: DynamicBias(w, b[::-1]), ValueError, r"biases\[0\] must have shape \(6\)"),
        (lambda: DynamicBias(w, b, activation="swish"), ValueError, "use 'silu', which some"),
        (lambda: WINDOW.bias([0], [12]), ValueError, r"k_positions must be tokens of the window"),
    ):
        with pytest.raises(error, match=text):
            make()
