"""The golden vectors: sound, passed by us in every dtype, rejecting what is wrong and no more."""

import sys
from pathlib import Path

import numpy as np
import pytest

from posenc_ref import ALiBi, RoPE
from posenc_ref.accuracy import ROUNDOFF, budget
from posenc_ref.conformance import CODES, load_vectors
from posenc_ref.conformance.exact.output import Output
from posenc_ref.conformance.vectors import verify
from posenc_ref.conformance.vectors.flags import FLAGS, PINS
from posenc_ref.conformance.vectors.surfaces import SURFACES, own_function
from posenc_ref.conformance.vectors.verify import verify_vectors
from tests.conformance.vectors import wrong_vectors_counted  # noqa: F401  (files its cases)
from tests.conformance.vectors.wrong_vectors import ALSO_WRONG
from tests.mutants import CORRECT, WRONG

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
import vector_kills

CASES = load_vectors()
LARGEST = 4_500_000


def by_id(case):
    return case.id


def test_the_shipped_vectors_verify():
    found = verify_vectors()
    assert found.problems == []
    assert found.passed
    assert found.executed == found.cases == len(CASES)
    assert found.size < LARGEST


def test_the_negative_control_is_not_vacuous(monkeypatch, copy):
    monkeypatch.setattr(Output, "score", lambda self, actual, dtype, **how: 0.0)
    found = copy()
    assert len(found.problems) == 2 * found.cases > 0
    assert "a perturbed result passes in float64" in found.problems[0]


def test_a_wrong_specification_would_be_found(monkeypatch, copy):
    own = verify.own_function
    monkeypatch.setattr(verify, "perturbed", lambda case, result, dtype: result)
    monkeypatch.setattr(verify, "own_function", lambda *args: lambda *a: own(*args)(*a) * np.nan)
    found = copy()
    wrong = [problem for problem in found.problems if "posenc_ref scores inf" in problem]
    assert len(wrong) == 2 * found.cases > 0
    monkeypatch.setattr(verify, "own_function", lambda *args: lambda *a: np.zeros((7,) * 6))
    found = copy()
    assert len(found.problems) == found.cases
    assert found.problems[0].endswith("posenc_ref's result has another shape than its truth")


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_our_own_functions_pass_in(dtype):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    worst = max(
        (case.run(own_function(case.surface, case.encoding, dtype), dtype), case.id)
        for case in CASES
    )
    assert worst[0] <= budget(dtype), worst


def test_inputs_are_exact_in_every_dtype():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    for case in CASES:
        for value in case.inputs.values():
            if isinstance(value, np.ndarray) and value.dtype == np.float32:
                for narrow in (np.float16, ml_dtypes.bfloat16):
                    np.testing.assert_array_equal(value.astype(narrow).astype(np.float32), value)


# --- what they reject ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kills():
    """What every case rejects today, whatever its file says."""
    return vector_kills.kill_list([*WRONG, *ALSO_WRONG])


def test_every_case_kills_what_it_says(kills):
    lies = {c.id: sorted(set(c.kills) - set(kills[c.id])) for c in CASES}
    assert {name: lie for name, lie in lies.items() if lie} == {}, "run tools/vector_kills.py"


def test_every_case_kills_something_or_says_why():
    assert [case.id for case in CASES if bool(case.kills) == (PINS in case.flags)] == []


def test_most_of_what_is_declared_like_a_vector_is_killed(kills):
    dead = {name for names in kills.values() for name in names}
    matching = vector_kills.declared_as([*WRONG, *ALSO_WRONG])
    met = {(case.surface, case.encoding) for case in CASES}
    # One call on a fresh instance cannot see these.
    beyond = {"state", "mutates-input", "nonfinite"}
    named = [o for key in met for o in matching.get(key, ()) if o.expected[0] not in beyond]
    alive = [one.name for one in named if one.name not in dead]
    print(f"{len(named) - len(alive)} of {len(named)}, alive: {', '.join(alive)}")
    assert len(alive) <= 0.02 * len(named), alive


def test_no_correct_implementation_is_rejected():
    accused = vector_kills.kill_list(CORRECT)
    level = {case.id: case.level for case in CASES}
    assert {i: names for i, names in accused.items() if names and level[i] != "note"} == {}
    matching = vector_kills.declared_as(CORRECT)
    judged = {one.name for c in CASES for one in matching.get((c.surface, c.encoding), ())}
    assert len(judged) >= 90


@pytest.mark.parametrize("name", [name for name in FLAGS if name != PINS])
def test_a_flag_catches_what_it_says(name):
    """Each of its bug types is that of something that a case with this flag rejects."""
    expected = {one.name: one.expected for one in (*WRONG, *ALSO_WRONG)}
    killed = {n for case in CASES if name in case.flags for n in case.kills}
    caught = {code for n in killed for code in expected[n]}
    assert set(FLAGS[name]["bug_type"]) <= caught
    assert set(FLAGS[name]["bug_type"]) <= CODES.keys()


def test_every_surface_has_vectors():
    assert {case.surface for case in CASES} == SURFACES.keys()


# --- how they judge ------------------------------------------------------------------------------


def case_of(ident):
    (found,) = [case for case in CASES if case.id == ident]
    return found


def test_load_chooses():
    with pytest.raises(
        ValueError, match=r"there is no vector with surface='apply', encoding='XPos'$"
    ):
        load_vectors(surface="apply", encoding="XPos")
    assert load_vectors(surface="Apply", encoding="rope") == load_vectors(
        surface="apply", encoding="RoPE"
    )
    with pytest.raises(ValueError, match=r"encoding='ropee'; did you mean 'RoPE' or "):
        load_vectors(surface="apply", encoding="ropee")
    chosen = load_vectors(encoding="XPos", flags=["FirstPositions"])
    assert {case.surface for case in chosen} == {"apply_queries", "apply_keys"}
    with pytest.raises(ValueError, match="version must be one of v0, got 'v7'"):
        load_vectors("v7")


def test_the_declared_encoding_comes_back():
    assert case_of("rope-64-half-first").encoding == RoPE(64, layout="half")


def test_arguments_are_copies_in_the_dtype():
    case = case_of("rope-64-half-first")
    x, positions = case.arguments("float16")
    assert (x.dtype, positions.dtype) == (np.float16, np.int64)
    x[:] = 0
    assert case.arguments()[0].any()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda y: y[..., :-1],
        lambda y: y[0],
        lambda y: y * np.nan,
        lambda y: y + np.inf,
        lambda y: np.round(y).astype(np.int64),
        lambda y: (y, y),
        lambda y: y.astype(bool),
    ],
    ids=["a channel less", "an axis less", "NaN", "infinity", "rounded", "two", "booleans"],
)
def test_what_is_no_result_does_not_pass(wrong):
    case = case_of("rope-64-half-first")
    x, positions = case.arguments()
    y = RoPE(64, layout="half").apply(x, positions)
    assert case.passes(y)
    assert not case.passes(wrong(y))
    assert case.judge(wrong(y)) > budget("float64")


def test_passed_channels_must_be_equal():
    case = case_of("rope-64-half-first-32-first")
    x, positions = case.arguments()
    y = RoPE(64, layout="half", rotary_dim=32).apply(x, positions)
    y[..., 63] = np.nextafter(y[..., 63], np.float32(9))
    assert case.judge(y) == np.inf


def test_hi_and_lo_tell_a_float64_from_its_neighbours():
    case = case_of("rope-64-half-scattered")
    truth = case.truth["y"]
    with np.errstate(divide="ignore", invalid="ignore"):
        below, above = (
            np.abs(truth.lo / (np.nextafter(truth.hi, s * 1e9) - truth.hi)) for s in (-1, 1)
        )
    assert max(np.nanmax(below), np.nanmax(above)) <= 1 / 2
    assert case.judge(truth.hi) < case.judge(np.nextafter(truth.hi, np.inf))


def test_cos_and_sin_may_hold_every_column_twice():
    case = case_of("rope-64-half-cos-sin-first")
    cos, sin = RoPE(64, layout="half").cos_sin(*case.arguments())
    assert case.passes((cos, sin))
    assert case.passes([np.concatenate([t, t], axis=-1) for t in (cos, sin)])
    assert not case.passes([np.repeat(t, 2, axis=-1) for t in (cos, sin)])
    assert not case.passes((sin, cos))
    assert not case.passes(cos)


def test_frequencies_may_come_without_the_factor():
    case = case_of("rope-64-half-yarn-gpt-oss-frequencies-all")
    w, m = case.encoding.frequencies(), case.encoding.attention_factor()
    assert case.passes(w)
    assert case.passes((w, m))
    assert not case.passes((w, 1.0))


def test_causal_biases_are_judged_up_to_a_constant_for_each_row():
    case = case_of("alibi-8-bias-4-of-4")
    slopes = ALiBi(8).slopes()[:, None, None]
    row_form = slopes * np.arange(4.0)  # (H, 1, K)
    assert case.passes(row_form)
    assert case.passes(row_form[None])
    assert not case.passes(-row_form)
    masked = np.where(np.arange(4) <= np.arange(4)[:, None], row_form, -np.inf)
    assert case.passes(masked)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries_are_judged(library):
    pytest.importorskip(library, reason=f"arrays of {library} are what is judged")
    from posenc_ref.backends import backend

    own = backend(library)
    case = case_of("rope-64-half-first")
    for dtype in ("float32", "bfloat16"):
        y = RoPE(64, layout="half").apply(own.asarray(case.arguments()[0], dtype, None), range(3))
        assert case.passes(y)
        assert not case.passes(y * 1.25)


def test_a_list_is_an_array():
    case = case_of("alibi-8-slopes-all")
    assert case.passes(ALiBi(8).slopes().tolist())
    assert not case.passes([0.5] * 8)


def test_positions_of_padding_are_not_judged():
    case = case_of("position-ids-left")
    (mask,) = case.arguments()
    ids = np.cumsum(mask, axis=-1) - 1
    assert case.passes(ids)
    assert case.passes(np.where(mask == 1, ids, 1))
    assert not case.passes(np.where(mask == 1, ids + 1, 0))


def test_later_keys_are_not_judged_after_a_relative_shift():
    case = case_of("relative-shift-last")
    (x,) = case.arguments()
    padded = np.concatenate([np.zeros((3, 1), np.float32), x], axis=1).reshape(6, 3)
    assert case.passes(padded[1:].reshape(3, 5))
    assert not case.passes(padded[:-1].reshape(3, 5))


def test_integers_must_be_integers():
    case = case_of("t5-bucket-near")
    bucket = case.encoding.bucket(*case.arguments())
    assert case.passes(bucket.astype(np.int32))
    assert not case.passes(bucket.astype(np.float32))
    assert not case.passes(bucket + 1)
