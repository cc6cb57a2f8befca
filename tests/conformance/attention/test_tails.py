"""Mistakes of padding, parts, masks and turned values predict what plain loops compute."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Attention, RoPE, YaRN
from posenc_ref.conformance import check
from posenc_ref.conformance.attention.mistakes import attention_mistakes, rarer_mistakes
from posenc_ref.conformance.attention.tails import finite_masks, tails
from posenc_ref.conformance.attention.turned_values import turned_values
from posenc_ref.conformance.oracle.attention import attended

ROPE = RoPE(8, layout="half")
OF = Attention(ROPE)


def attention(e=ROPE, kind="", n=4):
    """Return an attention with a mistake, computed query by query."""

    def fn(q, k, v, q_at, k_at):
        q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
        group = q.shape[1] // k.shape[1]
        k, v = (np.repeat(x, group, axis=1) for x in (k, v))
        if kind == "turned":
            v = np.concatenate([e.apply(v[..., :8], k_at), v[..., 8:]], axis=-1)
        logits = e.apply(q, q_at) @ e.apply(k, k_at).swapaxes(-1, -2) / 8**0.5
        n_q, n_k = logits.shape[-2:]
        out = np.zeros((*q.shape[:3], v.shape[-1]))
        for i in range(n_q):
            last = n_k - n_q + i + 1
            w = np.exp(logits[:, :, i])
            w[..., last:] = np.exp(-10.0) if kind == "mask" else 0
            total = w.sum(-1)
            if kind == "padded":
                total = total + -n_k % n
            out[:, :, i] = np.einsum("bhk,bhkd->bhd", w / total[..., None], v)
            if kind == "parts":
                each = [slice(a, a + n) for a in range(0, last, n)]
                shares = [w[..., s] / w[..., s].sum(-1, keepdims=True) for s in each]
                parts = [np.einsum("bhk,bhkd->bhd", p, v[:, :, s])
                         for p, s in zip(shares, each, strict=True)]  # fmt: skip
                out[:, :, i] = sum(parts) / len(parts)
            if kind == "unwritten" and n_q >= n and i >= n_q // n * n:
                out[:, :, i] = 0
        return out.astype(np.float32)

    return fn


def near(value, truth):
    assert np.abs(value - truth).max() <= 1e-6 * np.abs(truth).max()


def arguments(channels=8):
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.normal(size=(2, h, s, d)) for h, s, d in ((4, 5, 8), (2, 9, 8), (2, 9, channels))
    )
    return q, k, v, np.arange(4, 9), np.arange(9)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("padded", "the padding of the last, incomplete tile of 4 keys has logits 0"),
        ("parts", "the outputs of the parts of 4 keys that the query sees are averaged"),
        ("unwritten", "whole tile of 4 have zeros in the output, if there is a whole one"),
    ],
)
def test_a_tail_is_predicted_and_tried(kind, words):
    given = arguments()
    (change,) = (change for _, text, change, _ in tails(OF) if words in text)
    predicted = change(attended(OF, *given)).truth().value
    near(predicted, attention(kind=kind)(*given))
    assert any(words in one.message for one in rarer_mistakes(OF))


@pytest.mark.parametrize("channels", [8, 11])
@pytest.mark.parametrize("e", [ROPE, ROPE.replace(scaling=YaRN(4.0, 4096))])
def test_turned_values_are_predicted_with_the_attention_factor(e, channels):
    of, given = Attention(e), arguments(channels)
    rows = list(turned_values(of))
    words = "values are rotated to the positions of their keys, as the keys are, in the first 8"
    (change,) = (change for _, text, change, _ in rows if text.startswith(words))
    predicted = change(attended(of, *given)).truth().value
    near(predicted, attention(e, "turned")(*given))


def test_values_that_are_declared_to_turn_have_no_such_mistake():
    assert not list(turned_values(Attention(ROPE, values="rotated")))
    assert not list(finite_masks(Attention(ROPE, causal=False)))
    assert any(one.fit for one in attention_mistakes(OF))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "n", "words"),
    [
        ("turned", 0, "values are rotated to the positions of their keys, as the keys are"),
        ("padded", 16, "the last, incomplete tile of 16 keys has logits 0"),
        ("parts", 32, "the outputs of the parts of 32 keys that the query sees"),
        ("unwritten", 16, "queries after the last whole tile of 16 have zeros"),
        ("mask", 0, "the mask is -10, not -inf: hidden keys have this logit"),
    ],
)
def test_the_report_names_it(kind, n, words):
    e = RoPE(8, layout="half")
    assert words in check(attention(e, kind, n), Attention(e), "attention").findings[0].message


def test_a_base_of_2_that_not_all_terms_know():
    alibi = ALiBi(8)

    def fn(q, k, v, q_at, k_at):
        q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
        k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
        logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5 / np.log(2) + alibi.bias(q_at, k_at)
        weights = np.exp2(np.where(k_at > q_at[:, None], -np.inf, logits))
        return (weights / weights.sum(-1, keepdims=True) @ v).astype(np.float32)

    [finding] = check(fn, alibi, "attention").findings
    assert finding.message.startswith("the bias is multiplied by ln 2")
