"""Recipes for ALiBi, T5's buckets and bias, and logits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from posenc_ref import ALiBi, T5Bias, YaRN
from posenc_ref.conformance.exact.recipe import Group, Recipe, Theme, numbers, whole
from posenc_ref.conformance.exact.reference import lengths

from .recipes_rope import ROFORMER, half, pairs

ALIBI = "Press, Smith, Lewis 2021, Train Short, Test Long, arXiv:2108.12409, section 3"
SLOPES = "ofirpress/attention_with_linear_biases, fairseq/models/transformer.py, get_slopes"
MPT = "mosaicml/llm-foundry, layers/attention.py, gen_slopes (alibi_bias_max)"
ENCODER = "ofirpress/attention_with_linear_biases, issue 5 (symmetric form of encoders)"
SHAW = "Shaw et al. 2018, arXiv:1803.02155, section 3.1, equation (4), without clipping"
TRANSFORMER_XL = "Dai et al. 2019, Transformer-XL, arXiv:1901.02860, appendix B"
FALCON = "tiiuae/falcon-rw-1b, modeling_falcon.py: (q . k + alibi) / sqrt(d)"
MPNET = "Song et al. 2020, MPNet, arXiv:2004.09297; transformers, MPNetSelfAttention"
LAYOUTLMV3 = "Huang et al. 2022, LayoutLMv3, arXiv:2204.08387; LayoutLMv3SelfAttention"
T5 = "Raffel et al. 2019, arXiv:1910.10683, section 2.1; mesh_tensorflow _relative_position_bucket"


def alibi() -> Theme:
    """Return the vectors of ALiBi's slopes and biases."""
    groups = [_slopes(f"alibi-{n}-slopes", ALiBi(n), SLOPES) for n in (1, 6, 8, 12, 20, 40, 112)]
    groups += [_slopes(f"alibi-{n}-slopes-16", ALiBi(n, max_bias=16.0), MPT) for n in (16, 24)]
    groups += [
        _bias("alibi-8-bias", ALiBi(8), ALIBI, (4, 4), (1, 9), (1, 260)),
        _bias("alibi-12-bias", ALiBi(12), SLOPES, (4, 4), (2, 7)),
        _bias("alibi-16-bias", ALiBi(16), ALIBI, (1, 6)),
        _bias("alibi-4-encoder-bias", ALiBi(4, causal=False), ENCODER, (4, 4), (3, 9)),
        _bias("alibi-8-encoder-bias", ALiBi(8, causal=False), ENCODER, (4, 4), (3, 9)),
        _bias("alibi-12-encoder-bias", ALiBi(12, causal=False), ENCODER, (4, 4), (3, 9)),
        logits_of("alibi-2-scores", ALiBi(2), ALIBI),
    ]
    return Theme("alibi", "ALiBi: slopes and biases", tuple(groups))


def t5() -> Theme:
    """Return the vectors of T5's buckets and biases."""
    # Buckets do not depend on the values of the table.
    empty, wide = np.zeros((32, 2), np.float32), np.zeros((64, 2), np.float32)
    sines = np.sin(np.arange(32 * 4, dtype=np.float64) * 1.7).reshape(32, 4) * 3
    table = sines.astype(np.float32)
    groups = (
        _bucket("t5-bucket", T5Bias(empty)),
        _bucket("t5-bucket-decoder", T5Bias(empty, bidirectional=False)),
        _bucket("t5-bucket-256", T5Bias(empty, max_distance=256)),
        _bucket("t5-bucket-256-decoder", T5Bias(empty, max_distance=256, bidirectional=False)),
        _bucket("t5-bucket-64", T5Bias(wide, num_buckets=64, max_distance=256)),
        _bias("t5-bias", T5Bias(table), T5, (4, 4), (2, 9), (1, 140)),
        _bias("t5-bias-decoder", T5Bias(table, bidirectional=False), T5, (2, 20), (1, 140)),
        logits_of("t5-scores", T5Bias(table[:, :2].copy()), T5),
    )  # fmt: skip
    return Theme("t5", "T5: buckets and biases", groups)


def logits() -> Theme:
    """Return the vectors of logits: the scale applies to q.k only, or also to the bias."""
    scaled = T5Bias(numbers("t5-scaled", 32, 2), scaled=True)
    groups = (
        logits_of("alibi-2-inside-scores", ALiBi(2, bias_inside_scale=True), FALCON),
        logits_of("t5-scaled-scores", scaled, MPNET),
        logits_of("t5-inside-scores", scaled.replace(bias_inside_scale=True), LAYOUTLMV3),
    )
    return Theme("bias-logits", "Logits with a bias, added after or before the scaling", groups)


def scores() -> Theme:
    """Return the vectors of logits of rotary encodings and of relative-position scores."""
    yarn = YaRN(4.0, 32, attention_factor=1.5)
    vectors = {"q": numbers("relative-q", 4, 8), "rel": numbers("relative-r", 7, 8)}
    relative = Recipe("first", "Four queries, and a vector for every offset between them.", vectors)
    shift = Recipe("last", "Queries: the last three of five tokens.", {"x": numbers("shift", 3, 5)})
    square = Recipe("all", "Four queries and their four keys.", {"x": numbers("square", 4, 4)})
    groups = (
        logits_of("rope-16-interleaved-scores", pairs(16), ROFORMER),
        logits_of("rope-16-half-yarn-scores", half(16, yarn), ROFORMER),
        logits_of("rope-16-half-partial-scores", half(16, rotary_dim=8), ROFORMER),
        Group("relative-shift", "relative_shift", None, TRANSFORMER_XL, (square, shift)),
        Group("relative-scores", "relative_scores", None, SHAW, (relative,)),
    )
    return Theme("scores", "Logits, and scores by relative position", groups)


def _slopes(ident: str, encoding: ALiBi, spec: str) -> Group:
    n = encoding.num_heads
    case = Recipe("all", f"The slopes of {n} heads.", {"num_heads": n})
    return Group(ident, "slopes", encoding, spec, (case,))


def _bias(ident: str, encoding: Any, spec: str, *sizes: tuple[int, int]) -> Group:
    return Group(ident, "bias", encoding, spec, tuple(lengths(*size) for size in sizes))


def _bucket(ident: str, encoding: T5Bias) -> Group:
    def case(name: str, comment: str, distances: Iterable[int]) -> Recipe:
        both_ways = sorted({sign * n for n in distances for sign in (1, -1)})
        return Recipe(name, f"{comment}, both ways.", {"relative_position": whole(*both_ways)})

    first = encoding.thresholds
    edges = "The first distance of every bucket and the one before it"
    cases = (
        case("near", "Distances up to 40", range(41)),
        case("edges", edges, (n - d for n in first for d in (0, 1))),
        case("far", "Past the last threshold", (encoding.max_distance + 1, 300, 5000)),
    )
    return Group(ident, "bucket", encoding, T5, cases)


def logits_of(
    ident: str, encoding: Any, spec: str, comment: str = "Logits of five tokens."
) -> Group:
    """Return the scores of five tokens, with two heads unless the encoding sets them."""
    shape = (1, getattr(encoding, "num_heads", 2), 5, getattr(encoding, "head_dim", 8))
    q, k = (numbers(f"{ident}-{name}", *shape) for name in "qk")
    case = Recipe("first", comment, {"q": q, "k": k})
    return Group(ident, "scores", encoding, spec, (case,))
