"""Judges of ALiBi slopes, biases and T5 buckets."""

from __future__ import annotations

from .run import Run


def judge_slopes(run: Run) -> None:
    """Slopes."""


def judge_bias(run: Run) -> None:
    """Bias."""


def judge_bucket(run: Run) -> None:
    """Bucket."""
