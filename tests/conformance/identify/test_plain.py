"""identify of functions of positions, layers and scales, and without a declared surface."""

import numpy as np
import pytest

from posenc_ref.conformance import identify
from tests.conformance.handwritten import sinusoid


def counted(padding):
    return lambda mask: np.where(mask == 1, np.cumsum(mask, axis=-1) - 1, padding)


def documents(lengths):
    return np.concatenate([np.zeros(0, int), *(np.arange(n) for n in lengths)])


def offsets(window, factor=None):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = y[:, None] - y, x[:, None] - x
    return (dy + h - 1) * (2 * w - 1 if factor is None else factor) + dx + w - 1


def permuted(w, n):
    return w.reshape(n, 2, len(w) // n // 2, -1).swapaxes(1, 2).reshape(w.shape)


def inverse(w, n):
    return w.reshape(n, len(w) // n // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)


def shifted(x):
    q, k = x.shape
    return np.pad(x, ((0, 0), (1, 0))).reshape(k + 1, q)[1:].reshape(q, k)


EXACT = {
    "position_ids": (counted(0), "posenc_ref.position_ids(attention_mask)"),
    "position_ids, padding 1": (counted(1), "posenc_ref.position_ids(attention_mask, padding=1)"),
    "packed": (documents, "posenc_ref.packed(lengths)"),
    "relative_index": (offsets, "posenc_ref.relative_index(window)"),
    "relative_shift": (shifted, "posenc_ref.relative_shift(x)"),
    "permute_weights": (permuted, "posenc_ref.permute_weights(w, n_heads)"),
    "permute_weights, back": (
        inverse,
        "posenc_ref.permute_weights(w, n_heads, source='interleaved', target='half')",
    ),
    "grid_positions": (
        lambda h, w, merge: np.stack(np.divmod(np.arange(h * w), w)),
        "posenc_ref.grid_positions(height, width)",
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_function_of_the_specification_is_named_with_its_settings(name):
    fn, code = EXACT[name]
    card = identify(fn, name.partition(",")[0])
    assert card.function == code, str(card)
    assert card.exact, str(card)
    assert card.verdict == code


NAMED = {
    "packed": (lambda n: np.arange(int(n.sum())), "packing"),
    "relative_index": (lambda window: offsets(window, window[1]), "index-collision"),
    "position_ids": (lambda mask: np.broadcast_to(np.arange(mask.shape[1]), mask.shape), "padding"),
}


@pytest.mark.parametrize("surface", NAMED)
def test_a_known_mistake_is_the_deviation(surface):
    fn, code = NAMED[surface]
    card = identify(fn, surface)
    assert card.function.startswith(f"posenc_ref.{surface}(")
    assert [f.code for f in card.deviations] == [code], str(card)
    assert not card.exact


def test_an_unknown_function_is_none():
    card = identify(lambda n: np.arange(int(n.sum())) ** 2, "packed")
    assert not card.found, str(card)
    assert any("not those of posenc_ref.packed" in text for text in card.unknown)


def test_layers_softmax_scale_and_padding():
    card = identify(lambda n: np.arange(n) % 4 != 3, "layers")
    assert card.function == "an encoding in all layers, except every 4th layer, from layer 3 on"
    scaled = identify(lambda: 128**-0.5, "softmax_scale")
    assert scaled.function == "1/sqrt(128)"
    assert not identify(lambda: 0.0777, "softmax_scale").found
    weighted = identify(lambda: 192**-0.5 * (1 + 0.07 * np.log(40)) ** 2, "softmax_scale")
    assert weighted.function.startswith("1/sqrt(192) times the square of YaRN's factor 1.25822")
    assert weighted.function.endswith("(factor=40, mscale_all_dim=0.7)")
    ids = identify(lambda t: np.cumsum(t != 3, axis=-1) * (t != 3) + 3, "ids_from_tokens")
    assert ids.encoding.padding_idx == 3, str(ids)
    assert ids.exact, str(ids)


@pytest.mark.parametrize(
    ("fn", "surface"),
    [
        (documents, "packed"),
        (lambda attention_mask: counted(0)(attention_mask), "position_ids"),
        (lambda window: offsets(window), "relative_index"),
        (lambda x: x + sinusoid(dim=x.shape[-1])(np.arange(x.shape[1])), "add"),
    ],
    ids=["packed", "position_ids", "relative_index", "add"],
)
def test_without_a_declared_surface_all_that_fit_are_tried(fn, surface):
    card = identify(fn, max_position=256)
    assert card.surface == surface, str(card)
    assert card.exact, str(card)
    assert surface in card.facts.get("surface", surface)
