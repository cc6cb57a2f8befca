"""Relative biases and scores on each declared library, device and dtype.

The expected values are those of NumPy, which ``tests/posenc_ref`` compares with 50 digits.
"""

import dataclasses

import numpy as np
import pytest

from posenc_ref import (
    FIRE,
    TUPE,
    BEiTBias,
    ChainBias,
    ConViTBias,
    CoPE,
    DeBERTa,
    DecomposedRelative,
    DualChunk,
    DynamicBias,
    DynamicWindowBias,
    ESPnetLegacy,
    ForgettingBias,
    GatedBias,
    Kerple,
    LeViTBias,
    LogCPB,
    ReRoPE,
    ResidueBias,
    RoPE,
    Sandwich,
    SelfExtend,
    Shaw,
    Sinusoidal,
    SwinBias,
    T5Bias,
    TransformerXL,
    scores,
)
from posenc_ref._namespace import is_array
from posenc_ref.accuracy import Truth, budget

B, H, S, D = 2, 3, 5, 4
RNG = np.random.default_rng(7)


def table(rng, *shape):
    """Return numbers that every dtype represents exactly."""
    return rng.integers(-127, 128, shape) / 32


Q, K = table(RNG, B, H, S, D), table(RNG, B, H, S, D)
AT = np.array([0, 7, 3, 11, 8])
SCORES = {
    "DeBERTa v2": DeBERTa(table(RNG, H, 8, D), table(RNG, H, 8, D), buckets=4, max_position=9),
    "Shaw per head": Shaw(table(RNG, H, 9, D), before=8, counted="query-key"),
    "TransformerXL": TransformerXL(
        table(RNG, H, D, 8),
        table(RNG, H, D),
        table(RNG, H, D),
        sinusoid=Sinusoidal(8, layout="concat"),
        clamp=6,
    ),
    "ESPnetLegacy": ESPnetLegacy(
        table(RNG, H, D, 8), table(RNG, H, D), table(RNG, H, D), sinusoid=Sinusoidal(8), max_len=20
    ),
    "TUPE": TUPE(
        table(RNG, 12, H, D),
        table(RNG, 12, H, D),
        bias=T5Bias(table(RNG, 32, H)),
        cls_to_others=table(RNG, H),
        others_to_cls=table(RNG, H),
    ),
    "CoPE": CoPE(table(RNG, 3, D)),
    "GatedBias": GatedBias(
        T5Bias(table(RNG, 32, H), num_buckets=32, max_distance=40),
        table(RNG, 2, D),
        table(RNG, 2),
        table(RNG, H),
    ),
    "DecomposedRelative": DecomposedRelative(table(RNG, 5, D), table(RNG, 7, D), grid=(3, 4)),
    "DualChunk": DualChunk(
        RoPE(D, layout="half"), chunk_size=4, local_size=1, original_max_position=6
    ),
    "SelfExtend": SelfExtend(RoPE(D, layout="half", rotary_dim=2), group=2, window=3),
    "Leaky ReRoPE": ReRoPE(RoPE(D, layout="interleaved"), window=3, factor=3.0),
}
BIASES = {
    "Kerple": Kerple([0.5, 1.5, 0.25], [0.1, 0.7, 2.0]),
    "Sandwich": Sandwich(H, 8),
    "FIRE": FIRE(table(RNG, 6, 1), table(RNG, 6), table(RNG, H, 6), table(RNG, H), length=4.0),
    "SwinBias": SwinBias(table(RNG, 35, H), window=(3, 4)),
    "BEiTBias": BEiTBias(table(RNG, 38, H), window=(3, 4)),
    "LeViTBias": LeViTBias(table(RNG, 12, H), window=(3, 4)),
    "DynamicBias": DynamicBias(
        (table(RNG, 6, 1) / 64, table(RNG, H, 6) / 64),
        (table(RNG, 6), table(RNG, H)),
        log_distance=True,
    ),
    "DynamicWindowBias": DynamicWindowBias(
        (table(RNG, 6, 2), table(RNG, H, 6) / 64),
        (table(RNG, 6), table(RNG, H)),
        (table(RNG, 6),),
        (table(RNG, 6),),
        window=(3, 4),
    ),
    "ForgettingBias": ForgettingBias(-np.abs(table(RNG, H, 12))),
    "ResidueBias": ResidueBias(table(RNG, 7, H), period=9),
    "ChainBias": ChainBias(
        table(RNG, H, 17),
        table(RNG, H),
        residue_index=(*range(6), *range(6)),
        asym_id=(0,) * 6 + (1,) * 6,
        entity_id=(0,) * 12,
        sym_id=(1,) * 6 + (2,) * 6,
        token_index=tuple(range(12)),
        cyclic_period=(6,) * 6 + (0,) * 6,
        max_offset=2,
        max_chain=1,
    ),
    "LogCPB": LogCPB(table(RNG, 6, 2), table(RNG, 6), table(RNG, H, 6) / 64, window=(3, 4)),
}


def moved(encoding, place):
    """Return the encoding with its learned arrays at this place."""
    arrays = {}
    for f in dataclasses.fields(encoding):
        value = getattr(encoding, f.name)
        if is_array(value):
            arrays[f.name] = place.array(value)
        elif isinstance(value, T5Bias):
            arrays[f.name] = moved(value, place)
        elif isinstance(value, tuple) and any(map(is_array, value)):
            arrays[f.name] = tuple(map(place.array, value))
    return encoding.replace(**arrays)


def judge(place, result, truth, dtype, judged=True):
    host = np.asarray(place.at_home(result, dtype), np.float64)
    assert host.shape == truth.value.shape
    score = np.where(judged, truth.score(host, dtype=dtype, angles="float64"), 0.0)
    # A device without float64 computes angles in float32.
    if place.working == "float32":
        score = np.where(judged, truth.score(host, dtype=dtype, angles="float32"), 0.0)
    assert score.max() <= budget(dtype)


def some(place, every, few):
    """Return all encodings for float32; a few for other dtypes and for libraries that are slow."""
    slow = place.dtype != "float32" or place.backend.name in ("dask", "jax")
    return {name: every[name] for name in few} if slow else every


def test_scores(place):
    for encoding in some(place, SCORES, ("DeBERTa v2", "TransformerXL")).values():
        judge_scores(place, encoding)


def test_bias(place):
    for encoding in some(place, BIASES, ("Kerple", "SwinBias", "FIRE")).values():
        judge_bias(place, encoding)


@pytest.mark.nightly
def test_every_encoding(place):
    for encoding in SCORES.values():
        judge_scores(place, encoding)
    for encoding in BIASES.values():
        judge_bias(place, encoding)


def judge_scores(place, encoding):
    parts = encoding.truths(Q, K, AT[:, None], AT[None, :], encoding.own_scale(D)).values()
    truth = Truth(*(sum(getattr(t, a) for t in parts) for a in ("value", "terms", "angle")))
    judged = True if encoding.sees_future else AT[:, None] >= AT
    there = moved(encoding, place)
    for at in place.ways(AT):
        logits = scores(there, place.array(Q), place.array(K), at, at)
        judge(place, logits, truth, place.dtype, judged)
    # Learned arrays on the host serve any library.
    logits = scores(encoding, place.array(Q), place.array(K), AT, AT)
    judge(place, logits, truth, place.dtype, judged)


def judge_bias(place, encoding):
    truth = encoding.truth(AT, AT)
    there = moved(encoding, place)
    learned = any(is_array(getattr(encoding, f.name)) for f in dataclasses.fields(encoding))
    rows = isinstance(encoding, SwinBias | BEiTBias | LeViTBias | ResidueBias)
    dtype = place.dtype if rows else place.working
    judge(place, there.bias(*[place.integers(AT)] * 2), truth, dtype)
    product = Q @ K.swapaxes(-1, -2) * encoding.own_scale(D)
    size = np.abs(Q) @ np.abs(K).swapaxes(-1, -2) + truth.terms
    logits = Truth(product + truth.value, size, np.broadcast_to(truth.angle, product.shape))
    at = place.ways(AT)[0] if learned else place.integers(AT)
    judge(place, scores(there, place.array(Q), place.array(K), at, at), logits, place.dtype)


def test_blended_softmax(place, rng):
    encoding = ConViTBias(table(rng, H, 3) / 64, table(rng, H), table(rng, H), window=(3, 4))
    judge(place, moved(encoding, place).bias(AT, AT), encoding.truth(AT, AT), place.working)
    want = encoding.weights(Q, K, AT, AT)
    # Rounding a logit shifts it by a unit of its size.
    size = want * (1 + encoding.truth(AT, AT).terms.max() + 64)
    found = moved(encoding, place).weights(place.array(Q), place.array(K), AT, AT)
    judge(place, found, Truth(want, size, np.zeros_like(want)), place.dtype)


def test_context(place, rng):
    values = table(rng, 9, D)
    weights = np.abs(table(rng, B, H, S, S)) / 16
    row = np.clip(AT[None, :] - AT[:, None], -4, 4) + 4
    each = K[:, :, None] + values[row]
    size = np.abs(K[:, :, None]) + np.abs(values[row])
    want, terms = (np.einsum("bhij,bhijd->bhid", weights, x) for x in (each, size))
    encoding = moved(Shaw(table(rng, 9, D), before=4, values=values), place)
    truth = Truth(want, terms, np.zeros_like(want))
    for at in place.ways(AT):
        found = encoding.context(place.array(weights), place.array(K), at, at)
        judge(place, found, truth, place.dtype)
