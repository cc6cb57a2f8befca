"""Judge your own rotary embedding, and the most common mistakes.

Every function of my_rope.py is checked against the same declaration; the code in the report names
the mistake.
"""

import my_rope

from posenc_ref import RoPE
from posenc_ref.conformance import check

DECLARED = RoPE(64, layout="half", base=500000.0)

for function in (
    my_rope.apply,
    my_rope.other_way_round,
    my_rope.default_base,
    my_rope.neighbours,
    my_rope.half_precision_frequencies,
):
    report = check(function, DECLARED, "apply")
    print(f"{function.__name__:28} {report.verdict:10} {', '.join(report.codes)}")

print()
print(check(my_rope.default_base, DECLARED, "apply"))
