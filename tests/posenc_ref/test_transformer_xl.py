"""Transformer-XL, XLNet and Conformer: a double loop in 50 digits, and the real modules."""

import numpy as np
import pytest

from posenc_ref import Sinusoidal, TransformerXL, XLNet, from_dict, relative_shift
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

from .naive import K_AT, Q_AT, D, H, check_terms, dot, k, numbers, q, worst_logits

mp = mpmath().mp
WIDE = 8
RNG = np.random.default_rng(106)
W, U, V = numbers(RNG, H, D, WIDE), numbers(RNG, H, D), numbers(RNG, H, D)


def wave(p, layout):
    """R(p) in 50 digits."""
    angles = [p / mp.mpf(10000) ** (mp.mpf(2 * c) / WIDE) for c in range(WIDE // 2)]
    pairs = [(mp.sin(a), mp.cos(a)) for a in angles]
    if layout == "interleaved":
        return [x for pair in pairs for x in pair]
    return [s for s, _ in pairs] + [c for _, c in pairs]


@pytest.mark.parametrize(
    ("layout", "clamp"), [("concat", None), ("interleaved", None), ("concat", 9)]
)
def test_terms_against_a_double_loop(layout, clamp):
    def position(x):
        def of(b, h, i, j):
            p = int(Q_AT[i]) - int(K_AT[j])
            p = p if clamp is None else min(max(p, -clamp), clamp)
            r = wave(p, layout)
            a = q[b, h, i] if x is None else x[h]
            return [mp.mpf(float(a[c])) * mp.mpf(float(W[h, c, m])) * r[m]
                    for c in range(D) for m in range(WIDE)]  # fmt: skip

        return of

    encoding = TransformerXL(W, U, V, sinusoid=Sinusoidal(WIDE, layout=layout), clamp=clamp)
    summands = {
        "content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j]),
        "content-position": position(None),
        "position-content": lambda b, h, i, j: dot(U[h], k[b, h, j]),
        "position-position": position(V),
    }
    with mp.workdps(DIGITS):
        check_terms(encoding, summands, 1 / mp.sqrt(D))
        plain = {name: summands[name] for name in list(summands)[:2]}
        check_terms(encoding.replace(content_bias=None, position_bias=None), plain, 1 / mp.sqrt(D))


def xlnet(attn_type="bi"):
    import torch
    from transformers.models.xlnet.configuration_xlnet import XLNetConfig
    from transformers.models.xlnet.modeling_xlnet import XLNetModel

    from .attention import filled, host, softmax_inputs, tokens

    config = XLNetConfig(
        vocab_size=5, d_model=24, n_head=3, n_layer=1, d_inner=8, attn_type=attn_type
    )
    model = filled(XLNetModel(config))
    layer, n = model.layer[0].rel_attn, 9
    h, g = tokens(n, 2, 24), tokens(n, 2, 24, seed=4)
    r = model.relative_positional_encoding(n, n, bsz=2).double()
    segment = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2])
    apart = torch.tensor(segment[:, None] != segment).long()
    seg_mat = torch.nn.functional.one_hot(apart, 2).double()[:, :, None, :].expand(n, n, 2, 2)
    with softmax_inputs() as seen:
        layer(h, g, None, None, r, seg_mat)
    encoding = XLNet(
        host(layer.r).transpose(1, 2, 0),
        host(layer.r_w_bias),
        host(layer.r_r_bias),
        host(layer.r_s_bias),
        host(layer.seg_embed),
        sinusoid=Sinusoidal(24, layout="concat"),
    )
    sides = [host(torch.einsum("ibh,hnd->bnid", x, w))
             for x, w in ((h, layer.q), (g, layer.q), (h, layer.k))]  # fmt: skip
    return encoding, segment, sides, seen


def test_both_streams_of_xlnet():
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    encoding, segment, (content, query, keys), seen = xlnet()
    assert len(seen) == 2
    for stream, logits in zip((content, query), seen, strict=True):
        extra = encoding.segment_term(stream, segment, segment)
        # The module's sinusoids are computed in float32.
        assert worst_logits(encoding, stream, keys, logits - extra, "float32") <= budget("float32")
        assert worst_logits(encoding, stream, keys, logits, "float32") > budget("float32")
        signs = np.repeat([-1.0, 1.0], 12)  # of sines and cosines: key minus query
        mirrored = encoding.replace(projection=encoding.projection * signs)
        assert worst_logits(mirrored, stream, keys, logits - extra, "float32") > budget("float32")


def test_the_segment_term_one_number_at_a_time(rng):
    s, e = numbers(rng, H, D), numbers(rng, 2, H, D)
    encoding = XLNet(W, U, V, s, e, sinusoid=Sinusoidal(WIDE, layout="concat"))
    mine, theirs = np.array([0, 1, 1, 3]), np.array([1, 1, 0, 3, 2])
    want, size = np.zeros((1, H, 4, 5)), np.zeros((1, H, 4, 5))
    for h, i, j in np.ndindex(H, 4, 5):
        row = e[int(mine[i] != theirs[j]), h]
        parts = [(float(a) + float(b)) * float(c) for a, b, c in zip(q[0, h, i], s[h], row,
                                                                   strict=True)]  # fmt: skip
        want[0, h, i, j] = sum(parts) / D**0.5
        size[0, h, i, j] = (np.abs(q[0, h, i]) + np.abs(s[h])) @ np.abs(row) / D**0.5
    found = encoding.segment_term(q, mine, theirs)
    narrow = q.astype(np.float32)
    wide = encoding.segment_term(narrow.astype(np.float64), mine, theirs)
    rounded = encoding.segment_term(narrow, mine, theirs)
    assert rounded.tobytes() == wide.astype(np.float32).tobytes()
    assert Truth(want, size, 0 * size).score(found).max() <= budget("float64")


def conformer():
    from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as module
    from transformers.models.wav2vec2_conformer.configuration_wav2vec2_conformer import (
        Wav2Vec2ConformerConfig,
    )

    from .attention import filled, heads, host, softmax_inputs, tokens

    config = Wav2Vec2ConformerConfig(
        hidden_size=24, num_attention_heads=3, position_embeddings_type="relative"
    )
    attention = filled(module.Wav2Vec2ConformerSelfAttention(config))
    x = tokens(2, 11, 24)
    rows = module.Wav2Vec2ConformerRelPositionalEmbedding(config)(x).double()
    with softmax_inputs() as seen:
        attention(x, relative_position_embeddings=rows)
    encoding = TransformerXL(
        host(attention.linear_pos.weight).reshape(3, 8, 24),
        host(attention.pos_bias_u),
        host(attention.pos_bias_v),
        sinusoid=Sinusoidal(24),
    )
    sides = (heads(f(x), 3) for f in (attention.linear_q, attention.linear_k))
    return encoding, *sides, seen[0]


def test_the_real_conformer():
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    encoding, q_, k_, logits = conformer()
    assert worst_logits(encoding, q_, k_, logits, "float32") <= budget("float32")
    for wrong in (
        encoding.replace(sinusoid=Sinusoidal(24, layout="concat")),
        encoding.replace(position_bias=None),
    ):
        assert worst_logits(wrong, q_, k_, logits, "float32") > budget("float32")


def test_the_shift_is_the_gather_for_keys_up_to_the_query():
    """Transformer-XL's own way: scores by distance K - 1 .. 0, then shifted."""
    encoding = TransformerXL(W, sinusoid=Sinusoidal(WIDE, layout="concat"))
    n_q, n_k = 4, 5
    rows = encoding.sinusoid.table(range(n_k - 1, -1, -1))
    by_distance = np.einsum("bhid,hdm,cm->bhic", q, W.astype(np.float64), rows) * D**-0.5
    q_at, k_at = np.arange(n_k - n_q, n_k), np.arange(n_k)
    truth = encoding.truths(q, k, q_at[:, None], k_at[None, :], D**-0.5)["content-position"]
    score = truth.score(relative_shift(by_distance))
    visible = k_at <= q_at[:, None]
    assert np.where(visible, score, 0.0).max() <= budget("float64")
    assert score[..., ~visible].max() > budget("float64")


def test_values_and_refusals(rng):
    sinusoid = Sinusoidal(WIDE, layout="concat")
    encoding = TransformerXL(W, U, V, sinusoid=sinusoid, clamp=3)
    assert from_dict(encoding.to_dict()) == encoding
    whole = XLNet(W, U, V, U, numbers(rng, 2, H, D), sinusoid=sinusoid)
    assert from_dict(whole.to_dict()) == whole
    with pytest.raises(TypeError, match="sinusoid must be a Sinusoidal, got 8"):
        TransformerXL(W, sinusoid=8)
    with pytest.raises(ValueError, match="the 8 columns that projection takes, got 6"):
        TransformerXL(W, sinusoid=Sinusoidal(6))
    with pytest.raises(ValueError, match=r"position_bias must have shape \(2, 6\)"):
        TransformerXL(W, U, V[:1], sinusoid=sinusoid)
    with pytest.raises(ValueError, match="segment_bias and segments must both be given"):
        XLNet(W, U, V, U, sinusoid=sinusoid)
    with pytest.raises(ValueError, match="segments must be given for segment_term"):
        XLNet(W, U, V, sinusoid=sinusoid).segment_term(q, [0] * 4, [0] * 5)


FUNNEL = ("relative_shift", "factorized")


def funnel(kind):
    """Where its first token is not kept apart."""
    from transformers.models.funnel import modeling_funnel as module
    from transformers.models.funnel.configuration_funnel import FunnelConfig

    from .attention import filled, heads, host, softmax_inputs, tokens

    config = FunnelConfig(
        d_model=24, n_head=3, d_head=8, attention_type=kind, separate_cls=False, block_sizes=[1]
    )
    attention, x = filled(module.FunnelRelMultiheadAttention(config, 0)), tokens(2, 9, 24)
    inputs = module.FunnelAttentionStructure(config).eval().init_attention_inputs(x)
    with softmax_inputs() as seen:
        attention(x, x, x, inputs)
    encoding = TransformerXL(
        host(attention.r_kernel).transpose(1, 2, 0),
        host(attention.r_w_bias),
        host(attention.r_r_bias),
        sinusoid=Sinusoidal(24, layout="concat"),
    )
    return encoding, heads(attention.q_head(x), 3), heads(attention.k_head(x), 3), seen[0]


@pytest.mark.parametrize("kind", FUNNEL)
def test_both_ways_of_the_real_funnel(kind):
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    encoding, q_, k_, logits = funnel(kind)
    assert worst_logits(encoding, q_, k_, logits, "float32") <= budget("float32")
    wrong = encoding.replace(position_bias=None)
    assert worst_logits(wrong, q_, k_, logits, "float32") > budget("float32")
