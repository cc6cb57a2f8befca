"""FoPE: a double loop in 50 digits, SGLang's class, and what is no rotation."""

import ast
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from posenc_ref import FoPE, RoPE, from_dict, scores
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

from .naive import K_AT, Q_AT, H, check_terms, k, numbers, q
from .naive import D as DIM

mp = mpmath().mp
RNG = np.random.default_rng(2412)
COS, SIN = numbers(RNG, 2, H, 3, 2)
FORM = FoPE(DIM, COS, SIN, dropped_sin=1, base=100.0)


def summands(form):
    """The products of the two channels of each pair, one query and one key at a time."""

    def wave(of, coef, rest, h, p, d):
        if d >= coef.shape[2]:
            return mp.mpf(rest)
        theta = [mp.power(form.base, -mp.mpf(2 * n) / DIM) for n in range(coef.shape[1])]
        return mp.fsum(
            mp.mpf(float(c)) * of(int(p) * w) for c, w in zip(coef[h, :, d], theta, strict=True)
        )

    def one(x, h, p):
        x = [mp.mpf(float(v)) for v in x]
        found = []
        for d in range(DIM // 2):
            c = wave(mp.cos, form.cos_coef, 1, h, p, d)
            s = wave(mp.sin, form.sin_coef, form.dropped_sin, h, p, d)
            a, b = x[d], x[d + DIM // 2]
            found += [a * c - b * s, b * c + a * s]
        return found

    def of(b, h, i, j):
        both = one(q[b, h, i], h, Q_AT[i]), one(k[b, h, j], h, K_AT[j])
        return [x * y for x, y in zip(*both, strict=True)]

    return {"content-position": of}


@pytest.mark.parametrize("dropped", [0, 1])
def test_terms_against_a_double_loop(dropped):
    form = FORM.replace(dropped_sin=dropped)
    with mp.workdps(DIGITS):
        check_terms(form, summands(form), 1 / mp.sqrt(DIM), sizes=False)


def test_the_identity_is_rope():
    """With unit coefficients for every pair, FoPE is RoPE of half-split pairs."""
    eye = np.eye(8)[None]
    one, rope = FoPE(16, eye, eye, dropped_sin=0), RoPE(16, layout="half")
    assert one.heads is None
    assert check(rope.apply, one, "apply").passed
    assert check(lambda x, p: rope.apply(x, p) * 1.001, one, "apply").verdict == "deviates"


def test_it_is_no_rotation(rng):
    """Norms change, -p does not undo p, and logits depend on more than the offset."""
    x = rng.standard_normal((1, H, 1, DIM))
    y = FORM.apply(x, [7])
    assert abs(np.linalg.norm(y) / np.linalg.norm(x) - 1) > 0.1
    assert np.abs(FORM.apply(y, [-7]) - x).max() > 0.1
    near, far = (scores(FORM, x, x, [a + 3], [a]) for a in (0, 50))
    assert np.abs(near - far).max() > 0.1


def test_dropped_sines_of_one_double_the_dropped_part():
    """A trap of the docstring."""
    x, y = np.zeros((2, 1, H, 1, DIM))
    x[..., [2, 5]], y[..., [2, 5]] = (1.0, 2.0), (3.0, -1.0)  # pair 2 alone, which is dropped
    zero, one = (scores(FORM.replace(dropped_sin=s), x, y, [9], [4]) for s in (0, 1))
    assert (zero != 0).all()
    assert np.array_equal(one, 2 * zero)


def test_query_heads_share_the_coefficients_of_their_key_head(rng):
    x = rng.standard_normal((2, 3 * H, 5, DIM))
    at = np.array([[0, 4, 9, 2, 1], [7, 7, 30, 5, 2]])
    whole = FORM.apply(x, at)
    for head in range(3 * H):
        one = FORM.replace(cos_coef=COS[[head // 3]], sin_coef=SIN[[head // 3]])
        assert np.array_equal(whole[:, [head]], one.apply(x[:, [head]], at))


def sglang():
    """Return the class ``FourierRotaryEmbedding`` of the installed SGLang.

    The class alone is executed: importing its module needs a GPU and its libraries.
    """
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    found = importlib.util.find_spec("sglang")
    if found is None or not found.submodule_search_locations:
        pytest.skip("SGLang is what is compared with, and is not installed")
    folder = Path(found.submodule_search_locations[0]) / "srt/layers/rotary_embedding"
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    eager = "apply_rotary_pos_emb_native_eager"  # without torch.compile
    wanted = dict.fromkeys(("rotate_neox", "rotate_half", eager), "utils.py")
    wanted["FourierRotaryEmbedding"] = "rope_variant.py"
    code = ["from __future__ import annotations", "from typing import *"]
    for name, file in wanted.items():
        text = (folder / file).read_text(encoding="utf-8")
        tree = ast.parse(text).body
        code += [ast.get_source_segment(text, n) for n in tree if getattr(n, "name", "") == name]
    exec("\n".join(code), names)
    names["apply_rotary_pos_emb_native"] = names[eager]
    return torch, names["FourierRotaryEmbedding"]


@pytest.mark.nightly
@pytest.mark.parametrize("kept", [11, None])
def test_sglang(kept, rng):
    """SGLang 0.5.23 pads sines with 1, and drops frequencies that turn less than once."""
    torch, cls = sglang()
    dim, heads, length = 64, 2, 4096
    module = cls(dim, dim, length, 10000, True, torch.float32, heads, num_inv_freq=kept,
                 device="cpu")  # fmt: skip
    count = module.input_dim
    assert count == (kept or np.sum(10000.0 ** -(np.arange(32) / 32) > 2 * np.pi / length))
    cos, sin = (np.eye(count) + 0.3 * rng.standard_normal((2, heads, count, count))).astype("f4")
    with torch.no_grad():
        module.cos_coef.copy_(torch.tensor(cos))
        module.sin_coef.copy_(torch.tensor(sin))

    def apply(x, positions):
        rows = x.permute(0, 2, 1, 3).flatten(2)
        with torch.no_grad():
            out = [module(positions, row, row)[0] for row in rows]
        return torch.stack(out).unflatten(-1, (-1, dim)).permute(0, 2, 1, 3)

    declared = FoPE(dim, cos, sin, dropped_sin=1)
    report = check(apply, declared, "apply", backend="torch", max_position=length - 1)
    assert report.passed, str(report)
    other = declared.replace(dropped_sin=0)
    assert check(apply, other, "apply", backend="torch", max_position=length - 1).codes == [
        "dropped-pairs"
    ]


def test_values():
    assert from_dict(FORM.to_dict()) == FORM
    assert FORM.heads == H
    assert np.array_equal(FoPE(4, COS[:, :2], SIN[:, :2], dropped_sin=0).frequencies(), [1.0, 0.01])
    c, s = FORM.cos_sin([0, 3])
    assert c.shape == s.shape == (H, 2, DIM // 2)
    assert (c[..., 2] == 1).all()
    assert (s[..., 2] == 1).all()
    x = np.zeros((1, H, 2, DIM))
    for bad, error, message in (
        (lambda: FoPE(7, COS, SIN, dropped_sin=0), ValueError, "head_dim must be even, got 7"),
        (lambda: FoPE(4, COS, SIN, dropped_sin=0), ValueError, r"at most head_dim / 2 = 2, got"),
        (lambda: FoPE(6, COS, SIN[:1], dropped_sin=0), ValueError, "sin_coef must have shape"),
        (lambda: FoPE(6, COS, SIN, dropped_sin=2), ValueError, "dropped_sin must be one of 0, 1"),
        (lambda: FORM.apply(x[:, :1], [0, 1]), ValueError, "N a multiple of H = 2"),
        (lambda: FORM.apply(x, [0]), ValueError, r"positions must have shape \(S,\)"),
        (lambda: scores(FORM, x[:, :1], x[:, :1], [0, 1], [0, 1]), ValueError, "q must have shape"),
    ):
        with pytest.raises(error, match=message):
            bad()
