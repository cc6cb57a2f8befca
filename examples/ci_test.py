"""Use the suite in your tests.

In this repository, whose tests have another import mode, run
`pytest --import-mode=prepend examples/ci_test.py`.
"""

import my_rope

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.pytest import parametrize_with_conformance

ENCODING = RoPE(64, layout="half", base=500000.0)
KNOWN = {"code": "base", "reason": "an example of a mistake"}


@parametrize_with_conformance(my_rope.apply, ENCODING, "apply")
def test_apply(check):  # a test for each check, with an id
    check()


@parametrize_with_conformance(my_rope.default_base, ENCODING, "apply", expected_failure=KNOWN)
def test_default_base(check):
    check()


def test_my_rope_follows_the_specification():
    report = check(my_rope.apply, ENCODING, "apply")
    report.raise_if_failed()  # the error is the whole report


def test_my_rope_is_exact_enough_for_long_contexts():
    report = check(my_rope.apply, ENCODING, "apply")
    # The first position where bfloat16 would show the error of float32 angles.
    assert report.accuracy.degrades_at is None or report.accuracy.degrades_at > 16384


if __name__ == "__main__":
    test_my_rope_follows_the_specification()
    test_my_rope_is_exact_enough_for_long_contexts()
    print("both hold")
