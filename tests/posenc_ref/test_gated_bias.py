"""WavLM's gated bias: a double loop in 50 digits, WavLM itself, and what reads what."""

from functools import partial

import numpy as np
import pytest

from posenc_ref import GatedBias, T5Bias, from_dict, scores
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS, exact_bucket, mpmath

from .naive import K_AT, Q_AT, D, H, check_terms, dot, k, numbers, q

mp = mpmath().mp
RNG = np.random.default_rng(102)
TABLE, WEIGHT, LINEAR_BIAS, SCALE = (
    numbers(RNG, 8, H),
    numbers(RNG, 2, D),
    numbers(RNG, 2),
    numbers(RNG, H),
)
ENCODING = GatedBias(T5Bias(TABLE, num_buckets=8, max_distance=16), WEIGHT, LINEAR_BIAS, SCALE)


def gate(h, x):
    """g of one row of channels, in 50 digits."""
    a, r = (
        1 / (1 + mp.exp(-mp.fsum([*dot(x, WEIGHT[n]), mp.mpf(float(LINEAR_BIAS[n]))])))
        for n in (0, 1)
    )
    return 2 + a * (mp.mpf(float(SCALE[h])) * r - 1)


def row(h, i, j):
    return mp.mpf(float(TABLE[exact_bucket(int(K_AT[j]) - int(Q_AT[i]), 8, 16, True), h]))


def test_terms_against_a_double_loop():
    with mp.workdps(DIGITS):
        check_terms(
            ENCODING,
            {
                "content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j]),
                "content-position": lambda b, h, i, j: [gate(h, q[b, h, i]) * row(h, i, j)],
            },
            {"content-content": 1 / mp.sqrt(D), "content-position": 1},
            sizes=False,
        )


def test_the_papers_gates():
    """r_(i-j) = d + u d + (1 - u) w r d, with u = 1 - a: the same function."""
    x = np.random.default_rng(2).standard_normal((H, 4, D))
    a, r = (1 / (1 + np.exp(-(x @ WEIGHT[n] + LINEAR_BIAS[n]))) for n in (0, 1))
    u, w = 1 - a, np.asarray(SCALE, np.float64)[:, None]
    bias = ENCODING.bias.bias(Q_AT, K_AT).astype(np.float64)
    paper = bias * (1 + u + (1 - u) * w * r)[..., None]
    size = ENCODING.gate_sizes(x)[..., None] * np.abs(bias)
    found = ENCODING.gated_bias(x, Q_AT, K_AT)
    narrow = x.astype(np.float32)
    wide = ENCODING.gated_bias(narrow.astype(np.float64), Q_AT, K_AT)
    assert ENCODING.gated_bias(narrow, Q_AT, K_AT).tobytes() == wide.astype(np.float32).tobytes()
    assert Truth(paper, size, 0 * size).score(found).max() <= budget("float64")


# --- WavLM ---------------------------------------------------------------------------------------


def wavlm():
    """The encoding of the module, its queries, keys and hidden states by heads, and its logits."""
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    from transformers.models.wavlm.modeling_wavlm import WavLMAttention

    from .attention import filled, heads, host, softmax_inputs, tokens

    module, x = filled(WavLMAttention(24, 3, num_buckets=32, max_distance=80)), tokens(2, 40, 24)
    with softmax_inputs() as seen:
        module(x)
    linear = module.gru_rel_pos_linear
    weight, c = (host(p).reshape(2, 4, -1).sum(1) for p in (linear.weight, linear.bias))
    bias = T5Bias(host(module.rel_attn_embed.weight), num_buckets=32, max_distance=80, scaled=True)
    encoding = GatedBias(bias, weight, c[:, 0], host(module.gru_rel_pos_const)[0, :, 0, 0])
    sides = (heads(getattr(module, name)(x), 3) for name in ("q_proj", "k_proj"))
    return encoding, *sides, heads(x, 3), seen[0].reshape(2, 3, 40, 40)


def worst(encoding, q, k, x, logits, dtype="float64"):
    """The worst score of logits whose gates are read from x."""
    n = np.arange(40)
    scale = 8**-0.5
    bias = encoding.gated_bias(x, n, n)
    plain = np.abs(np.asarray(encoding.bias.bias(n, n), np.float64))
    size = np.abs(q) @ np.abs(k).swapaxes(-1, -2) * scale
    size = size + encoding.gate_sizes(x)[..., None] * plain
    truth = Truth(q @ k.swapaxes(-1, -2) * scale + bias, size, 0 * size)
    return truth.score(logits, dtype=dtype).max()


def test_logits_of_the_real_module():
    encoding, q_, k_, x, logits = wavlm()
    judge = partial(worst, q=q_, k=k_, logits=logits)
    assert judge(encoding, x=x) <= budget("float64")
    for wrong in (
        encoding.replace(weight=encoding.weight[::-1], linear_bias=encoding.linear_bias[::-1]),
        encoding.replace(scale=encoding.scale[::-1]),
        encoding.replace(weight=encoding.weight / 4),  # the mean of the four, not the sum
        encoding.replace(bias=encoding.bias.replace(max_distance=128)),
        encoding.replace(bias=encoding.bias.replace(table=encoding.bias.table[::-1])),
    ):
        assert judge(wrong, x=x) > budget("float64")


def test_the_code_reads_hidden_states_and_the_paper_queries():
    encoding, q_, k_, _, logits = wavlm()
    for other in (q_, q_ * 8**-0.5):  # the paper; another branch of the authors' code
        assert worst(encoding, q_, k_, other, logits) > budget("float64")
    n = np.arange(40)
    paper = scores(encoding, q_, k_, n, n)
    assert worst(encoding, q_, k_, q_, paper) <= budget("float64")


# --- the suite -----------------------------------------------------------------------------------


def logits_of(q, k, sign=1, late=False, turned=False, read=1.0, less=False, plain=False):
    """The paper's, in float32, wrong on demand."""
    n_q, n_k = q.shape[2], k.shape[2]
    r = sign * (np.arange(n_k) - (n_k - n_q + np.arange(n_q))[:, None])
    bias = np.moveaxis(TABLE[ENCODING.bias.bucket(r)], -1, 0)
    gate = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    x = q * np.float32(read)
    a, b = (gate(x @ WEIGHT[n] + LINEAR_BIAS[n]) for n in ((1, 0) if turned else (0, 1)))
    a = 1 - a if less else a
    g = np.ones_like(a) if plain else 2 + a * (SCALE[:, None] * b - 1)
    product = q @ k.swapaxes(-1, -2)
    scale = np.float32(D**-0.5)
    return (
        (product + g[..., None] * bias) * scale if late else product * scale + g[..., None] * bias
    )


@pytest.mark.parametrize(
    ("wrong", "codes"),
    [
        ({}, []),
        ({"sign": -1}, ["bucket-sign"]),
        ({"late": True}, ["score-term"]),
        ({"turned": True}, ["wrong-row"]),
        ({"read": D**-0.5}, ["softmax-scale"]),
        ({"less": True}, ["score-term"]),
        ({"plain": True}, ["score-term"]),
    ],
)
def test_the_suite_sees_what_is_wrong(wrong, codes):
    report = check(partial(logits_of, **wrong), ENCODING, "scores")
    assert report.passed == (wrong == {})
    assert report.codes == codes


def test_values_and_refusals():
    assert from_dict(ENCODING.to_dict()) == ENCODING
    x = np.zeros((H, 4, D))
    for make, error, text in (
        (lambda: ENCODING.replace(bias=TABLE), TypeError, "bias must be a T5Bias"),
        (lambda: ENCODING.replace(weight=WEIGHT[:1]), ValueError, r"shape \(2, d\), got \(1, 6\)"),
        (
            lambda: ENCODING.replace(linear_bias=LINEAR_BIAS[:1]),
            ValueError,
            r"linear_bias must have shape \(2\)",
        ),
        (lambda: ENCODING.replace(scale=SCALE[:1]), ValueError, r"shape \(2\), got \(1,\)"),
        (lambda: ENCODING.gates(x[:1]), ValueError, r"H = 2 and d = 6, got \(1, 4, 6\)"),
        (lambda: ENCODING.gated_bias([1.0], [0], [0]), ValueError, "d = 6, got list"),
        (lambda: ENCODING.gated_bias(x, [0], [0]), ValueError, "one for each row of x"),
    ):
        with pytest.raises(error, match=text):
            make()
