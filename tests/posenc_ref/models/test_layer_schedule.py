"""Layer schedules: against plain loops, as their models document them, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import config_layer_types, config_rope_layers, rope_layers
from posenc_ref.models.layer_schedule import every_nth, layer_types, window_from, window_letters

DEPTHS = st.integers(0, 40)


@given(num_layers=DEPTHS, n=st.integers(1, 9))
def test_layer_phases_count_from_the_stated_end(num_layers, n):
    by_hand = {"last": set(), "first": set(), "from-end": set()}
    layer = n - 1
    while layer < num_layers:  # the last of every full group
        by_hand["last"].add(layer)
        layer += n
    layer = 0
    while layer < num_layers:
        by_hand["first"].add(layer)
        layer += n
    layer = num_layers - 1
    while layer >= 0:
        by_hand["from-end"].add(layer)
        layer -= n
    for phase, layers in by_hand.items():
        assert every_nth(num_layers, n, phase=phase) == tuple(
            i in layers for i in range(num_layers)
        )
    assert every_nth(num_layers, n, phase=0) == every_nth(num_layers, n, phase="first")


def test_layers_besides():
    assert every_nth(5, 3, also=(0, -1)) == (True, False, True, False, True)
    assert every_nth(1, 3, also=(0, 4, -2)) == (True,)


def test_one_means_rope():
    """Llama 4 and SmolLM3: three layers rotate, the fourth does not."""
    assert rope_layers(5, no_rope_layers=[1, 1, 1, 0, 1]) == (True, True, True, False, True)
    assert rope_layers(5, no_rope_layer_interval=4) == (True, True, True, False, True)
    assert rope_layers(5, no_rope_layers=[1, 1, 1, 0, 1, 0, 0]) == rope_layers(
        5, no_rope_layer_interval=4
    )
    assert rope_layers(3, no_rope_layer_interval=1) == (False, False, False)
    assert rope_layers(3, layer_rope_theta=[1e4, 0, 5e5]) == (True, False, True)


def test_letters_end_globally():
    local, full = "sliding_attention", "full_attention"
    assert window_letters(6, "LLLG") == (local, local, local, full, local, full)
    assert window_letters(0, "LG") == ()
    assert window_from(3, 1) == (full, local, local)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: every_nth(4, 0), ValueError, "n must be at least 1, got 0"),
        (lambda: every_nth(4, 2, phase="end"), ValueError, "phase must be one of 'last'.*'end'"),
        (lambda: every_nth(4.0, 2), TypeError, "num_layers must be an integer, got 4.0"),
        (lambda: layer_types([1, 0]), TypeError, "chosen must be True or False"),
        (lambda: window_letters(4, "LLS"), ValueError, "letters L and G.*got 'LLS'"),
        (lambda: rope_layers(4), ValueError, "give exactly one of .*got none of them"),
        (
            lambda: rope_layers(2, no_rope_layers=[1, 1], no_rope_layer_interval=4),
            ValueError,
            "got no_rope_layers, no_rope_layer_interval",
        ),
        (
            lambda: rope_layers(4, no_rope_layers=[3, 7, 11, 15]),
            ValueError,
            "1 where the layer uses RoPE .it is not a list of layer numbers., got 3 for layer 0",
        ),
        (
            lambda: rope_layers(4, no_rope_layers=[1, 1]),
            ValueError,
            "an entry for each of the 4 layers, got 2",
        ),
        (
            lambda: rope_layers(2, layer_rope_theta=[1e4, -1]),
            ValueError,
            r"layer_rope_theta\[1\] must be at least 0",
        ),
        (lambda: rope_layers(2, no_rope_layers=4), TypeError, "must be a sequence"),
        (lambda: config_layer_types([]), TypeError, "config must be a mapping"),
        (lambda: config_layer_types({}), ValueError, "must have num_hidden_layers.*text_config"),
        (
            lambda: config_layer_types({"num_hidden_layers": 2, "layer_types": ["full_attention"]}),
            ValueError,
            "layer_types must name each of the 2 layers .*got 1",
        ),
        (
            lambda: config_layer_types({"num_hidden_layers": 2, "model_type": "lfm2"}),
            ValueError,
            "layer_types must be given for model_type 'lfm2'",
        ),
        (
            lambda: config_layer_types(
                {"num_hidden_layers": 2, "model_type": "new", "sliding_window_pattern": 6}
            ),
            ValueError,
            "cannot be computed from sliding_window_pattern",
        ),
        (
            lambda: config_layer_types(
                {"num_hidden_layers": 2, "model_type": "cohere2", "sliding_window_pattern": None}
            ),
            TypeError,
            "sliding_window_pattern must be an integer, got None",
        ),
        (
            lambda: config_layer_types(
                {
                    "num_hidden_layers": 1,
                    "model_type": "gemma4_text",
                    "layer_types": ["sliding_attention"],
                }
            ),
            ValueError,
            "must end with 'full_attention' for model_type 'gemma4_text'",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_exaone_documents():
    """Letters, and no window at all: its own class raises at both."""
    exaone = {"num_hidden_layers": 6, "model_type": "exaone4"}
    letters = {**exaone, "sliding_window_pattern": "LLLG"}
    assert config_layer_types(letters) == window_letters(6, "LLLG")
    assert config_rope_layers(letters) == (True, True, True, False, True, False)
    none = {**exaone, "sliding_window": None}
    assert set(config_layer_types(none)) == {"full_attention"}
    assert all(config_rope_layers(none))


def test_a_layer_type_without_rope_parameters_does_not_rotate():
    """Beam and Cohere Compass: null under the name of the layer type."""
    config = {
        "num_hidden_layers": 4,
        "model_type": "cohere_compass_text",
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "rope_parameters": {"sliding_attention": {"rope_theta": 1e4}, "full_attention": None},
    }
    assert config_rope_layers(config) == (True, False, True, False)
