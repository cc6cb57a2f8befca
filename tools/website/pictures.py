"""The pictures of the book."""


def of(cls):
    """Return the picture of an encoding, or nothing if there is none."""
    return ""
