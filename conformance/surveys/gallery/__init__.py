"""The gallery: functions of real libraries, identified from outside, against their source.

The functions, and what the source of each says it is, are in :mod:`..adapters`; ``posenc gallery``
identifies them with nothing declared, and compares.
"""
