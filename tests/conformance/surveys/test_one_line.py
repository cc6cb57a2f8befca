"""Exceptions in one line."""

from posenc_ref.conformance.surveys.record import one_line


def test_sets_are_sorted():
    error = KeyError("Missing {'b', 'a'} and {'long', 'short'}, got {'x': 1} and {}\nat the end")
    assert one_line(error) == (
        "KeyError: \"Missing {'a', 'b'} and {'long', 'short'}, got {'x': 1} and {}\\nat the end\""
    )
