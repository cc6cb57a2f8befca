"""The other layer type that a function is right for is the cause, if no other is known."""

import numpy as np
import pytest

from posenc_ref import Attention, RoPE, YaRN
from posenc_ref.conformance import check
from posenc_ref.conformance.diagnosis.layer_types import name_layer_type

ROPE = RoPE(8, layout="interleaved", base=160000.0)
SCALED = ROPE.replace(scaling=YaRN(16.0, 65536, attention_factor=1.0))
RIGHT = "the function is right for your other layer type, 'main'"


@pytest.mark.parametrize(
    ("main", "known"), [(ROPE.replace(base=10000.0), False), (SCALED.replace(base=10000.0), True)]
)
def test_a_cause_is_not_denied_where_it_is_named(main, known):
    """Another base and no scaling have no cause; another base has one, which stays."""

    def judge(rope):
        return check(lambda *call: np.asarray(Attention(main).output(*call)),
                     Attention(rope), "attention")  # fmt: skip

    report = judge(SCALED)
    name_layer_type(report, {"same": SCALED, "main": main}, judge)
    message = report.findings[0].message
    assert (report.codes == ["inaccurate"]) is not known
    assert message.endswith(RIGHT)
    assert (message == RIGHT) is not known
    assert "no known mistake" not in message
    assert "layers of type 'main'" in report.findings[0].remedy
