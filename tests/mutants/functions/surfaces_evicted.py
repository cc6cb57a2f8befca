"""Functions that evict keys from a cache of rotated keys and move the rest back."""

import numpy as np

from tests.mutants._case import correct, rope, schedule, wrong

NAME = "evict_keys"
YARN = rope(16, scaling=schedule("YaRN", factor=8.0, original_max_position=512))


def moved(k, delta):
    """Half-split pairs of 64 channels, moved by delta positions; delta is a number or (S,)."""
    angle = np.broadcast_to(delta, k.shape[2])[:, None] * 10000.0 ** (-np.arange(32) / 32)
    cos, sin = np.cos(angle).astype(k.dtype), np.sin(angle).astype(k.dtype)
    one, two = k[..., :32], k[..., 32:]
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)


def joined(k, kept, rest):
    """The kept keys, then the rest."""
    return np.concatenate([k[:, :, :kept], rest], axis=2)


@correct(surface=NAME, encoding=rope(64), thread="arXiv:2309.17453, section 3.2")
def evicted_with_sinks(k, kept, dropped):
    """The first keys stay, the others move back once."""
    return joined(k, kept, moved(k[:, :, kept + dropped :], -dropped))


@correct(surface=NAME, encoding=rope(64), thread="mit-han-lab/streaming-llm#53")
def evicted_by_way_of_raw_keys(k, kept, dropped):
    """All left keys are turned back to raw ones, then rotated to their places in the cache."""
    old = np.delete(np.arange(k.shape[2]), range(kept, kept + dropped))
    return moved(moved(k[:, :, old], -old), np.arange(old.size))


@wrong("stale-cache", surface=NAME, encoding=rope(64), thread="huggingface/transformers#35350")
def evicted_but_the_newest_key_stays(k, kept, dropped):
    """The newest key keeps its position in the text."""
    rest = k[:, :, kept + dropped :]
    return joined(k, kept, moved(rest, -dropped * (np.arange(rest.shape[2]) < rest.shape[2] - 1)))


@wrong("stale-cache", surface=NAME, encoding=rope(64), thread="mit-han-lab/streaming-llm#73")
def evicted_with_a_gap(k, kept, dropped):
    """Positions in the text are kept: no key moves."""
    return joined(k, kept, k[:, :, kept + dropped :])


@wrong("stale-cache", surface=NAME, encoding=rope(64), thread="class: the whole cache is shifted")
def evicted_with_shifted_sinks(k, kept, dropped):
    """The kept keys move back with the others."""
    left = np.concatenate([k[:, :, :kept], k[:, :, kept + dropped :]], axis=2)
    return moved(left, -dropped)


@wrong("position-scale", surface=NAME, encoding=rope(64), thread="class: shifted twice")
def evicted_and_moved_twice(k, kept, dropped):
    """The keys after the gap are moved once more."""
    return joined(k, kept, moved(k[:, :, kept + dropped :], -2 * dropped))


@wrong("decode-offset", surface=NAME, encoding=rope(64), thread="class: n_keep + 1")
def evicted_one_position_short(k, kept, dropped):
    """A gap of one position is left after the kept keys."""
    return joined(k, kept, moved(k[:, :, kept + dropped :], 1 - dropped))


@wrong("kept-keys", surface=NAME, encoding=rope(64), thread="class: BOS is not counted")
def evicted_with_one_key_fewer(k, kept, dropped):
    """One key fewer is kept, and one later key more."""
    kept = max(kept - 1, 0)
    return joined(k, kept, moved(k[:, :, kept + dropped :], -dropped))


@wrong("attention-factor", surface=NAME, encoding=YARN, thread="class: factor once more")
def evicted_with_the_factor_again(k, kept, dropped):
    """The tables of the model, which contain YaRN's factor, are used for the shift."""
    pair = 10000.0 ** (-np.arange(8) / 8)
    low, high = (8 * np.log(512 / (b * 2 * np.pi)) / np.log(10000.0) for b in (32.0, 1.0))
    low, high = max(np.floor(low), 0), min(np.ceil(high), 15)
    ramp = np.clip((np.arange(8) - low) / (high - low), 0, 1)
    angle = -dropped * (pair / 8 * ramp + pair * (1 - ramp))
    m = 0.1 * np.log(8.0) + 1
    cos, sin = (m * np.cos(angle)).astype(k.dtype), (m * np.sin(angle)).astype(k.dtype)
    rest = k[:, :, kept + dropped :]
    one, two = rest[..., :8], rest[..., 8:]
    return joined(k, kept, np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1))
