"""A slow function is judged in fewer calls, and the report says so; a clock of the test counts."""

import numpy as np
import pytest

from posenc_ref import ALiBi, RoPE
from posenc_ref.conformance.check import complete, make_run
from posenc_ref.conformance.harness import pace
from posenc_ref.conformance.harness.driver import Refused
from posenc_ref.conformance.harness.foreign import refusals
from posenc_ref.conformance.harness.pace import SLOW, Pace, Watch, watched
from posenc_ref.conformance.identify.function import identify

HALF = RoPE(64, layout="half")


class Clock:
    """A clock that only the judged function moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0

    def __call__(self) -> float:
        return self.now


def judged(fn, encoding, surface, seconds):
    """Judge ``fn`` as if call n took ``seconds(n)``; return the report and the number of calls."""
    clock = Clock()

    def slow(*args):
        clock.now += seconds(clock.calls)
        clock.calls += 1
        return fn(*args)

    run = make_run(slow, encoding, surface, pace=Pace(clock=clock))
    return complete(run), clock.calls


def limit_of(report):
    """Return the limit that says what a call takes, or nothing."""
    return next((text for text in report.limits if text.startswith("the function takes")), "")


@pytest.mark.parametrize(
    ("seconds", "most", "crossed"), [(0.15, 100, 50), (1.0, 36, 56), (3.0, 36, 56)]
)
def test_a_right_slow_function_conforms_after_few_calls(seconds, most, crossed):
    report, calls = judged(HALF.apply, HALF, "apply", lambda n: seconds)
    assert report.verdict == "conforms"
    assert calls <= most
    assert f"takes at least {seconds:.2g} s per call" in limit_of(report)
    assert f"of {crossed} crossed calls were made" in limit_of(report)
    assert {"required inputs", "values", "state", "robustness"} <= set(report.executed)
    assert len(report.controls) >= 6
    assert all(report.controls.values())
    assert limit_of(report) in report.to_json()


@pytest.mark.parametrize("seconds", [lambda n: 0.0, lambda n: SLOW / 2, lambda n: float(n < 3)])
def test_an_ordinary_function_is_judged_alike_at_every_speed(seconds):
    """The first calls of compiled functions are slow, and the same calls again are not."""
    slopes = lambda heads: ALiBi(heads).slopes()  # noqa: E731
    report, calls = judged(slopes, ALiBi(12), "slopes", seconds)
    _, instant = judged(slopes, ALiBi(12), "slopes", lambda n: 0.0)
    assert report.verdict == "conforms"
    assert calls - instant == (seconds(0) == 1.0)  # the call that was made again
    assert not limit_of(report)


def test_the_cause_in_a_slow_function_is_found_in_few_calls():
    report, calls = judged(lambda x, p: HALF.apply(x, p * 1.25), HALF, "apply", lambda n: 1.0)
    assert report.codes == ["position-scale"]
    assert calls <= 52
    assert not any("no further call" in text for text in report.limits)


def test_a_slow_function_is_still_wrong():
    report, calls = judged(lambda x, p: np.array(x), HALF, "apply", lambda n: 1.0)
    assert report.verdict == "deviates"
    assert calls <= 52


def test_a_pace_without_calls_says_nothing():
    assert Pace().said() == ""
    assert Pace().room(41) == 41


def test_no_call_is_made_after_the_time_and_the_steps_are_named():
    now = [0.0]
    limit = Watch(10.0, clock=lambda: now[0])

    def call():
        with refusals():
            now[0] += 4.0

    token = pace._WATCH.set(limit)
    try:
        call()
        with limit.doing("the check"):
            call()
            call()
            with pytest.raises(Refused, match="is over") as refused:
                call()
    finally:
        pace._WATCH.reset(token)
    assert refused.value.own
    assert limit.said() == (
        "the 10 s for its calls were over after 3 calls; calls are missing in: the check"
    )


def test_identify_ends_with_what_was_found():
    calls = []

    def rope(x, positions):
        calls.append(1)
        return RoPE(8, layout="half").apply(x, positions)

    card = identify(rope, "apply", head_dim=8, seconds=0.0)
    assert not calls
    assert not card.found
    assert any(text.startswith("the 0 s for its calls were over") for text in card.limits)
    assert not any("no call" in text for text in card.unknown)


def test_calls_that_measure_a_slow_function_are_calls_of_its_check():
    shared = Pace(slow=True, spent=100.0)
    with watched() as limit, limit.doing("the check", shared):
        run = make_run(lambda x, positions: x, RoPE(8, layout="half"), "apply")
    assert run.driver.pace is shared
    assert run.settings.reduced
    assert make_run(lambda x, p: x, RoPE(8, layout="half"), "apply").driver.pace is not shared
