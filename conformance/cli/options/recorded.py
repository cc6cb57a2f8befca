"""Recorded tensors on the command line: the option ``--recorded`` of check and identify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.recordings.against import compare_recorded
from posenc_ref.conformance.recordings.identify import identify_recorded
from posenc_ref.conformance.recordings.judge import check_recorded_file
from posenc_ref.conformance.surfaces import Declared

from .loading import UsageError


def refuse_options(options: Mapping[str, object], recorded: Path | None) -> None:
    """Raise UsageError for an option that is given and needs, or excludes, ``--recorded``."""
    for option, value in options.items():
        if value is not None:
            needed_by = "needs --recorded" if recorded is None else "is not for --recorded tensors"
            raise UsageError(f"{option} {needed_by}")


def judge_recorded(
    path: Path,
    against: Path | None,
    declared: Declared,
    roles: Sequence[str],
    *,
    head_dim: int | None,
    layer_type: str | None,
    tensor_layout: str | None,
    angles: str | None,
    precision: str | None,
    strict: bool,
) -> Report:
    """Judge a recording against an encoding, or against another recording."""
    named = dict(_role(text) for text in roles)
    if against is not None:
        return compare_recorded(
            path,
            against,
            declared,
            head_dim=head_dim,
            roles=named,
            layer_type=layer_type,
            tensor_layout=tensor_layout,
        )
    return check_recorded_file(
        path,
        declared,
        roles=named,
        layer_type=layer_type,
        tensor_layout=tensor_layout,
        angles=angles,
        precision=precision,
        strict=strict,
    )


def identify_recording(
    path: Path, roles: Sequence[str], head_dim: int | None, tensor_layout: str | None
) -> list[Card]:
    """Return a card for each different encoding of a recording."""
    named = dict(_role(text) for text in roles)
    cards = identify_recorded(path, head_dim=head_dim, roles=named, tensor_layout=tensor_layout)
    if not cards:
        raise UsageError(f"{path} holds no q, k or x before and after a rotation")
    return cards


def _role(text: str) -> tuple[str, str]:
    role, equals, name = text.partition("=")
    if not equals or not role or not name:
        raise UsageError(f"--role must be ROLE=NAME, such as q_before=attn.q, got {text!r}")
    return role, name
