"""Identify rules of position ids: those of Qwen2-VL, GLM-4V, HunYuan-VL and other models."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

import numpy as np

from posenc_ref import PositionRule, mrope_rule
from posenc_ref.conformance.functions.judge import ROWS
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card, Unidentified
from posenc_ref.mrope_rules import RULES

#: The calls for each rule to compare before the check, which makes all of them.
_FEW = 12


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of a function that numbers text, images, videos and audio."""
    rules: dict[PositionRule, list[str]] = {}
    for model in RULES:
        rules.setdefault(mrope_rule(model), []).append(model)
    row = ROWS[run.report.surface]
    calls = []
    for rule in rules:
        for probe in islice(row.probes(rule, run.settings.seed, run.driver.dtype), _FEW):
            with suppress(Refused, Malformed):
                actual = run.driver.array(run.driver.call(*probe.arguments))
                judged = np.asarray(row.judged(probe.arguments))
                calls.append((probe.arguments, actual, judged))
    if not calls:
        raise Unidentified("every call is refused")

    def right(rule: PositionRule) -> int:
        """Return how many calls have the positions of a rule."""
        count = 0
        for arguments, actual, judged in calls:
            with suppress(ValueError, TypeError, IndexError):  # the rule has no such tokens
                expected = np.asarray(rule.with_decoding(*arguments))
                count += expected.shape == actual.shape and bool(
                    (actual == expected)[np.broadcast_to(judged, expected.shape)].all()
                )
        return count

    found = max(rules, key=right)
    card.facts["compared"] = f"{right(found)} of {len(calls)} calls have the positions of the rule"
    if right(found) < len(calls) / 2:
        raise Unidentified("the positions are those of no known rule (mrope_rule)")
    card.encoding = found  # type: ignore[assignment]
    card.facts["rule"] = f"that of {', '.join(rules[found])}"
