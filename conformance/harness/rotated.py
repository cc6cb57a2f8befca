"""The rotated channels of a head as an encoding of their own."""

from __future__ import annotations

from posenc_ref import RoPE


def rotated_channels(encoding: RoPE) -> RoPE:
    """Return the encoding of the rotated channels alone, such as 64 of DeepSeek's 192."""
    return encoding.replace(head_dim=encoding.rotary_dim, rotary_start=0, rotary_dim=None)
