"""Logits that are capped, and judged up to a constant of each row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, with_value
from posenc_ref.conformance.oracle.scores import Scored

#: The code of limited logits.
CAPPED = "softmax-scale"
#: Caps of released models, and likely ones.
CAPS = (50.0, 30.0, 20.0, 10.0, 15.0, 100.0, 8.0, 5.0)


def capped() -> Iterator[Mistake]:
    """Yield logits that are capped by tanh before the constants of rows are left open."""
    for cap in CAPS:
        text = f"the logit is capped: {cap:g} * tanh(x / {cap:g}) of it"
        remedy = "Use the logit as it is, without a limit."
        yield Mistake(CAPPED, text, partial(_of, cap), remedy, values={"measured": [cap]})


def _of(cap: float, call: Scored) -> Truth:
    truth = call.truth()
    whole = sum(np.asarray(part.value) for part in call.parts().values())
    limited = cap * np.tanh(np.asarray(whole) / cap)
    return with_value(truth, limited - call.own(limited))
