"""Decoding steps, chunks and packed sequences; the rotation is written out in float64 NumPy."""

import numpy as np
import pytest

from posenc_ref import ModelEncoding, RoPE
from posenc_ref.conformance import check_recorded, check_recorded_file
from posenc_ref.conformance.recordings.against import compare_recorded
from posenc_ref.conformance.recordings.identify import identify_recorded
from tests.night import by_day

D, HALF = 32, RoPE(32, layout="half")
#: The lengths of three sequences with their new token, and the positions of 20 cached keys.
LENGTHS, CACHE = np.array([20, 13, 9]), np.tile(np.arange(20), (3, 1))
LAST = LENGTHS[:, None] - 1


def turned(x, p, base=10000.0):
    """Rotate x (B, H, S, D) to positions (S,) or (B, S), by half-split pairs."""
    p = np.broadcast_to(np.asarray(p, float), (x.shape[0], x.shape[2]))
    angle = p[:, None, :, None] * base ** (-np.arange(0, D, 2) / D)
    a, b = np.split(x.astype(float), 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def step(q_at=LAST, k_at=CACHE, **positions):
    """q of one token and k of the whole cache, rotated to the positions that are given."""
    q, k = draw(3, 4, 1, D), draw(3, 2, np.shape(k_at)[-1], D, seed=1)
    tensors = {"q_before": q, "k_before": k, "q_after": turned(q, q_at), "k_after": turned(k, k_at)}
    return tensors | {name: np.asarray(p) for name, p in positions.items()}


APART = {"q_positions": LAST, "k_positions": CACHE}
PADDED = np.maximum(np.arange(20) - (20 - LENGTHS)[:, None], 1)

#: The query lengths, and the lengths with what is cached: a prompt, two steps, and a chunk.
NEW, ALL = np.array([7, 1, 1, 5]), np.array([7, 30, 12, 21])
FLAT = np.concatenate([np.arange(n - m, n) for m, n in zip(NEW, ALL, strict=True)])
LOCAL = np.concatenate([np.arange(m) for m in NEW])
SIZES = np.repeat(NEW, NEW)
STARTS = np.concatenate([[0], np.cumsum(NEW)])


def flat(at, **known):
    """Tokens of all sequences, (tokens, heads * channels), as vLLM has them."""
    tensors = {}
    for name, heads in (("q", 4), ("k", 2)):
        x = draw(1, heads, len(FLAT), D, seed=heads)
        for when, y in (("before", x), ("after", turned(x, at))):
            tensors[f"{name}_{when}"] = y[0].transpose(1, 0, 2).reshape(len(FLAT), -1)
    return tensors | known


PACKED = {"query_start_loc": STARTS, "seq_lens": ALL}

#: The tensors, the code of the mistake ("" if there is none), and words of its message.
CASES = {
    "apart": (lambda: step(**APART), "", ""),
    "a number for each row": (lambda: step(q_positions=LAST[:, 0], k_positions=CACHE), "", ""),
    "q at the end of all positions": (lambda: step(19, positions=CACHE[0]), "", ""),
    "q at the end, late": (
        lambda: step(20, positions=CACHE[0]), "decode-offset", "one too large",
    ),
    "padded in front": (lambda: step(PADDED[:, -1:], PADDED, positions=PADDED), "", ""),
    "a new key only": (lambda: step(LAST, LAST, positions=LENGTHS - 1), "", ""),
    "step at 0": (lambda: step(0, **APART), "decode-offset", "its value at position 0"),
    "step late": (lambda: step(LAST + 1, **APART), "decode-offset", "one too large"),
    "keys twice": (lambda: step(k_at=2 * CACHE, **APART), "stale-cache", "every key is rotated tw"),
    "old keys twice": (
        lambda: step(k_at=CACHE * (2 - (CACHE == 19)), **APART), "stale-cache", "all keys but the",
    ),
    "keys at every step": (
        lambda: step(k_at=CACHE * (20 - np.maximum(CACHE, 11)), **APART),
        "stale-cache", "the whole cache is rotated again at every step",
    ),
    "the last key only": (
        lambda: step(k_at=CACHE * (CACHE == 19), **APART), "stale-cache", "only the last key",
    ),
    "rows of the first": (
        lambda: step(np.full((3, 1), 19), **APART), "row-offset", "where the first one does",
    ),
    "flat": (lambda: flat(FLAT, positions=FLAT), "", ""),
    "packed": (lambda: flat(FLAT, **PACKED), "", ""),
    "packed, restarted": (lambda: flat(LOCAL, **PACKED), "decode-offset", "positions restart at 0"),
    "flat, restarted": (
        lambda: flat(LOCAL, positions=FLAT), "decode-offset", "positions restart at 0",
    ),
    "packed, steps at 0": (
        lambda: flat(np.where(SIZES == 1, 0, FLAT), **PACKED), "decode-offset", "single tokens",
    ),
    "packed, chunks at 0": (
        lambda: flat(np.where(SIZES > 1, LOCAL, FLAT), **PACKED), "decode-offset", "several tokens",
    ),
    "packed, counted through": (
        lambda: flat(np.arange(FLAT.size), **PACKED), "decode-offset", "counted from 0",
    ),
    "packed, late": (
        lambda: flat(FLAT + (FLAT > LOCAL), **PACKED), "decode-offset", "one position late",
    ),
    "packed, new tokens counted": (
        lambda: flat(FLAT + SIZES, **PACKED), "decode-offset", "counts the new tokens",
    ),
}  # fmt: skip
DAY = ("padded in front", "step at 0", "keys at every step", "packed", "packed, steps at 0")


def judged(tensors, folder, encoding=HALF):
    np.savez(folder / "recorded.npz", **tensors)
    return check_recorded_file(folder / "recorded.npz", encoding)


@pytest.mark.parametrize("name", by_day(CASES, DAY))
def test_a_decoding_step_is_judged(name, tmp_path):
    make, code, words = CASES[name]
    report = judged(make(), tmp_path)
    assert report.verdict == ("deviates" if code else "conforms"), report
    assert report.codes == ([code] if code else []), report
    assert all(words in finding.message for finding in report.findings), report


def test_positions_of_queries_and_keys_may_be_given_apart():
    t = step()
    before, after = ({n: t[f"{n}_{when}"] for n in "qk"} for when in ("before", "after"))
    report = check_recorded(before, after, {"q": LAST, "k": CACHE}, HALF)
    assert report.verdict == "conforms", report
    report = check_recorded(before, after, {"q": LAST + 1, "k": CACHE}, HALF)
    assert report.codes == ["decode-offset"], report
    with pytest.raises(ValueError, match=r"positions must have keys among q and k, got \['v'\]"):
        check_recorded(before, after, {"v": LAST}, HALF)


@pytest.mark.parametrize("padding", [0, 5])
def test_a_new_key_is_found_in_its_cache(padding):
    tensors = step(19, np.arange(20))
    before = {"q": tensors["q_before"], "k": tensors["k_before"][:, :, -1:]}
    cache = np.pad(tensors["k_after"], ((0, 0), (0, 0), (0, padding), (0, 0)))
    report = check_recorded(before, {"q": tensors["q_after"], "k": cache}, 19, HALF)
    assert report.verdict == "conforms", report
    assert "k: only the newest key is judged; 19 older keys are not" in " ".join(report.limits)
    late = turned(cache, np.ones(20 + padding))
    report = check_recorded(before, {"q": tensors["q_after"], "k": late}, 19, HALF)
    assert report.codes == ["decode-offset"], report


def test_packed_sequences_without_lengths_say_what_is_assumed(tmp_path):
    prompts = flat(LOCAL, cu_seqlens=STARTS)
    assert judged(prompts, tmp_path).verdict == "inconclusive"  # single tokens may stand anywhere
    starts = np.array([0, 7, 9, 14])
    at = np.concatenate([np.arange(7), np.arange(2), np.arange(5)])
    report = judged(flat(at, cu_seqlens=starts), tmp_path)
    assert report.verdict == "conforms", report
    assert "0, 1, 2, ... assumed in each of 3 sequences" in " ".join(report.limits)
    keys = {name: t for name, t in flat(at, cu_seqlens_k=starts).items() if name[0] != "q"}
    q = draw(3, 4, 1, D)
    last = turned(q, np.diff(starts)[:, None] - 1)
    steps = {"q_before": q[:, :, 0], "q_after": last[:, :, 0], "cu_seqlens_q": np.arange(4)}
    keys |= {n: t.reshape(14, 2, D) for n, t in keys.items() if t.ndim == 2}
    assert judged(steps | keys, tmp_path).verdict == "conforms"
    for name, wrong, words in (
        ("cu_seqlens", starts[:-1], "the number of tokens of q: 0, ..., 14; got 0, 7, 9"),
        ("seq_lens", ALL, "seq_lens must give the length of each of the 3 sequences"),
    ):
        with pytest.raises(ValueError, match=words):
            judged(flat(at, **{"cu_seqlens": starts, name: wrong}), tmp_path)


def steps(name, wrong=None, by=1, base=None):
    """A prompt and a step of two layers; positions are those of the step."""
    tensors = {}
    for s, at in enumerate((np.arange(16), np.array([16]))):
        for layer in range(2):
            used = at + by * (wrong == (s, layer))
            for n, which in enumerate("qk"):
                x = draw(1, 4, at.size, D, seed=100 * s + 10 * layer + n)
                prefix = name.format(s=s, layer=layer)
                tensors[f"{prefix}{which}_before"] = x
                own = (base or {}).get(layer, 10000.0)
                tensors[f"{prefix}{which}_after"] = turned(x, used, own)
        tensors[f"step_{s}/positions"] = at
    return tensors


GLUED = "layer{layer}_step{s}_"


@pytest.mark.nightly  # the test of a folder names them too
@pytest.mark.parametrize("name", ["step_{s}/layers.{layer}/", GLUED])
def test_the_step_and_the_layer_are_named(name, tmp_path):
    report = judged(steps(name, wrong=(1, 0)), tmp_path)
    assert report.codes == ["decode-offset"], report
    assert report.measured.endswith("2 of 8 tensors deviate"), report
    assert "step.1" in report.findings[0].evidence.replace("step1", "step.1")
    cards = identify_recorded(tmp_path / "recorded.npz")
    assert [card.encoding for card in cards] == [HALF, None]


def test_a_folder_holds_a_file_for_every_step(tmp_path):
    every = steps("step_{s}/layers.{layer}/", wrong=(1, 1))
    for s in range(2):
        own = {n.split("/", 1)[1]: t for n, t in every.items() if n.startswith(f"step_{s}/")}
        np.savez(tmp_path / f"step_{s}.npz", **own)
    report = check_recorded_file(tmp_path, HALF)
    assert report.codes == ["decode-offset"], report
    assert report.findings[0].evidence.startswith("step.1.layers.1 q: "), report


def test_a_step_is_no_layer(tmp_path):
    model = ModelEncoding(
        "m", encodings={"a": HALF, "b": HALF.replace(base=5e5)}, layer_types=("a", "b")
    )
    right = steps("step_{s}/layers.{layer}/", base={1: 5e5})
    assert judged(right, tmp_path, model).verdict == "conforms"
    wrong = judged(steps("step_{s}/layers.{layer}/"), tmp_path, model)
    assert "base" in wrong.codes, wrong


def test_steps_of_two_recordings_are_compared(tmp_path):
    names = ("step_{s}/layers.{layer}/", "step_{s}/h.{layer}.")
    for file, name, wrong in (
        ("a", names[0], (1, 0)),
        ("b", names[1], None),
        ("c", names[0], None),
    ):
        np.savez(tmp_path / f"{file}.npz", **steps(name, wrong=wrong))
    report = compare_recorded(tmp_path / "a.npz", tmp_path / "b.npz")
    assert report.codes == ["decode-offset"], report
    assert "8 tensors in 4 layers compared, 2 rotated differently: the first is step.1" in str(
        report
    )
    assert compare_recorded(tmp_path / "c.npz", tmp_path / "b.npz").verdict == "conforms"
