"""What an identified encoding is called, and what is declared to check it."""

from types import SimpleNamespace

import numpy as np
import pytest

from posenc_ref import ModelEncoding, NTKScaling, RoPE, Sinusoidal, T5Bias
from posenc_ref.conformance.identify.fit.measurement import Factor, Measurement
from posenc_ref.conformance.identify.function import declaration
from posenc_ref.conformance.identify.names import _candidates, _given, _sliced
from posenc_ref.conformance.identify.sinusoid import _relations

HALF = RoPE(16, layout="half")
T5 = T5Bias(np.zeros((32, 2)))


def test_frequencies_above_1_are_a_base_with_multiplied_positions():
    w = 2 * np.pi * 100.0 ** (-np.arange(8) / 8)
    (found,) = _given(Measurement.of("float64", w, np.full(8, 1e-12), Factor()))
    assert found == "base=100 with positions multiplied by 6.2831853 = 2 pi"


@pytest.mark.parametrize(("pairs", "has_ntk"), [(1, False), (8, True)])
def test_one_pair_has_no_ntk_scaling(pairs, has_ntk):
    w = 100.0 ** (-np.arange(pairs) / pairs)
    fits = _candidates(Measurement.of("float64", w, np.full(pairs, 1e-12), Factor()))
    assert any(isinstance(fit.scaling, NTKScaling) for fit in fits) is has_ntk


def test_what_one_column_leaves_open():
    (base,) = _relations(Sinusoidal(2), SimpleNamespace(w=np.ones(1)))
    assert base.startswith("any base: the only pair")
    assert _relations(Sinusoidal(8), SimpleNamespace(w=np.ones(4))) == ()


def test_the_channels_that_a_preset_rotates():
    assert _sliced("x", HALF) == "x (all of its 16 channels)"
    assert _sliced("x", HALF.replace(rotary_dim=4)) == "x (4 of its 16 channels)"


@pytest.mark.parametrize(
    ("encoding", "scale", "is_own"),
    [(T5, 1.0, True), (T5, 0.25, False), (HALF, 0.25, True), (HALF, 1.0, False)],
)
def test_the_encodings_own_scale_is_not_declared(encoding, scale, is_own):
    card = SimpleNamespace(
        encoding=encoding, softmax_scale=scale, subject="f", surface="scores", facts={}
    )
    declared = declaration(card, 16)
    assert (declared is encoding) is is_own
    if not is_own:
        assert isinstance(declared, ModelEncoding)
        assert declared.softmax_scale == scale
