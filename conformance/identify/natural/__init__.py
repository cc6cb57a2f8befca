"""Calls that libraries make of functions which no surface describes."""
