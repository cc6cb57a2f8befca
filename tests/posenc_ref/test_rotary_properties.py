"""What every rotary form claims to satisfy holds, and what it does not claim does not hold."""

import numpy as np
import pytest

from posenc_ref import (
    DynamicNTK,
    GivenFrequencies,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    MixedRoPE,
    MultiAxisRoPE,
    NTKByParts,
    NTKScaling,
    Proportional,
    RoPE,
    XPos,
    YaRN,
)
from posenc_ref.accuracy import Truth, budget

D = 16
SHORT, LONG = np.linspace(1.0, 1.2, 8), np.linspace(1.0, 9.0, 8)
FORMS = {
    "half": RoPE(D, layout="half"),
    "interleaved": RoPE(D, layout="interleaved", sign=-1),
    "partial": RoPE(D, layout="half", rotary_dim=8),
    "trailing": RoPE(D, layout="interleaved", rotary_dim=8, rotary_start=8),
    "written elsewhere": RoPE(D, layout="interleaved", output_layout="half"),
    "linear": RoPE(D, layout="half", scaling=LinearScaling(4.0)),
    "NTK": RoPE(D, layout="half", scaling=NTKScaling(4.0)),
    "dynamic NTK": RoPE(D, layout="half", scaling=DynamicNTK(4.0, 64)),
    "by parts": RoPE(D, layout="half", scaling=NTKByParts(4.0, 2048)),
    "YaRN": RoPE(D, layout="half", scaling=YaRN(4.0, 2048)),
    "YaRN with m = 1": RoPE(D, layout="half", scaling=YaRN(4.0, 2048, attention_factor=1.0)),
    "Llama 3": RoPE(D, layout="half", scaling=Llama3Scaling(8, 1, 4, 8192)),
    "LongRoPE": RoPE(D, layout="half", scaling=LongRoPE(SHORT, LONG, 64, factor=4.0)),
    "proportional": RoPE(D, layout="half", scaling=Proportional(0.5)),
    "given": RoPE(D, layout="half", scaling=GivenFrequencies(np.linspace(-1, 1, 8))),
    "given with m": RoPE(
        D, layout="half", scaling=GivenFrequencies(np.ones(8), attention_factor=1.5)
    ),
    "M-RoPE": MultiAxisRoPE(D, sections=(2, 3, 3), layout="half"),
    "grid from 1": MultiAxisRoPE(D, sections=(4, 4), layout="half", spacing="restart", offset=1.0),
    "blockwise": MultiAxisRoPE(D, sections=(4, 4), layout="blockwise", spacing="restart"),
    "mixed": MixedRoPE(D, np.linspace(-1, 1, 16).reshape(2, 8), layout="half"),
}
EVERY = {"relative-logits", "scaled-rotation", "rotation", "composition"}


def matrix(form, p):
    return form.matrix(p if form.num_axes > 1 else p[0], seq_len=32)


def same(actual, expected):
    truth = Truth(expected, D * np.ones_like(expected), np.zeros_like(expected))
    return truth.score(actual).max() <= budget("float64")


def holds(form):
    """The properties as matrices show them, for a few positions on every axis."""
    rng = np.random.default_rng(0)
    m, n, t = rng.integers(1, 30, (3, max(form.num_axes, 1)))
    big_m, big_n = matrix(form, m), matrix(form, n)
    turned = np.isin(np.arange(D), np.concatenate(form.output_pairs()))
    gram = big_m @ big_m.T
    size = gram[np.ix_(turned, turned)][0, 0]
    checks = {
        "relative-logits": same(matrix(form, m + t).T @ matrix(form, n + t), big_m.T @ big_n),
        "scaled-rotation": same(gram, np.diag(np.where(turned, size, 1.0))),
        "rotation": same(gram, np.eye(D)),
        "composition": same(big_m @ big_n, matrix(form, m + n)),
    }
    return {name for name, held in checks.items() if held}


@pytest.mark.parametrize("name", FORMS)
def test_claims_are_exactly_what_holds(name):
    form = FORMS[name]
    assert holds(form) == form.properties
    assert form.properties <= EVERY


def test_every_property_is_missing_somewhere():
    """None of them is claimed of everything: each can fail."""
    missing = EVERY.intersection(*(form.properties for form in FORMS.values()))
    assert missing == {"relative-logits", "scaled-rotation"}
    assert XPos(D, layout="half").properties == {"relative-logits"}


def test_xpos_is_no_rotation():
    """The size of a rotated pair changes with the position, for queries and keys oppositely."""
    xpos, x = XPos(D, layout="half"), np.ones((2, D))
    q, k = xpos.apply_queries(x, [0, 512]), xpos.apply_keys(x, [0, 512])
    norm_q, norm_k = np.linalg.norm(q, axis=-1), np.linalg.norm(k, axis=-1)
    assert norm_q[1] < norm_q[0] < norm_k[1]


def test_an_absolute_encoding_does_not_have_relative_logits():
    """The brute force can say no: adding a table is no rotation."""

    class Shifted(RoPE):
        def matrix(self, position, *, seq_len=None):
            return super().matrix(position, seq_len=seq_len) + 0.1 * position * np.eye(D)

    assert holds(Shifted(D, layout="half")) == set()


def test_a_table_that_follows_the_length_is_not_relative_across_lengths():
    form = FORMS["dynamic NTK"]
    near = form.apply(np.ones((1, D)), [3]) @ form.apply(np.ones((1, D)), [1]).T
    far = form.apply(np.ones((1, D)), [203]) @ form.apply(np.ones((1, D)), [201]).T
    assert not same(far, near)
