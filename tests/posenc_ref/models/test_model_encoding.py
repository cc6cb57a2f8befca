"""ModelEncoding as a value: what it says, what it refuses, its JSON form."""

import json

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref import ModelEncoding, QueryTemperature, RoPE, from_dict

HALF, OTHER = RoPE(64, layout="half"), RoPE(64, layout="half", base=1e6)
MIXED = ModelEncoding(
    "mixed",
    encodings={"sliding": HALF, "full": OTHER, "nope": None},
    layer_types=["sliding", "full", "nope", "sliding", "conv"],
    softmax_scale=0.1,
    query_scale={"nope": QueryTemperature(0.1, 8192)},
    provenance={"base": "somebody"},
)


def test_only_is_the_one_encoding():
    assert ModelEncoding("one", encodings={"a": HALF}).only == HALF
    assert ModelEncoding("same", encodings={"a": HALF, "b": HALF, "c": None}).only == HALF
    with pytest.raises(ValueError, match=r"2 encodings, by layer type: .*'sliding'.* or .*'full'"):
        _ = MIXED.only
    with pytest.raises(ValueError, match="no positional encoding in its attention layers"):
        _ = ModelEncoding("none", encodings={"a": None}).only


def test_layers():
    assert MIXED.layers("sliding") == (0, 3)
    assert MIXED.layers("other") == ()


def test_json_form_and_equality():
    again = from_dict(json.loads(json.dumps(MIXED.to_dict())))
    assert again == MIXED
    assert hash(again) == hash(MIXED)
    assert ModelEncoding("mixed", encodings={"sliding": HALF}) != MIXED
    with pytest.raises(ValueError, match="ModelEncoding has no field 'layers'"):
        from_dict({**MIXED.to_dict(), "layers": 3})
    with pytest.raises(TypeError, match="encodings must be a mapping by layer type"):
        from_dict({**MIXED.to_dict(), "encodings": []})
    with pytest.raises(ValueError, match="needs the field 'encodings'"):
        from_dict({"model": "ModelEncoding", "name": "x"})


def test_str_of_a_model_encoding():
    assert repr(MIXED).startswith("ModelEncoding('mixed', encodings={'sliding': RoPE(64, layout")
    assert str(MIXED).splitlines() == [
        "mixed (5 layers)",
        "  sliding x2    RoPE(64, layout='half')",
        "  full    x1    RoPE(64, layout='half', base=1000000.0)",
        "  nope    x1    no positional encoding; queries times QueryTemperature(0.1, 8192)",
        "  softmax scale 0.1",
    ]


def test_fields_cannot_be_changed():
    with pytest.raises(TypeError):
        MIXED.encodings["full"] = HALF
    with pytest.raises(AttributeError):
        MIXED.name = "x"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"encodings": {}}, "encodings must name at least one layer type"),
        ({"encodings": [HALF]}, "encodings must be a mapping"),
        ({"encodings": {"a": 3}}, r"encodings\['a'\] must be an encoding, or None .*, got 3"),
        ({"softmax_scale": 0.0}, "softmax_scale must be greater than 0"),
        ({"query_scale": {"b": QueryTemperature(0.1, 8)}}, "unknown layer type 'b'"),
        ({"query_scale": {"a": 2.0}}, "must be a query scale such as QueryTemperature"),
        ({"provenance": ["x"]}, "provenance must be a mapping"),
    ],
)
def test_refused(fields, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ModelEncoding("x", **{"encodings": {"a": HALF}, **fields})


def test_names_of_layer_types():
    x = np.zeros((1, 2, 64))
    with pytest.raises(TypeError, match="name must be a non-empty string"):
        ModelEncoding("", encodings={"a": HALF})
    with pytest.raises(ValueError, match=r"layer_type must be one of .*'full'.*, got 'fall'"):
        MIXED.scores("fall", x, x, 2, 2)
    with pytest.raises(ValueError, match="layers of type 'conv' have no softmax attention"):
        MIXED.scores("conv", x, x, 2, 2)
    with pytest.raises(ValueError, match="got None"):
        MIXED.scores(None, x, x, 2, 2)
    with pytest.raises(TypeError, match="q and k must be arrays"):
        MIXED.scores("full", [0.0], x, 2, 2)


def test_the_class_is_exported():
    assert pr.ModelEncoding is ModelEncoding
