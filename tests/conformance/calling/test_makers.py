"""What makes tables and configurations, and the rows of a batch: cases that were judged wrongly."""

import types

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.calling import NoConvention, bind
from posenc_ref.conformance.calling.facts import facts_of
from posenc_ref.conformance.calling.instances import candidates
from posenc_ref.conformance.calling.known.configuration import Configuration, states
from posenc_ref.conformance.calling.table_search import NoTable, find_source

HALF = RoPE(8, layout="half")
LIKE = np.zeros((1, 1, 1, 8), np.float32)


def angles(positions, dim=8, base=10000.0):
    at = np.asarray(positions, np.float64)[..., None] * base ** (-np.arange(0, dim, 2) / dim)
    return np.concatenate((at, at), -1)


def turned(x, a):
    first, second = np.split(x, 2, axis=-1)
    return (x * np.cos(a) + np.concatenate((-second, first), -1) * np.sin(a)).astype(x.dtype)


def rows_apart(q, k, position_ids):
    a = np.expand_dims(angles(position_ids), 1)
    return turned(q, a), turned(k, a)


def row_of_all(q, k, position_ids):
    return rows_apart(q, k, position_ids[:1] if position_ids.ndim == 2 else position_ids)


def flat(positions, query, key):
    """Takes (T, H * D) and (B, S, H * D)."""

    def one(x):
        heads = x.reshape(*positions.shape, -1, 8)
        return turned(heads, angles(positions)[..., None, :]).reshape(x.shape)

    return one(query), one(key)


def test_rows_of_a_batch_are_judged_where_one_call_takes_them():
    assert bind(rows_apart, HALF).tensor_layout == "bhsd"
    found = check(row_of_all, HALF, "apply_qk")
    assert [f.code for f in found.findings if f.severity == "error"] == ["row-offset"]


def test_flat_heads_say_which_call_is_not_judged():
    bound = bind(flat, HALF)
    assert bound.tensor_layout == "t(hd)"
    assert "not judged: (B, S, H * D) with positions (B, S)" in bound.how


def test_one_row_for_all_rows_is_passed_on_as_it_is():
    def of_row_0(x, position_ids):
        a = angles(position_ids[:1])
        return np.cos(a), np.sin(a)

    source = find_source(of_row_0, facts_of(HALF), "table", LIKE)
    rows = source.rows(LIKE, np.array([[0, 1, 2], [5, 6, 7]]))
    assert np.array_equal(rows.parts[0], np.cos(angles([[0, 1, 2], [0, 1, 2]])))


def test_the_rotated_part_survives_its_product():
    for head_dim in (44, 64, 90, 98):
        for rotary_dim in range(2, head_dim + 1, 2):
            part = facts_of(RoPE(head_dim, rotary_dim=rotary_dim, layout="half")).by_role["partial"]
            assert int(head_dim * part) == rotary_dim
            assert part <= 1


def test_a_configuration_states_what_is_declared():
    roles = facts_of(HALF).by_role
    own = types.SimpleNamespace(hidden_size=32, num_attention_heads=8)
    assert states(own, roles)
    assert own.head_dim == 8  # its heads have a name of their own
    assert not states(types.SimpleNamespace(head_dim=16), roles)
    assert not states(types.SimpleNamespace(head_dim=8, rope_theta=5.0), roles)
    part = {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    assert not states(types.SimpleNamespace(head_dim=8, rope_parameters=part), roles)


class OfLayers:
    def __init__(self, config):
        self.base = {t: config.rope_parameters[t]["rope_theta"] for t in config.layer_types}

    def forward(self, x, position_ids, layer_type):
        a = angles(position_ids, base=self.base[layer_type])
        return np.cos(a), np.sin(a)


def rotate_pair(q, k, cos, sin):
    def one(x):
        first, second = np.split(x, 2, axis=-1)
        turn = np.concatenate((-second, first), -1)
        return x * np.expand_dims(cos, 1) + turn * np.expand_dims(sin, 1)

    return one(q), one(k)


@pytest.mark.parametrize("layer_type", [None, "sliding_attention"])
def test_modules_are_told_the_layer_type(layer_type):
    declared = RoPE(8, layout="half", base=500.0)
    bound = bind(rotate_pair, declared, table=OfLayers, layer_type=layer_type)
    assert f"layer_type={layer_type or 'full_attention'!r}" in bound.how
    q = np.random.default_rng(0).standard_normal((2, 3, 5, 8))
    at = np.array([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
    assert np.array_equal(bound(q, q, at, at)[0], turned(q, angles(at, base=500.0)[:, None]))


def test_given_entries_are_in_the_configuration():
    facts = facts_of(HALF, {"image_size": 1024, "head_dim": 4, "spare": 1})
    config = facts.by_role["config"]
    assert (config.image_size, config["head_dim"], config.get("head_dim")) == (1024, 4, 4)
    assert config.hidden_size == 32
    assert "spare" in config
    assert facts.used == {"image_size", "head_dim"}


def swapped(q, k, positions):
    a = angles(positions)
    return {"k": turned(k, a), "q": turned(q, a)}


def test_results_are_matched_by_their_keys():
    q, k = np.random.default_rng(0).standard_normal((2, 1, 4, 3, 8))
    bound = bind(swapped, HALF, tensor_layout="bhsd")
    got = bound(q, k, np.arange(3), np.arange(3))
    assert np.array_equal(got[0], turned(q, angles(np.arange(3))))


class VisionRotaryEmbedding:
    pass


class TextRotaryEmbedding:
    pass


class LearnedRotaryEmbedding:
    def __init__(self, dim):
        self.map = nn.Linear(dim, dim)  # noqa: F821


def test_likely_makers_come_first():
    every = (VisionRotaryEmbedding, LearnedRotaryEmbedding, TextRotaryEmbedding)
    scope = {"__name__": __name__, **{cls.__name__: cls for cls in every}}

    def apply_rotary_pos_emb():
        pass

    def apply_rotary_vision():
        pass

    assert [*candidates(scope, apply_rotary_pos_emb)] == [
        TextRotaryEmbedding, VisionRotaryEmbedding,
    ]  # fmt: skip
    assert next(candidates(scope, apply_rotary_vision)) is VisionRotaryEmbedding


def test_a_likelier_maker_that_fails_is_named():
    scope = {"np": np, "angles": angles, "__name__": "own_file"}
    code = """
class TextRotaryEmbedding:
    def __init__(self, secret): ...
class VisionRotaryEmbedding:
    def __call__(self, x, position_ids):
        return np.cos(angles(position_ids)), np.sin(angles(position_ids))
def apply_rotary(q, k, cos, sin):
    def one(x):
        a, b = np.split(x, 2, axis=-1)
        turn = np.concatenate((-b, a), -1)
        return x * np.expand_dims(cos, 1) + turn * np.expand_dims(sin, 1)
    return one(q), one(k)
"""
    exec(code, scope)  # a file of its own
    how = bind(scope["apply_rotary"], HALF).how
    assert "rows of VisionRotaryEmbedding()" in how
    assert "not used: TextRotaryEmbedding: no value is known for the parameter 'secret'" in how


def build(n, dim):
    return angles(np.arange(n), 2 * dim)[:, :dim]


def test_a_parameter_without_a_value_is_the_number_of_rows():
    like = np.zeros((1, 1, 1, 64), np.float32)  # more channels than rows of the trial
    source = find_source(build, facts_of(RoPE(64, layout="half")), "build", like)
    assert source.kind == "length"
    assert source.rows(like, np.arange(70)).parts[0].shape == (70, 64)


def make_freqs(n, secret, dim=8):
    return angles(np.arange(n))


def test_parameters_without_a_value_are_named():
    message = "make_freqs: no value is known for the parameters 'n', 'secret'"
    with pytest.raises(NoTable, match=message):
        find_source(make_freqs, facts_of(HALF), "make_freqs", LIKE)
    with pytest.raises(NoConvention, match=message):
        bind(rotate_pair, HALF, table=make_freqs)


def test_messages_have_no_arrays():
    def forward(x, position_ids):
        raise KeyError(position_ids)

    with pytest.raises(NoTable) as error:
        find_source(forward, facts_of(HALF), "table", LIKE)
    assert "called with positions: KeyError;" in str(error.value)


def test_a_configuration_as_a_mapping():
    config = Configuration({}, {"a": 1}, {"b": 2})
    assert config.values() == {"a": 1, "b": 2}


def test_what_the_suite_does_not_try_is_not_refused():
    text = str(check(rows_apart, HALF, "apply_qk"))
    assert ": not tried (q and k at different positions: the function takes one set)" in text
    assert "refused (NotTried" not in text


def test_numbers_that_were_left_at_their_default_are_shown():
    def tables(length, dim, spread=5000.0, bits=8):
        return angles(np.arange(length), dim, spread)

    facts = facts_of(HALF)
    assert facts.described(tables) == "length=131072, dim=8, " + ("spread=5000.0 (its default)")
