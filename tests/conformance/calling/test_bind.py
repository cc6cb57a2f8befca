"""Which way of calling is chosen, what the report says of it, and what happens if none fits."""

import numpy as np
import pytest

import posenc_ref
from posenc_ref import RoPE
from posenc_ref.conformance import NoConvention, bind, check, identify
from posenc_ref.conformance.calling import CONVENTIONS, takes
from posenc_ref.conformance.calling.facts import facts_of
from posenc_ref.conformance.calling.roles import Unbound, role_of
from tests.ports import numpy_ports

HALF = RoPE(16, layout="half")


def bshd(x, positions):
    return np.swapaxes(HALF.apply(np.swapaxes(x, 1, 2), positions), 1, 2)


def test_the_tensor_layout_is_found():
    assert bind(HALF.apply, HALF).tensor_layout == "bhsd"
    found = bind(bshd, HALF)
    assert (found.tensor_layout, found.surface) == ("bshd", "apply")
    assert "x (B, S, H, D)" in found.how
    assert bind(bshd, HALF, tensor_layout="bshd").tensor_layout == "bshd"


def test_a_surface_that_is_named_is_not_guessed():
    """The heads are taken for the tokens of (B, H, S, D); nobody asks for another layout."""
    report = check(bshd, HALF, "apply")
    assert report.verdict == "deviates"
    assert report.called == ""


def test_wrong_functions_are_bound_as_right_ones_are():
    def wrong(x, cos, sin):
        return x * np.concatenate([cos, cos], -1) - numpy_ports.rope(x, 0 * cos, sin)

    assert bind(wrong, HALF, table=numpy_ports.get_cos_sin).surface == "apply"
    assert check(bind(wrong, HALF, table=numpy_ports.get_cos_sin)).codes == ["sign"]


def test_a_limit_of_the_suite_is_not_laid_on_the_function():
    report = check(bind(numpy_ports.rope, HALF, table=numpy_ports.get_cos_sin))
    limit = "positions past 131071 are not tried (the suite makes no table longer than 131072 rows)"
    assert limit in str(report), report


def test_a_batch_of_one_is_enough():
    def one_row(x, positions):
        if len(x) > 1:
            raise ValueError("one row only")
        return bshd(x, positions)

    assert bind(one_row, HALF).tensor_layout == "bshd"


def test_of_several_tables_the_first_is_taken_and_the_others_are_named():
    """Both functions of the file make tables that a rotation could take; one is right."""
    scope = {"__name__": "two"}
    text = """
import numpy as np
def precompute_cos_sin(length, dim):
    a = np.outer(np.arange(length), 7.0 ** (-np.arange(dim // 2)))
    return np.cos(a), np.sin(a)
def rope_cos_sin(length, dim, base=10000.0):
    a = np.outer(np.arange(length), base ** (-np.arange(0, dim, 2) / dim))
    return np.cos(a), np.sin(a)
def turn(x, cos, sin):
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)
"""
    exec(text, scope)
    found = bind(scope["turn"], HALF)
    assert "rows of precompute_cos_sin(length, dim=16); also possible: rope_cos_sin(" in found.how
    assert not check(found).passed
    assert check(bind(scope["turn"], HALF, table=scope["rope_cos_sin"])).passed


def test_what_fits_nothing_says_what_to_write():
    def mystery(alpha, beta, gamma, delta, epsilon):
        return alpha

    with pytest.raises(NoConvention, match=r"no calling convention fits .*mystery") as raised:
        check(mystery, HALF)
    assert "def rotate(" in str(raised.value)
    assert "posenc explain signatures" in str(raised.value)

    def rotate_half(x):
        a, b = np.split(x, 2, -1)
        return np.concatenate([-b, a], -1)

    with pytest.raises(NoConvention, match="or all tokens get the same ones"):
        check(rotate_half, HALF)
    with pytest.raises(NoConvention, match="no calling convention"):
        check(mystery, HALF, "apply")
    with pytest.raises(ValueError, match="signature must be one of x-positions"):
        bind(mystery, HALF, signature="x-y")


def test_a_class_says_which_argument_it_lacks():
    class Odd:
        def __init__(self, flavour):
            self.flavour = flavour

        def __call__(self, x, positions):
            return HALF.apply(x, positions)

    with pytest.raises(NoConvention, match="'flavour'; give it with --init NAME=VALUE"):
        bind(Odd, HALF)
    assert check(bind(Odd, HALF, init={"flavour": 1})).passed


def test_a_class_is_made_afresh_for_the_state_tests():
    class Stale:
        """The table of the longest call is kept, times its length."""

        def __init__(self, head_dim):
            self.seen = 0

        def __call__(self, x, positions):
            self.seen += 1
            return HALF.apply(x, positions) * (1 if self.seen < 9 else 1.5)

    found = bind(Stale, HALF)
    assert found.factory().call is not found.call
    assert not check(found).passed


def test_a_function_in_place_is_no_mutation():
    found = bind(numpy_ports.turn_in_place, RoPE(16, layout="half", base=5e5))
    assert found.how.endswith("in place")
    assert check(found).passed


def test_queries_and_keys_are_both_judged():
    def keys_scaled(q, k, positions):
        return HALF.apply(q, positions), 2 * HALF.apply(k, positions)

    report = check(keys_scaled, HALF)
    assert report.surface == "apply_qk"
    assert report.verdict == "deviates"


def test_parameters_without_known_names_are_taken_in_order():
    def turn(vectors, where):
        return HALF.apply(vectors, where)

    assert bind(turn, HALF).surface == "apply"


def test_the_head_size_is_found_for_identify():
    def only_32(x, positions):
        if x.shape[-1] != 32:
            raise ValueError("32 channels")
        return RoPE(32, layout="half").apply(x, positions)

    assert identify(only_32).encoding == RoPE(32, layout="half")


def test_the_report_says_how_a_function_was_called():
    report = check(bind(numpy_ports.with_offset, HALF))
    assert "called    with_offset(x, offset=first position); x (B, H, S, D)" in str(report)
    assert report.to_dict()["called"] == report.called


@pytest.mark.parametrize(
    ("surface", "fn", "fits"),
    [
        ("apply", lambda x, p: x, True),
        ("apply", lambda x: x, False),
        ("apply", lambda x, cos, sin: x, False),
        ("frequencies", lambda: 1, True),
        ("frequencies", lambda seq_len: 1, True),
        ("frequencies", lambda a, b: 1, False),
    ],
)
def test_which_functions_take_a_surface(surface, fn, fits):
    assert takes(fn, surface) is fits


def test_roles_are_those_of_libraries():
    names = {
        "xq": "query", "key_states": "key", "freqs_cis": "turns", "input_pos": "positions",
        "start_index": "offset", "rope_theta": "base", "is_neox_style": "neox",
        "traditional": "interleaved", "head_size": "head_dim", "n_heads": "num_heads",
        "end": "length", "max_seq_len": "length", "rotary_percent": "partial",
        "ntk_beta": "beta_fast", "mrope_section": "sections", "flavour": None,
    }  # fmt: skip
    assert {name: role_of(name) for name in names} == names


def test_facts_are_those_of_the_declaration():
    facts = facts_of(posenc_ref.preset("llama-3.1-8b").only)
    config = facts.by_role["config"]
    assert (config.head_dim, config["rope_theta"], config.get("nothing", 3)) == (128, 5e5, 3)
    assert config.rope_scaling["rope_type"] == "llama3"
    assert config.kv_channels == 128  # by its role
    with pytest.raises(AttributeError, match="has no 'flavour'"):
        config.flavour  # noqa: B018
    with pytest.raises(Unbound, match="'flavour'"):
        facts.arguments(lambda head_dim, flavour: None, {})


def test_every_convention_has_a_stub_that_is_python():
    for convention in CONVENTIONS:
        compile(convention.stub, convention.name, "exec")
        assert convention.surfaces
    assert len({convention.name for convention in CONVENTIONS}) == len(CONVENTIONS)


def turn(x, at, base=10000.0):
    k = np.arange(x.shape[-1] // 2)
    angle = np.asarray(at)[..., :, None] * base ** (-2 * k / x.shape[-1])
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def keys_first(k, q, position_ids):
    return turn(k, position_ids), turn(q, position_ids)


def values_too(q, k, v, position_ids):
    return turn(q, position_ids), turn(k, position_ids), turn(v, position_ids)


def values_through(q, k, v, position_ids):
    return turn(q, position_ids), turn(k, position_ids), v


def named_results(q, k, positions):
    return {"q": turn(q, positions), "k": turn(k, positions)}


def queries_alone(q, position_ids):
    return turn(q, position_ids)


def unknown_third(q, k, m):
    return turn(q, m), turn(k, m)


@pytest.mark.parametrize(
    ("fn", "verdict"),
    [
        (keys_first, "conforms"),
        (values_through, "conforms"),
        (values_too, "deviates"),
        (named_results, "conforms"),
        (queries_alone, "conforms"),
        (unknown_third, "conforms"),
    ],
)
def test_orders_of_vectors_and_results(fn, verdict):
    assert check(fn, HALF).verdict == verdict


def test_a_whole_head_is_passed_where_the_function_takes_it():
    """It rotates the whole head, and the declaration a half; it must not get that half alone."""
    half = RoPE(16, layout="half", rotary_dim=8)
    assert check(turn, half).codes == ["rotary-dim"]


def test_defaults_that_the_declaration_replaces_are_shown():
    found = bind(turn, HALF.replace(base=5e5))
    assert "base=500000.0 (its default: 10000.0)" in found.how


def test_a_configuration_of_the_user_is_not_completed_by_guesses():
    class Table:
        def __init__(self, config):
            self.base = getattr(config, "rope_base", 10000.0)

        def __call__(self, x, positions):
            return turn(x, positions, self.base)

    llama = HALF.replace(base=5e5)
    file = {"rope_theta": 500000.0, "hidden_size": 64, "num_attention_heads": 4}
    assert check(bind(Table, llama, config=file)).codes == ["base"]


def test_arguments_that_nothing_takes_are_refused():
    with pytest.raises(ValueError, match="neither has bse"):
        bind(turn, HALF, init={"bse": 3.0})
    # The name of what a parameter means is not the name of the parameter.
    with pytest.raises(ValueError, match="neither has neox"):
        bind(lambda x, positions, interleaved: turn(x, positions), HALF, init={"neox": True})


def test_tables_of_numpy_serve_functions_of_torch():
    torch = pytest.importorskip("torch", reason="the rotation is PyTorch's")

    def rotate(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    assert check(bind(rotate, HALF, table=numpy_ports.get_cos_sin)).passed


def test_positions_of_a_grid_without_a_batch():
    """(2, N): each row of the batch gets a call of its own."""
    grid = posenc_ref.MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")

    def vision(x, positions):
        if positions.shape != (2, x.shape[2]):
            raise ValueError("positions (2, N)")
        rows = [turn(x[..., n : n + 8], positions[n // 8]) for n in (0, 8)]
        return np.concatenate(rows, axis=-1)

    found = bind(vision, grid)
    assert found.call.positions == "(A, S)"
    assert check(found).codes == ["layout"]  # each axis has pairs of its own


def test_what_adds_numbers_is_no_rotation():
    with pytest.raises(NoConvention):
        check(lambda a, b: a + b, HALF)


def test_tokens_of_several_sequences_are_numbered_one_sequence_at_a_time():
    def numbers_tokens(q, k):  # (T, H, D)
        at = np.arange(len(q))
        return turn(q.swapaxes(0, 1), at).swapaxes(0, 1), turn(k.swapaxes(0, 1), at).swapaxes(0, 1)

    report = check(bind(numbers_tokens, HALF, tensor_layout="thd"))
    assert report.passed, report


def test_the_width_of_a_model_is_that_of_all_its_heads():
    class FromWidth:
        def __init__(self, hidden_size, num_heads):
            self.head_dim = hidden_size // num_heads

        def __call__(self, x, positions):
            if x.shape[-1] != self.head_dim:
                raise ValueError("another head size")
            return turn(x, positions)

    assert check(bind(FromWidth, HALF)).passed


def test_values_are_passed_only_where_they_are_required():
    def rotate(q, k, cos, sin, value=None):
        given = [x for x in (q, k, value) if x is not None]
        return tuple(numpy_ports.rope(x, cos, sin) for x in given)

    assert check(bind(rotate, HALF, table=numpy_ports.get_cos_sin)).passed


def test_a_function_that_passes_numbers_on_makes_no_table():
    scope = {"__name__": "padded"}
    source = """
def pad_rope_embeds(embeds, seq_len):
    return embeds

def rotate(x, cos, sin):
    return x * cos + x[..., ::-1] * sin
"""
    exec(source, scope)
    with pytest.raises(NoConvention, match="pad_rope_embeds returns no table"):
        bind(scope["rotate"], HALF)
