"""The channel pairs of a rotation: their layout, their axes, and frequencies of each head."""
