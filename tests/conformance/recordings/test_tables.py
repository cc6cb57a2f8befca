"""Recorded cos and sin tables, alone and beside q and k."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance import check_recorded_file
from tests.conformance.handwritten import inv_freq, rope

DIM = 16
HALF = RoPE(DIM, layout="half")
P = np.arange(50)
ARRANGED = {
    "once": lambda angle: angle,
    "cat": lambda angle: np.concatenate([angle, angle], axis=-1),
    "repeated": lambda angle: np.repeat(angle, 2, axis=-1),
}


def table(positions=P, base=10000.0, arrange=ARRANGED["cat"], factor=1.0):
    """Return cos and sin in float32."""
    angle = arrange(np.asarray(positions)[..., None] * inv_freq(DIM, base))
    cos, sin = (factor * f(angle) for f in (np.cos, np.sin))
    return {"cos": cos.astype(np.float32), "sin": sin.astype(np.float32)}


@pytest.fixture
def judged(tmp_path):
    """Return a function that judges tensors in a file."""

    def judge(encoding=HALF, **tensors):
        np.savez(tmp_path / "t.npz", **tensors)
        return check_recorded_file(tmp_path / "t.npz", encoding)

    return judge


@pytest.mark.parametrize("arrange", ARRANGED)
def test_arrangements_conform(judged, arrange):
    report = judged(**table(arrange=ARRANGED[arrange]))
    assert report.verdict == "conforms"
    assert report.surface == "cos_sin"
    wrong = table(arrange=ARRANGED[arrange])
    wrong["sin"][31, -1] = 0.5
    assert judged(**wrong).verdict == "deviates"


@pytest.mark.parametrize(
    ("tensors", "code", "words"),
    [
        (table(base=5e5), "base", "the base is 500000"),
        (table(factor=1.25), "amplitude", "multiplied by 1.25"),
        (table(P + 1), "position-origin", "of position 1,"),
        (table(-P), "sign", "turns the other way"),
        (table(np.minimum(P, 40)), "wrong-row", "angles of other positions"),
    ],
)
def test_wrong_tables_are_named(judged, tensors, code, words):
    report = judged(**tensors, positions=P)
    assert report.codes == [code]
    assert words in report.findings[0].message


def test_rows_of_a_batch_have_their_own_positions(judged):
    rows = np.stack([P, P + 7])
    assert judged(**table(rows), positions=rows).verdict == "conforms"
    assert judged(**table(rows), positions=rows[::-1]).verdict == "deviates"


def test_a_cache_has_more_rows_than_positions(judged):
    x = np.random.default_rng(0).standard_normal((1, 2, 50, DIM)).astype(np.float32)
    recorded = {"q": x, "q_rot": rope(base=5e5)(x, P + 9), "position_ids": P + 9}
    report = judged(**table(np.arange(99), 5e5), **recorded)
    assert report.codes == ["base"]
    assert "also in q" in report.findings[0].evidence
    right = judged(**table(np.arange(99)), **recorded | {"q_rot": rope()(x, P + 9)})
    assert right.verdict == "conforms"
    assert right.executed == {"values": 3}


def test_tables_of_several_axes(judged):
    encoding = MultiAxisRoPE(DIM, layout="half", sections=(2, 3, 3))
    at = np.stack([P, P // 2, P % 5])
    own = at[np.repeat([0, 1, 2], [2, 3, 3])].T
    angle = own * inv_freq(DIM)
    right = {"cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}
    assert judged(encoding, **right, positions=at).verdict == "conforms"
    assert judged(encoding, **right, positions=at[::-1]).verdict == "deviates"


def test_tables_without_a_rotation_are_inconclusive(judged):
    assert judged(**table(0 * P), positions=0 * P).verdict == "inconclusive"


def test_shapes_that_do_not_fit_are_refused(judged):
    cos, sin = table().values()
    with pytest.raises(ValueError, match=r"must have the same shape, \(S, 8\) or \(S, 16\)"):
        judged(cos=cos, sin=sin[:9])
    with pytest.raises(ValueError, match=r"must have the axes \(B, S, n\)"):
        judged(cos=cos.reshape(2, 5, 5, DIM), sin=sin.reshape(2, 5, 5, DIM))
