"""Calls of one token far from 0, calls longer than all before, and what is said of limits."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.rotary import judge_large
from tests.night import by_day

HALF = pr.RoPE(8, layout="half")
PE = pr.Sinusoidal(8)


@pytest.mark.parametrize("past", by_day([64, 2000], {64}))
def test_a_wrong_path_of_decoding_is_found(past):
    def decodes_late(x, p):
        return HALF.apply(x, np.where((x.shape[2] == 1) & (p > past), p - 1, p))

    report = check(decodes_late, HALF, "apply", max_position=200 if past < 100 else None)
    assert report.codes == ["decode-offset"], report
    assert past < 100 or "where the length of the call is 1 and" in report.findings[0].message


def test_a_table_without_its_last_row_is_found():
    class Grows:
        rows = 0

        def __call__(self, x, p):
            need = int(np.max(p, initial=0)) + 1
            if need > self.rows:
                self.rows = 2 ** max(int(np.ceil(np.log2(need))), 3) - 1
            return HALF.apply(x, np.minimum(p, self.rows - 1))

    report = check(Grows(), HALF, "apply", max_position=200)
    assert "B, H, S = (1, 2, 8)" in str(report.findings), report


def test_reduced_angles_of_negative_positions_are_right():
    wide = pr.RoPE(64, layout="half")

    def reduced(x, p):
        angles = np.asarray(p, np.float32)[..., None] * wide.frequencies().astype(np.float32)
        angles = np.mod(angles, np.float32(2 * np.pi)).reshape(-1, 1, *angles.shape[-2:])
        c, s = np.cos(angles), np.sin(angles)
        u, v = np.split(x, 2, -1)
        return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)

    report = check(reduced, wide, "apply", max_position=200)
    assert (report.verdict, report.findings) == ("conforms", []), report
    wrong = check(lambda x, p: HALF.apply(x, np.maximum(p, 0)), HALF, "apply", max_position=200)
    assert [f.code for f in wrong.findings] == ["position-range"], wrong


def test_a_refused_position_is_the_only_limit_of_positions():
    def short(x):
        if x.shape[1] > 100:
            raise ValueError("at most 100")
        return PE.add(x, np.arange(x.shape[1]))

    limits = check(short, PE, "add").limits
    assert any("positions past 99 are refused" in text for text in limits)
    assert not any("judged up to position" in text for text in limits)


def test_calls_that_take_time_for_a_table_are_a_limit(monkeypatch):
    monkeypatch.setattr(judge_large, "_SECONDS", 0.0)
    assert judge_large.SKIPPED in check(HALF.apply, HALF, "apply").limits
    monkeypatch.setattr(judge_large, "_SECONDS", 10.0)
    assert judge_large.SKIPPED not in check(HALF.apply, HALF, "apply").limits
