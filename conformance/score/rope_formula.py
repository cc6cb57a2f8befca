"""The logits of RoPE by the offset of query and key, in steps that may be computed differently."""

from __future__ import annotations

import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.oracle.scores import Scored

from .formula_parts import Terms, offsets
from .registered import formula


@formula(RoPE, lambda e: not e.depends_on_length)
def rope(call: Scored, s: Steps) -> Terms:
    """Return the product of queries and keys that are rotated by the angle of their offset."""
    e: RoPE = call.encoding
    angle = np.asarray(offsets(call, s), np.float64)[..., None] * e.frequencies()
    first, second = e.pairs()
    q1, q2, k1, k2 = (x[..., pair] for x in (call.q, call.k) for pair in (first, second))
    cos, sin = np.cos(angle), e.sign * np.sin(angle)
    turned = sum(
        np.einsum("bhqp,bhkp,qkp->bhqk", a, b, wave)
        for a, b, wave in ((q1, k1, cos), (q2, k2, cos), (q1, k2, sin), (-q2, k1, sin))
    )
    rest = np.ones(call.q.shape[-1], bool)
    rest[np.ravel((first, second))] = False
    plain = call.q[..., rest] @ np.swapaxes(call.k[..., rest], -1, -2)
    value = call.scale * (e.attention_factor() ** 2 * turned + plain)
    return {"q.k": value if call.factor is None else value * call.factor[:, None]}
