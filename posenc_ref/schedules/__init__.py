"""Frequency schedules of rotary encodings, such as linear, NTK, YaRN and LongRoPE."""
