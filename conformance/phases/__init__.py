"""Pairs of channels that rotate with the position: measure, diagnose, and classify precision."""
