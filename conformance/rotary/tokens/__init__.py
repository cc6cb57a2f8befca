"""Diagnose results that are made with x of other tokens."""
