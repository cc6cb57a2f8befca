"""identify on surfaces that are measured as another one, and what functions keep between calls."""

import numpy as np
import pytest

from posenc_ref import Learned, RoPE, Sinusoidal, XPos
from posenc_ref.conformance import check, identify
from tests.conformance.handwritten import inv_freq, rope, sinusoid

PLAIN = RoPE(8, layout="half")
NEAR = {"head_dim": 8, "max_position": 1024}


def chunked(x, chunks, *, restart=False):
    """Rotate a sequence chunk by chunk; with ``restart`` every chunk starts at position 0."""
    parts, at = [], 0
    for n in map(int, chunks):
        parts.append(rope()(x[..., at : at + n, :], np.arange(n) + (0 if restart else at)))
        at += n
    return np.concatenate(parts, axis=-2)


def gradient(x, p, dy):
    return rope()(dy, -np.asarray(p))


def normed(x, w, p):
    size = np.sqrt((x.astype(np.float64) ** 2).mean(axis=-1, keepdims=True) + 1e-6)
    return rope()((x / size * w).astype(x.dtype), p)


ROTATIONS = {
    "apply_qk": lambda q, k, i, j: (rope()(q, i), rope()(k, j)),
    "apply_offset": lambda x, at: rope()(x, np.asarray(at)[:, None] + np.arange(x.shape[2])),
    "apply_vjp": gradient,
    "calls": lambda calls: [rope()(x, np.arange(at, at + x.shape[2])) for x, at in calls],
    "decode": chunked,
    "key_cache": chunked,
    "shift_keys": lambda k, delta: rope()(k, np.full(k.shape[2], delta)),
    "normed_apply": normed,
}


@pytest.mark.parametrize("surface", ROTATIONS)
def test_rotations_of_every_surface(surface):
    card = identify(ROTATIONS[surface], surface, **NEAR)
    assert card.encoding == PLAIN, str(card)
    assert card.exact, str(card)


def test_a_chunk_that_starts_again_at_0_is_a_deviation_and_a_fact():
    good, bad = (
        identify(lambda x, n, again=again: chunked(x, n, restart=again), "decode", **NEAR)
        for again in (False, True)
    )
    assert good.facts["keeps"].startswith("the position")
    assert bad.facts["keeps"] == "no position: every chunk starts at position 0"
    assert bad.encoding == PLAIN
    assert not bad.exact, str(bad)


def test_calls_that_change_later_calls_keep_state():
    last = [0]

    def sticky(calls):
        results = []
        for x, at in calls:
            last[0] = max(last[0], at)
            results.append(rope()(x, np.arange(x.shape[2]) + last[0]))
        return results

    card = identify(sticky, "calls", **NEAR)
    assert not card.exact, str(card)


def xpos(centre):
    def apply(q, k, i, j):
        zeta = (2 * np.arange(4) / 8 + 0.4) / 1.4

        def side(x, p, power):
            size = zeta ** (power * (np.asarray(p)[..., None] - centre) / 512)
            size = np.concatenate([size, size], axis=-1)
            return (rope()(x, p) * (size if np.ndim(p) == 1 else size[:, None])).astype(x.dtype)

        return side(q, i, 1), side(k, j, -1)

    return apply


@pytest.mark.parametrize("centre", [0, 37])
def test_xpos_from_queries_and_keys(centre):
    card = identify(xpos(centre), "apply_qk", **NEAR)
    assert card.encoding == XPos(8, layout="half", centre=centre), str(card)
    assert card.exact, str(card)


def test_keys_with_the_inverse_factor_in_steps_are_not_as_the_queries():
    zeta = (np.arange(4) / 4 + 0.4) / 1.4

    def side(x, at, sign):
        size = zeta ** (sign * (np.asarray(at) // 512))[..., None]
        return (rope()(x, at) * np.tile(size, 2)).astype(x.dtype)

    card = identify(lambda q, k, i, j: (side(q, i, 1), side(k, j, -1)), "apply_qk", head_dim=8)
    assert card.facts["keys"] == "multiplied by the inverse of the factor of the queries"


def test_keys_that_are_not_rotated_are_no_exact_encoding():
    card = identify(lambda q, k, i, j: (rope()(q, i), k), "apply_qk", **NEAR)
    assert not card.exact, str(card)
    assert card.facts["keys"] == "not rotated as the queries"


WEIGHT = np.random.default_rng(3).normal(size=(40, 8)).astype(np.float32)
TABLES = {
    "rows": (lambda n: sinusoid()(np.arange(n)), Sinusoidal(8)),
    "add": (lambda x: x + sinusoid(dim=x.shape[-1])(np.arange(x.shape[1])), Sinusoidal(64)),
    "learned rows": (lambda n: WEIGHT[np.arange(n)], Learned(WEIGHT)),
}


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_sums_are_tables(name):
    fn, expected = TABLES[name]
    card = identify(fn, name.split()[-1], max_position=512)
    assert repr(card.encoding) == repr(expected), str(card)
    assert card.exact, str(card)


def test_a_sum_with_a_scaled_input_is_no_exact_sum():
    card = identify(lambda x: 2 * x + sinusoid(dim=x.shape[-1])(np.arange(x.shape[1])), "add")
    assert not card.exact, str(card)


def half_slopes(n):
    """ALiBi's slopes for powers of two and every second one of the next power, as published."""
    c = 1 << (n.bit_length() - 1)
    near = 2.0 ** (-8 * np.arange(1, c + 1) / c)
    return np.append(near, (2.0 ** (-4 * np.arange(1, 2 * c + 1) / c))[::2][: n - c])


def test_slopes_of_a_rank_and_in_half_precision():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 arrays of NumPy need ml_dtypes")
    card = identify(lambda n, size, rank: np.split(half_slopes(n), size)[rank], "rank_slopes")
    assert repr(card.encoding) == "ALiBi(12)", str(card)
    rounded = identify(
        lambda n: half_slopes(n).astype(ml_dtypes.bfloat16).astype(np.float32), "slopes"
    )
    assert repr(rounded.encoding) == "ALiBi(12)", str(rounded)
    assert rounded.facts["precision"] == "values are rounded to bfloat16"
    assert rounded.exact, str(rounded)


def rounded_rotation(kind):
    def apply(x, p):
        w = inv_freq(x.shape[-1])
        angle = np.asarray(p, np.float32)[..., None] * w
        cos, sin = (t.astype(kind).astype(np.float32) for t in (np.cos(angle), np.sin(angle)))
        if np.ndim(p) == 2:
            cos, sin = cos[:, None], sin[:, None]
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)

    return apply


def test_a_rotation_with_bfloat16_tables_is_found_and_called_so():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 arrays of NumPy need ml_dtypes")
    fn = rounded_rotation(ml_dtypes.bfloat16)
    card = identify(fn, **NEAR)
    assert card.encoding == PLAIN, str(card)
    assert card.facts["precision"] == "values are rounded to bfloat16"
    assert card.exact, str(card)
    assert "precision" not in identify(rope(), **NEAR).facts
    assert not check(fn, PLAIN, max_position=1024).passed  # only with the precision declared


def counted(step):
    """Return a rotation of calls that adds ``step(tokens)`` for each call, and ignores offsets."""

    def calls(each):
        results, at = [], 0
        for x, _ in each:
            results.append(rope()(x, np.arange(x.shape[2]) + at))
            at += step(x.shape[2])
        return results

    return calls


COUNTERS = {"tokens of earlier calls": lambda tokens: tokens, "earlier calls": lambda tokens: 1}


@pytest.mark.parametrize("what", COUNTERS)
def test_an_instance_that_counts_in_place_of_the_offset(what):
    card = identify(counted(COUNTERS[what]), "calls", head_dim=8, max_position=256)
    assert card.encoding == PLAIN, str(card)
    assert card.facts["keeps"] == (
        f"the number of {what}, in place of the offset, which is ignored"
    )
    assert [f.code for f in card.deviations] == ["state"], str(card)
    assert not any("equals x" in text for text in card.unknown), str(card)


def test_calls_without_a_rotation_say_what_they_keep():
    card = identify(lambda calls: [np.array(x) for x, _ in calls], "calls", **NEAR)
    assert card.facts["keeps"].startswith("nothing")
    assert all("in the first call of an instance" in text for text in card.unknown)
