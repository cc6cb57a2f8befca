"""Steps of one recording, judged together; the cache is kept by a loop in NumPy."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check_recorded_file
from tests.conformance.handwritten import rope

D, HALF = 32, RoPE(32, layout="half")


def turned(x, at, base=10000.0, times=1.0):
    return rope(base=base)(x, times * np.asarray(at, float)).astype(np.float32)


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def decoded(prompt=5, change=None, batch=1, used=lambda p: p, named="step_{}/{}"):
    """A prompt and three steps, with the whole cache after each; ``change`` spoils the cache."""
    tensors, cache, end = {}, np.zeros((batch, 2, 0, D), np.float32), 0
    for step, count in enumerate((prompt, 1, 1, 1)):
        at = np.arange(end, end + count)
        q, k = draw(2 * step, batch, 4, count, D), draw(2 * step + 1, batch, 2, count, D)
        old = change(cache, step) if change and step else cache
        cache, end = np.concatenate([old, turned(k, used(at))], axis=2), end + count
        own = {"q_before": q, "k_before": k, "q_after": turned(q, used(at)), "k_after": cache}
        own["positions"] = at
        tensors |= {named.format(step, role): array for role, array in own.items()}
    return tensors


def judged(tensors, folder, encoding=HALF, **settings):
    np.savez(folder / "recorded.npz", **tensors)
    return check_recorded_file(folder / "recorded.npz", encoding, **settings)


#: What happens to the cache in front of the newest keys, and how the report says it.
CHANGES = {
    "turned": (lambda c, step: turned(c, np.ones(c.shape[2])), "are rotated again"),
    "once": (lambda c, step: turned(c, np.ones(c.shape[2]) * (step == 3)), "are rotated again"),
    "reversed": (lambda c, step: c[:, :, ::-1] if step == 3 else c, "stand in other places now"),
    "one key lost": (lambda c, step: c * (np.arange(c.shape[2]) != 2)[:, None], "are 0 now"),
    "the last key overwritten": (
        lambda c, step: np.concatenate([c[:, :, :-1], draw(9, 1, 2, 1, D)], 2), "have changed",
    ),
    "one key of others": (
        lambda c, step: np.where((np.arange(c.shape[2]) == 1)[:, None], draw(9, *c.shape), c),
        "have changed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_later_step_may_not_change_the_cache(name, tmp_path):
    change, words = CHANGES[name]
    report = judged(decoded(change=change), tmp_path)
    assert report.codes == ["stale-cache"], report
    assert report.findings[0].message == f"keys that an earlier step left in the cache {words}"


def test_a_cache_that_is_kept_conforms(tmp_path):
    report = judged(decoded(), tmp_path)
    assert report.verdict == "conforms", report
    assert report.executed["values"] == 8 + 3  # three caches are compared
    assert "older" not in str(report)
    alone = {name: t for name, t in decoded().items() if name.startswith("step_3")}
    assert "only the newest key is judged; 7 older keys are not" in str(judged(alone, tmp_path))


def test_rows_may_change_places_and_recordings_may_be_of_other_sequences(tmp_path):
    beams = judged(decoded(change=lambda c, step: c[::-1], batch=2), tmp_path)
    assert beams.verdict == "conforms", beams
    assert "the rows of the cache are those of step.0 in another order" in str(beams)
    begun = judged(
        decoded(
            change=lambda c, step: np.concatenate([c[:, :, :1], draw(60, *c.shape)[:, :, 1:]], 2)
        ),
        tmp_path,
    )
    assert begun.verdict == "conforms", begun  # the first token, that of all sequences, is the same
    other = judged(decoded(change=lambda c, step: draw(50 + step, *c.shape)), tmp_path)
    assert other.verdict == "conforms", other
    assert "another sequence" in str(other)


def test_a_step_at_position_0_needs_another_step(tmp_path):
    right = decoded(prompt=1)
    assert judged(right, tmp_path).verdict == "conforms"
    only = {name: t for name, t in right.items() if name.startswith("step_0")}
    assert judged(only, tmp_path).verdict == "inconclusive"
    without = {n: t for n, t in right.items() if not n.startswith("step_0/q") and "k_" not in n}
    without |= {n: t for n, t in right.items() if n.startswith("step_0/k")}
    assert judged(without, tmp_path).verdict == "inconclusive"  # k is in no other step


def test_steps_have_one_cause(tmp_path):
    tensors = {}
    for step, at in enumerate(range(7, 11)):
        x = draw(step, 1, 4, 1, D)
        tensors |= {f"step_{step}/q_before": x, f"step_{step}/q_after": turned(x, [at], times=0.5)}
        tensors[f"step_{step}/positions"] = np.array([at])
    report = judged(tensors, tmp_path)
    assert [f.message for f in report.findings] == ["every frequency is 0.5 times the declared one"]
    assert "likewise, with other numbers, step.1" in str(report)


def test_the_first_wrong_position_is_named(tmp_path):
    stuck = decoded(used=lambda at: at - (at > 5))
    report = judged({n: t for n, t in stuck.items() if "k_" not in n}, tmp_path)
    assert report.codes == ["decode-offset"], report
    assert "from position 6 on, and not before: " in report.findings[0].message
    last = {n: t for n, t in stuck.items() if n.startswith("step_2/") and "k_" not in n}
    report = judged(last, tmp_path)
    assert report.codes == ["decode-offset"], report
    assert report.findings[0].message == "every position is one too small"


@pytest.mark.parametrize(
    ("word", "named", "role"),
    [
        ("token_pos", "step_{}/{}", None),
        ("cache_position", "decode_{}.{}", None),
        ("start_pos", "layers.{}.{}", None),
        ("where", "step_{}/{}", "where"),
        ("where", "step_{}/{}", "*/where"),
    ],
)
def test_positions_have_many_names(word, named, role, tmp_path):
    tensors = {n.replace("positions", word): t for n, t in decoded(named=named).items()}
    report = judged(tensors, tmp_path, roles={"positions": role} if role else {})
    assert report.verdict == "conforms", report
    assert "no positions" not in str(report)


def test_packed_sequences_that_are_not_told_apart_are_named(tmp_path):
    x, starts = draw(0, 1, 4, 12, D), np.array([0, 5, 12])
    y = turned(x, np.arange(12))
    own = {"q_before": x[0].swapaxes(0, 1), "q_after": y[0].swapaxes(0, 1), "cu_seqlens": starts}
    (finding,) = judged(own, tmp_path).findings
    assert "the starts of the sequences (cu_seqlens) are not used" in finding.message
