"""Fit measured frequencies to a base and a scaling."""
