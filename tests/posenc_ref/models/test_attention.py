"""Attention outputs: 50-digit complex arithmetic, PyTorch's own attention, and the properties."""

import numpy as np
import pytest
from mpmath import mp

import posenc_ref as pr
from posenc_ref import Attention, RoPE
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.expression import read_expression
from posenc_ref.conformance.oracle.attention import attended

TAIL = RoPE(12, layout="interleaved", rotary_dim=8, rotary_start=4)
V4 = Attention(TAIL, values="shared", sinks=True)


def drawn(rng, b, heads, held, n_q, n_k, d=12):
    """Random q, k and v."""
    shapes = ((b, heads, n_q, d), (b, held, n_k, d), (b, held, n_k, d))
    return tuple(rng.standard_normal(shape) for shape in shapes)


def units(of, call, actual, expected):
    """The largest error in error units of a call (q, k, v, positions of both, sinks)."""
    truth = attended(of, *(np.asarray(x) for x in call)).truth()
    return Truth(np.asarray(expected), truth.terms, truth.angle).score(np.asarray(actual)).max()


def pairs(x, p):
    """The tail of x as complex numbers turned to position p, after the plain channels."""
    z = [
        mp.mpc(x[4 + 2 * i], x[5 + 2 * i])
        * mp.expj(mp.mpf(int(p)) * mp.mpf(10000) ** (-mp.mpf(i) / 4))
        for i in range(4)
    ]
    return [mp.mpf(c) for c in x[:4]], z


def exact(q, k, v, q_at, k_at, sinks, group):
    """The formula of DeepSeek-V4 head by head in 50 digits, with complex pairs."""
    b, heads, n_q, d = q.shape
    n_k, out = k.shape[2], np.zeros(q.shape)
    with mp.workdps(50):
        for r, h, i in np.ndindex(b, heads, n_q):
            turned_q, weights, sums = pairs(q[r, h, i], q_at[i]), [], [mp.mpc(0)] * 8
            keys = range(n_k - n_q + i + 1)
            for j in keys:
                plain, z = pairs(k[r, h // group, j], k_at[j])
                dot = sum(a * c for a, c in zip(turned_q[0], plain, strict=True))
                dot += sum((a * mp.conj(c)).real for a, c in zip(turned_q[1], z, strict=True))
                weights.append(mp.exp(dot / mp.sqrt(d)))
            total = sum(weights) + mp.exp(mp.mpf(float(sinks[h])))
            for weight, j in zip(weights, keys, strict=True):
                plain, z = pairs(v[r, h // group, j], k_at[j])
                sums = [s + weight / total * c for s, c in zip(sums, plain + z, strict=True)]
            _, unit = pairs([0] * 4 + [1, 0] * 4, -int(q_at[i]))
            tail = [s * u for s, u in zip(sums[4:], unit, strict=True)]
            out[r, h, i] = [float(s.real) for s in sums[:4]] + [
                float(part) for z in tail for part in (z.real, z.imag)
            ]
    return out


@pytest.mark.parametrize("start", [0, 5003])
@pytest.mark.parametrize("values", ["shared", "rotated"])
def test_the_output_is_the_formula_in_50_digits(values, start, rng):
    q, k, v = drawn(rng, 1, 4, 2, 3, 5)
    v, sinks = k if values == "shared" else v, rng.standard_normal(4)
    at = np.arange(5) + start
    of = V4.replace(values=values)
    want = exact(q, k, v, at[2:], at, sinks, 2)
    call = q, k, v, at[2:], at, sinks
    assert units(of, call, of.output(*call[:5], sinks=sinks), want) < 4
    assert units(of, call, attended(of, *call).truth().value, want) < 4
    front = of.replace(encoding=TAIL.replace(rotary_start=0))
    assert units(of, call, front.output(*call[:5], sinks=sinks), want) > 1e6


@pytest.mark.parametrize("values", ["rotated", "plain"])
def test_the_output_depends_on_offsets_alone(values, rng):
    q, k, v = drawn(rng, 2, 2, 2, 4, 4)
    of, at = Attention(TAIL, values=values), np.arange(4)
    one, other = (of.output(q, k, v, at + s, at + s) for s in (0, 100))
    far = q, k, v, at + 100, at + 100
    assert units(of, far, one, other) < 4
    assert units(of, far, of.output(q, k, v, at + 1, at), other) > 1e6


def test_a_factor_on_cos_and_sin_is_in_the_logits_alone(rng):
    """Values and output are rotated without m: with equal weights the output is the mean."""
    yarn = RoPE(12, layout="half", scaling=pr.YaRN(8.0, 512))
    q, k, v = drawn(rng, 1, 1, 1, 1, 1)
    of, at = Attention(yarn, values="rotated"), np.array([700])
    assert units(of, (q, k, v, at, at), of.output(q, k, v, at, at), v) < 4
    assert yarn.attention_factor() > 1.2


def test_lengths_are_those_of_queries_and_keys_together(rng):
    ntk = RoPE(12, layout="half", scaling=pr.DynamicNTK(4.0, 16))
    of = Attention(ntk, values="rotated")
    q, k, v = drawn(rng, 1, 1, 1, 1, 40)
    call = q, k, v, np.array([39]), np.arange(40)
    fixed = RoPE(12, layout="half", scaling=pr.GivenFrequencies(tuple(ntk.frequencies(40))))
    want = of.replace(encoding=fixed).output(*call)
    assert units(of, call, of.output(*call), want) < 4


@pytest.mark.parametrize("causal", [True, False])
def test_pytorch_computes_the_same(causal, rng):
    torch = pytest.importorskip("torch", reason="its attention is what is compared")
    q, k, v = (torch.tensor(x) for x in drawn(rng, 2, 6, 2, 5, 5))
    rope = RoPE(12, layout="half")
    turned = rope.apply(q, range(5)), rope.apply(k, range(5))
    want = torch.nn.functional.scaled_dot_product_attention(
        *turned, v, is_causal=causal, enable_gqa=True
    )
    call = q, k, v, np.arange(5), np.arange(5)
    of = Attention(rope, causal=causal)
    assert units(of, call, of.output(*call), want) < 4
    bias = pr.ALiBi(6)
    mask = torch.tensor(bias.bias(range(5), range(5))).masked_fill(
        ~torch.ones(5, 5, dtype=torch.bool).tril(), float("-inf")
    )
    want = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask[None], enable_gqa=True
    )
    assert units(bias, call, Attention(bias).output(*call), want) < 4


def test_the_sinks_are_those_of_gpt_oss(rng):
    torch = pytest.importorskip("torch", reason="the released function runs on PyTorch")
    gpt_oss = pytest.importorskip(
        "transformers.models.gpt_oss.modeling_gpt_oss", reason="its function is compared"
    )
    q, k, v = (torch.tensor(x) for x in drawn(rng, 2, 6, 2, 3, 3))
    sinks = torch.tensor(rng.standard_normal(6) * 2)
    module = torch.nn.Module()
    module.sinks, module.num_key_value_groups = sinks, 3
    want = gpt_oss.eager_attention_forward(module, q, k, v, None, 12**-0.5)[0].transpose(1, 2)
    of = Attention(None, causal=False, sinks=True)
    call = q, k, v, np.arange(3), np.arange(3), sinks
    assert units(of, call, of.output(*call[:5], sinks=sinks), want) < 4
    assert units(of, call, of.replace(sinks=False).output(*call[:5]), want) > 1e6


def test_a_query_that_sees_no_key_has_the_output_0(rng):
    q, k, v = drawn(rng, 1, 2, 2, 3, 3)
    mask = np.array([[False] * 3, [True] * 3, [True] * 3])
    out = Attention(None).output(q, k, v, range(3), range(3), mask=mask)
    assert (out[:, :, 0] == 0).all()
    full = Attention(None).output(q, k, v, range(3), range(3))
    np.testing.assert_array_equal(out[:, :, 1:], full[:, :, 1:])


@pytest.mark.parametrize("sinks", [False, True])
def test_without_keys_the_output_is_0(sinks, rng):
    q, k, v = drawn(rng, 2, 2, 1, 3, 0)
    of = Attention(TAIL, causal=False, sinks=sinks)
    out = of.output(q, k, v, range(3), range(0), sinks=np.ones(2) if sinks else None)
    assert out.shape == q.shape
    assert (out == 0).all()
    assert Attention(TAIL).output(q[:, :, :0], k, v, range(0), range(0)).shape == (2, 2, 0, 12)


@pytest.mark.parametrize("shape", [(4, 3), (7, 1, 3, 4), (5, 1, 1, 3, 4)])
def test_a_mask_that_does_not_broadcast_is_refused(shape, rng):
    q, k, v = drawn(rng, 1, 2, 2, 3, 4)
    words = r"mask must be broadcastable to \(..., H, Q, K\) = \(1, 2, 3, 4\), got"
    with pytest.raises(ValueError, match=words):
        Attention(None).output(q, k, v, range(3), range(4), mask=np.ones(shape, bool))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_output_has_the_dtype_of_q_rounded_once(dtype, rng):
    q, k, _ = (x.astype(dtype) for x in drawn(rng, 1, 2, 1, 3, 3))
    out = V4.output(q, k, k, range(3), range(3), sinks=np.ones(2))
    wide = V4.output(*(x.astype(float) for x in (q, k, k)), range(3), range(3), sinks=np.ones(2))
    np.testing.assert_array_equal(out, wide.astype(dtype))


@pytest.mark.parametrize("library", ["array_api_strict", "jax.numpy", "torch"])
def test_other_libraries_give_the_same(library, rng):
    xp = pytest.importorskip(library, reason="its arrays are what is tried")
    host = [x.astype(np.float32) for x in drawn(rng, 1, 4, 2, 3, 5)]
    arrays = [xp.asarray(x) for x in host]
    want = V4.output(*host, range(2, 5), range(5), sinks=np.ones(4))
    found = V4.output(*arrays, range(2, 5), range(5), sinks=np.ones(4))
    call = *host, np.arange(2, 5), np.arange(5), np.ones(4)
    assert units(V4, call, np.asarray(found), want) < 8


def test_json_and_expression_give_the_same_value():
    assert pr.from_dict(V4.to_dict()) == V4
    assert pr.from_dict(Attention(None).to_dict()) == Attention(None)
    assert pr.from_dict(read_expression(repr(V4))) == V4


def test_a_model_states_what_its_layers_do():
    model = pr.preset("deepseek-v4-flash")
    assert (model.values, model.sinks) == ("shared", ("main", "compress"))
    assert [len(model.layers(t)) for t in ("main", "compress")] == [2, 41]
    compress = model.attention("compress")
    yarn = pr.YaRN(16.0, 65536, attention_factor=1.0)
    assert compress.encoding == RoPE(
        512, layout="interleaved", base=160000.0, rotary_dim=64, rotary_start=448, scaling=yarn
    )
    assert (compress.values, compress.sinks, compress.softmax_scale) == ("shared", True, None)
    assert pr.from_dict(model.to_dict()) == model
    assert pr.preset("gpt-oss-20b").attention("full_attention").sinks
    mimo = pr.from_config({"model_type": "mimo_v2_flash"})
    assert mimo.sinks == ("sliding_attention",)
    assert pr.preset("llama-3.1-8b").attention() == Attention(pr.preset("llama-3.1-8b").only)


def test_deepseek_v4_names_its_layers_by_compress_ratios():
    config = {
        "model_type": "deepseek_v4",
        "num_hidden_layers": 3,
        "compress_ratios": [0, 4, 128, 0],
    }
    assert pr.from_config(config).layer_types == ("main", "compress", "compress")
    for ratios in ([0, 4], [0, 4, 5]):
        with pytest.raises(ValueError, match="compress_ratios must have one of 0, 4, 128 for each"):
            pr.from_config({**config, "compress_ratios": ratios})
    for ratios in (4, True, [[4], 0, 0, 0]):
        with pytest.raises(TypeError, match=r"compress_ratios(\[0\])? must"):
            pr.from_config({**config, "compress_ratios": ratios})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Attention(pr.Sinusoidal(12)), "added to embeddings"),
        (lambda: Attention("rope"), "encoding must be a rotary, bias or score encoding"),
        (lambda: Attention(pr.ALiBi(2), values="rotated"), "values must be 'plain' unless"),
        (lambda: Attention(TAIL, values="turned"), "values must be"),
        (lambda: Attention(pr.ALiBi(2), causal=False), "causal must be True for ALiBi"),
        (lambda: Attention(TAIL, query_scale=2.0), "query_scale must be a query scale"),
        (lambda: Attention(TAIL, sinks=1), "sinks must be"),
        (lambda: pr.preset("llama-3.1-8b").replace(sinks="main"), "sequence of layer types"),
        (lambda: pr.preset("llama-3.1-8b").replace(sinks=("main",)), "unknown layer type 'main'"),
    ],
)
def test_a_wrong_field_is_named(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sinks": None}, r"sinks must be an array \(H,\)"),
        ({"sinks": np.ones(3)}, r"sinks must have shape \(4\)"),
        ({"k": np.ones((1, 3, 5, 12))}, "H_kv divides H"),
        ({"v": np.ones((1, 2, 4, 12))}, "v must have shape"),
        ({"v": np.ones((1, 2, 5, 8))}, "v must have 12 channels"),
        ({"q": np.ones((4, 3, 12)), "k": np.ones(5)}, "k must have shape"),
        ({"q": np.ones((1, 4, 6, 12)), "q_at": range(6)}, "no more queries than keys"),
        ({"mask": np.ones((3, 5))}, "mask must be an array of bool"),
        ({"v": [1.0]}, "v must be a real floating array"),
    ],
)
def test_a_wrong_argument_is_named(change, words, rng):
    q, k, v = drawn(rng, 1, 4, 2, 3, 5)
    given = {"q": q, "k": k, "v": v, "q_at": range(2, 5), "k_at": range(5)}
    given |= {"sinks": np.ones(4), "mask": None} | change
    sinks, mask = given.pop("sinks"), given.pop("mask")
    with pytest.raises((TypeError, ValueError), match=words):
        V4.output(*given.values(), sinks=sinks, mask=mask)
    if "sinks" in change and sinks is None:
        plain = V4.replace(sinks=False)
        with pytest.raises(ValueError, match="sinks must be None"):
            plain.output(q, k, v, range(2, 5), range(5), sinks=np.ones(4))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q_at": "foo"}, "q_positions"),
        ({"k_at": [0.0, np.nan, 1.0, 2.0, 3.0]}, "k_positions"),
        ({"q_at": range(4)}, "one position for each row of q and k, 3 and 5, got 4 and 5"),
        ({"k_at": range(3)}, "one position for each row"),
    ],
)
def test_positions_without_an_encoding_are_checked_too(change, words, rng):
    q, k, v = drawn(rng, 1, 4, 2, 3, 5)
    given = {"q_at": range(2, 5), "k_at": range(5)} | change
    plain = pr.Attention(None)
    with pytest.raises((TypeError, ValueError), match=words):
        plain.output(q, k, v, *given.values())
    with pytest.raises((TypeError, ValueError), match=words):
        plain.scores(q, k, *given.values())
    assert plain.output(q, k, v, range(2, 5), range(5)).shape == q.shape[:-1] + v.shape[-1:]
