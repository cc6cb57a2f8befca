"""The values of ``--family`` for encodings other than rotations."""

#: Kinds of places by the family of what they hold.
FAMILIES: dict[str, tuple[str, ...]] = {
    "table": (
        "learned", "coordinates", "sines", "image sines", "timesteps", "fourier", "convolution",
        "other",
    ),
    "bias": ("alibi", "t5", "window"),
    "score": ("decomposed", "relative", "disentangled"),
}  # fmt: skip
