"""Measure and diagnose pairs of channels that rotate with the position."""
