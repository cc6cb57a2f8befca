"""Sines of box coordinates: 50 digits, the DETR family in transformers, and the mistakes."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import BoxSine, DETRSine, Sinusoidal, from_dict
from posenc_ref.accuracy import budget
from posenc_ref.conformance import check
from tests.posenc_ref.exact_features import judge, mp, rows, waves

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models

BOXES = np.random.default_rng(23).uniform(0, 1, (4, 50)).astype(np.float32)
TWO_PI = 2 * np.pi


def exactly(coordinates, order, bases, pairs, scale):
    """Interleaved sines and cosines of ``scale c / base**(k/pairs)``, coordinates by ``order``."""

    def angles():
        turn = mp.mpf(scale)
        yield [
            turn * mp.mpf(coordinates[a]) * w for a in order for w in waves(bases[a], pairs, pairs)
        ]

    return rows(angles, lambda s, c: [v for pair in zip(s, c, strict=True) for v in pair])


@given(
    pairs=st.integers(1, 5),
    form=st.sampled_from([("xywh", "yxwh"), ("xywh", "xywh"), ("xywh", "hwyx"), ("xy", "yx")]),
    base=st.floats(1.5, 1e6),
    scale=st.sampled_from([TWO_PI, 1.0, 100.0]),
    box=st.lists(st.floats(-1, 2), min_size=4, max_size=4),
)
def test_every_field(pairs, form, base, scale, box):
    axes, order = form
    n = len(axes)
    encoding = BoxSine(2 * n * pairs, axes=axes, axis_order=order, base=base, scale=scale)
    exact = exactly(box, [axes.index(a) for a in order], [base] * 4, pairs, scale)
    assert judge(exact, encoding.table(np.array(box[:n])[:, None])) <= 1


@given(
    place=st.tuples(st.floats(0, TWO_PI), st.floats(0, TWO_PI)), order=st.sampled_from(["hw", "wh"])
)
def test_another_temperature_for_the_width(place, order):
    encoding = DETRSine(12, base=30.0, width_base=500.0, axis_order=order)
    exact = exactly(place, ["hw".index(a) for a in order], (30.0, 500.0), 3, 1.0)
    assert judge(exact, encoding.table(np.array(place)[:, None])) <= 1
    assert encoding.base == 30.0
    assert from_dict(encoding.to_dict()) == encoding


# -- other people's code ---------------------------------------------------------------------


def encoded(module, boxes, features, **settings):
    tensor = torch.as_tensor(boxes.T.copy())[None]
    return module.encode_sinusoidal_position_embedding(tensor, num_pos_feats=features, **settings)[
        0
    ]


def proposals(boxes):
    """Deformable DETR, whose function takes logits."""
    model = models.deformable_detr.modeling_deformable_detr.DeformableDetrModel
    logits = torch.logit(torch.as_tensor(boxes.T.copy(), dtype=torch.float64))[None]
    fake = SimpleNamespace(config=SimpleNamespace(d_model=32))
    return model.get_proposal_pos_embed(fake, logits)[0].float()


def of(name, **settings):
    module = getattr(getattr(models, name), f"modeling_{name}")
    return lambda boxes: encoded(module, boxes, 16, **settings)


POINTS = BoxSine(32, axes="xy", axis_order="yx")
PEERS = {
    "Conditional DETR": (of("conditional_detr"), POINTS),
    "DAB-DETR": (of("dab_detr"), BoxSine(64)),
    "Grounding DINO": (of("grounding_dino", temperature=20), BoxSine(64, base=20)),
    "LW-DETR": (of("lw_detr"), BoxSine(64)),
    "RF-DETR": (of("rf_detr"), BoxSine(64)),
    "Deformable DETR": (proposals, BoxSine(64, axis_order="xywh")),
}


def measured(name):
    peer, encoding = PEERS[name]
    boxes = BOXES[: encoding.num_axes]
    return encoding.truth(boxes).score(np.asarray(peer(boxes))).max()


@pytest.mark.parametrize("name", PEERS)
def test_boxes_of_libraries(name):
    assert measured(name) <= budget("float32")
    peer, encoding = PEERS[name]
    boxes = BOXES[: encoding.num_axes]
    table = np.asarray(peer(boxes))
    axes = encoding.axes
    turned = axes if encoding.axis_order != axes else "yxwh"
    for wrong in ({"axis_order": turned}, {"base": 1000.0}, {"scale": 1.0}):
        assert encoding.replace(**wrong).truth(boxes).score(table).max() > budget("float32"), wrong
    if axes == "xywh" and encoding.axis_order == "yxwh":  # w and h stay where they are
        assert encoding.replace(axis_order="yxhw").truth(boxes).score(table).max() > budget(
            "float32"
        )


def test_temperatures_of_dab_detr():
    """temperature_height and temperature_width are two settings, 20 both by default."""
    mask = torch.zeros(1, 5, 7, dtype=torch.bool)
    mask[:, :4, :5] = True
    config = models.dab_detr.DabDetrConfig(
        hidden_size=32, temperature_height=30, temperature_width=500
    )
    module = models.dab_detr.modeling_dab_detr.DabDetrSinePositionEmbedding(config)
    table = np.moveaxis(np.asarray(module(torch.zeros(1), mask)), 1, -1)
    right = DETRSine(32, base=30, width_base=500)

    def worst(encoding):
        return encoding.truth(encoding.positions(mask)).score(table).max()

    assert worst(right) <= budget("float32")
    for wrong in ({"width_base": None}, {"base": 500, "width_base": 30}):
        assert worst(right.replace(**wrong)) > budget("float32")


def test_numbers_of_text_tokens_times_two_pi_leave_two_columns_empty():
    """Grounding DINO's text: the fastest pair comes round at every token."""
    module = models.grounding_dino.modeling_grounding_dino
    tokens = np.arange(40, dtype=np.float32)[None]
    table = np.asarray(encoded(module, tokens, 16))
    encoding = Sinusoidal(16, position_scale=TWO_PI)
    assert encoding.truth(tokens[0]).score(table).max() <= budget("float32")
    flat = encoding.table(tokens[0], dtype=np.float32)[:, :2]
    assert (flat.astype(np.float16) == [0.0, 1.0]).all()
    other = Sinusoidal(16).table(tokens[0], dtype=np.float32)[:, :2]
    assert (other[1:].astype(np.float16) != [0.0, 1.0]).all()


# -- the suite -------------------------------------------------------------------------------


def naive(order="yxwh", base=10000.0, scale=TWO_PI, layout="interleaved"):
    """A float32 table of positions (4, S)."""

    def table(positions):
        w = (base ** (-np.arange(8) / 8)).astype(np.float32)
        parts = []
        for a in order:
            c = np.asarray(positions["xywh".index(a)], np.float32) * np.float32(scale)
            both = np.stack([np.sin(c[:, None] * w), np.cos(c[:, None] * w)], axis=-1)
            parts.append(both.reshape(-1, 16) if layout == "interleaved"
                         else np.moveaxis(both, -1, 1).reshape(-1, 16))  # fmt: skip
        return np.concatenate(parts, axis=1)

    return table


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({}, None),
        ({"order": "xywh"}, "axis-order"),
        ({"order": "yxhw"}, "axis-order"),
        ({"base": 20.0}, "base"),
        ({"scale": 1.0}, "position-scale"),
        ({"layout": "concat"}, "layout"),
    ],
)
def test_the_suite_names_what_is_wrong(wrong, code):
    report = check(naive(**wrong), BoxSine(64), "table")
    assert report.codes == ([code] if code else [])
    assert report.passed == (code is None)


def test_one_temperature_for_both_is_named():
    declared = DETRSine(32, base=20.0, width_base=500.0)
    report = check(lambda p: DETRSine(32, base=20.0).table(p, dtype=np.float32), declared, "table")
    assert report.codes == ["base"]
    assert "the base is the same for width and height" in report.findings[0].message


# -- values and errors -----------------------------------------------------------------------


@pytest.mark.parametrize("value", [BoxSine(8), POINTS, DETRSine(8, width_base=20.0)], ids=repr)
def test_json_and_back(value):
    assert from_dict(value.to_dict()) == value
    assert eval(repr(value), {type(value).__name__: type(value)}) == value


def test_arguments():
    for make, text in (
        (lambda: BoxSine(12), "dim must be a multiple of 8, because each of the 4 .*; got 12"),
        (lambda: BoxSine(8, axes="xyw"), "axes must be one of 'xywh', 'xy', 'xyz', 'xyzwhd', got"),
        (lambda: BoxSine(8, axes="xy"), "axis_order must be one of 'xy', 'yx', got 'yxwh'"),
        (lambda: BoxSine(8, scale=0), "scale must be greater than 0"),
        (lambda: BoxSine(8).table([[0.5], [0.5]]), "A = 4 axes"),
        (lambda: BoxSine(8).grid(2, 2), "BoxSine has no grid"),
        (lambda: DETRSine(8, width_base=1.0), "width_base must be greater than 1"),
    ):
        with pytest.raises(ValueError, match=text):
            make()


@pytest.mark.parametrize("scale", [0, 0.0, -0.5, float("nan"), float("inf")])
def test_the_scale_is_above_zero(scale):
    """With 0 all boxes have one row."""
    with pytest.raises(ValueError, match=r"^scale must be"):  # not position_scale, of a part
        BoxSine(16, scale=scale)
    assert BoxSine(16, scale=0.125).scale == 0.125
