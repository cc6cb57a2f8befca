"""Recognise frequencies of other pairs, such as of the next pair in the last vector of pairs."""

from __future__ import annotations

import numpy as np

from posenc_ref.conformance.diagnosis.rule import find_rule

from .frequencies import FrequencyMistake, Schedule, agree

_INDEX = "k"


def other_pairs(
    measured: np.ndarray, sigma: np.ndarray, declared: Schedule
) -> FrequencyMistake | None:
    """Return the rule that says whose frequency each pair has, or None if there is none.

    The pairs of a geometric schedule go on past the declared ones.
    """
    target = declared.declared
    k = np.arange(target.size)
    if (target <= 0).any() or (measured <= 0).any():
        return None
    if declared.target is None:
        scale = declared.n / np.log(declared.base)
        used = np.rint(-np.log(measured * declared.factor) * scale).astype(np.int64)
        if (np.abs(used) > 4 * target.size).any():
            return None
        series = np.exp(-used / scale) / declared.factor
    else:
        used = np.abs(np.log(measured[:, None] / target)).argmin(axis=1)
        series = target[used]
    used = np.where(agree(measured, target, sigma), k, used)
    if not agree(measured, np.where(used == k, target, series), sigma).all():
        return None
    rule = find_rule(used, {_INDEX: k}, declared=_INDEX)
    if rule is None:
        return None
    first = int(np.flatnonzero(used != k)[0])
    text = f"pair k has the frequency of pair {rule.words}"
    return FrequencyMistake(
        "frequency-spacing",
        f"{text}; so pair {first} has that of pair {used[first]}",
        measured,
        remedy=f"Use k in the exponent{_where(rule.where)}, not {rule.text}.",
    )


def _where(condition: str) -> str:
    return f" also where {condition}" if condition else ""
