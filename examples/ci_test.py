"""Use the oracle in your test suite.

In this repository, whose tests have another import mode, run
`pytest --import-mode=prepend examples/ci_test.py`.
"""

import my_rope

from posenc_ref import RoPE
from posenc_ref.conformance import check


def test_my_rope_follows_the_specification():
    report = check(my_rope.apply, RoPE(64, layout="half", base=500000.0), "apply")
    report.raise_if_failed()  # the error is the whole report


def test_my_rope_is_exact_enough_for_long_contexts():
    report = check(my_rope.apply, RoPE(64, layout="half", base=500000.0), "apply")
    # The first position where bfloat16 would show the error of float32 angles.
    assert report.accuracy.degrades_at is None or report.accuracy.degrades_at > 16384


if __name__ == "__main__":
    test_my_rope_follows_the_specification()
    test_my_rope_is_exact_enough_for_long_contexts()
    print("both hold")
