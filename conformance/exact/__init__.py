"""Arithmetic with 50 digits that shares no code with the specification, and the certificate."""
