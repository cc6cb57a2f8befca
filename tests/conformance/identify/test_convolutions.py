"""identify of convolutional positions and of rules of position ids."""

import numpy as np
import pytest

from posenc_ref import ConvPositions, mrope_rule
from posenc_ref.conformance import identify
from tests.conformance.identify.near import near
from tests.night import by_day


def layer(groups, *taps, **settings):
    drawn = np.random.default_rng(5)
    weight = drawn.normal(size=(8, 8 // groups, *taps)).astype(np.float32)
    bias = drawn.normal(size=8).astype(np.float32)
    return ConvPositions((weight,), (bias,), groups=groups, **settings)


LAYERS = {
    "PEG": ("convolve_grid", layer(8, 3, 3, activation="none", residual=True)),
    "wide": ("convolve_grid", layer(1, 3, 9, activation="none")),
    "line": ("convolve", layer(4, 5, activation="none")),
}


@pytest.mark.parametrize(("surface", "encoding"), LAYERS.values(), ids=list(LAYERS))
def test_a_linear_convolution_is_read_from_its_responses(surface, encoding, rng):
    card = identify(encoding.convolve, surface)
    found = card.encoding
    assert isinstance(found, ConvPositions), str(card)
    assert card.exact, str(card)
    assert found.groups == encoding.groups
    assert found.weights[0].shape == encoding.weights[0].shape
    x = rng.normal(size=(1, 30, 8))
    size = (5, 6) if surface == "convolve_grid" else ()
    assert near(found.convolve(x, *size), encoding.convolve(x, *size))


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (layer(4, 5).convolve, "not linear"),
        (lambda x: 2 * x, "no positions"),
        (lambda x: x - x.mean(axis=1, keepdims=True), "no convolution"),
    ],
    ids=["GELU", "own token", "mean"],
)
def test_what_is_no_linear_convolution_is_said(fn, words):
    card = identify(fn, "convolve")
    assert card.encoding is None
    assert any(words in text for text in card.unknown), str(card)


MODELS = ("qwen2_vl", "qwen2_5_vl", "glm4v", "qwen3_omni_moe", "hunyuan_vl", "minicpmv4_7")


@pytest.mark.parametrize("model", by_day(MODELS, ("qwen2_5_vl", "hunyuan_vl")))
def test_the_rule_of_position_ids_is_found(model):
    card = identify(mrope_rule(model).with_decoding, "mrope_position_ids")
    assert card.encoding == mrope_rule(model), str(card)
    assert card.exact
    assert model in card.facts["rule"]


def test_positions_of_no_rule_have_no_encoding():
    def backwards(types, images, videos, seconds, mask, n_steps):
        return -mrope_rule("qwen2_vl").with_decoding(types, images, videos, seconds, mask, n_steps)

    card = identify(backwards, "mrope_position_ids")
    assert card.encoding is None
    assert any("no known rule" in text for text in card.unknown), str(card)
