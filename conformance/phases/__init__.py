"""Pairs of channels that turn with the position: measured, explained, judged for precision."""
