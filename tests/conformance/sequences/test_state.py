"""Values that an instance keeps and changes, and mistakes that only crossed calls show."""

import numpy as np
import pytest

from posenc_ref import LinearScaling, RoPE, YaRN
from posenc_ref.conformance import check

HALF = RoPE(16, layout="half")


def first(fn, encoding, surface):
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates", report
    return report.findings[0]


def test_frequencies_that_are_scaled_again():
    scaled, plain = RoPE(16, layout="half", scaling=LinearScaling(2.0)), HALF

    def fn(calls):
        longest, factor, results = 64, 0.5, []
        for x, offset in calls:
            end = offset + x.shape[2]
            if end > longest:
                longest, factor = end, factor / 2
            results.append(plain.apply(x, factor * np.arange(offset, end)))
        return results

    found = first(fn, scaled, "calls")
    assert "divided by the scaling's factor 2 again" in found.message
    assert found.remedy.startswith("Scale the original frequencies once")


def test_a_factor_multiplied_into_kept_rows():
    yarn = RoPE(16, layout="half", scaling=YaRN(8.0, 2048))
    m = yarn.attention_factor()

    def fn(calls):
        used, results = {}, []
        for x, offset in calls:
            at = range(offset, offset + x.shape[2])
            again = np.array([used.get(p, 0) for p in at])
            used |= {p: used.get(p, 0) + 1 for p in at}
            y = yarn.apply(x, np.array(at, int))
            results.append((y * (m**again)[:, None]).astype(x.dtype))
        return results

    found = first(fn, yarn, "calls")
    assert "is multiplied into kept cos and sin again" in found.message


def test_a_chunk_that_reuses_the_chunk_before():
    def fn(x, chunks):
        start, before, used, out = 0, None, 0, []
        for n in chunks:
            used = used if n == before else start
            out.append(HALF.apply(x[:, :, start : start + n], np.arange(used, used + n)))
            before, start = n, start + n
        return np.concatenate(out, axis=2)

    found = first(fn, HALF, "decode")
    assert found.message == "a chunk gets the angles of the chunk before, if both are equally long"


def test_a_lost_sign():
    found = first(
        lambda k, delta: HALF.apply(k, np.full(k.shape[2], abs(delta))), HALF, "shift_keys"
    )
    assert found.message == "the sign of delta is lost: keys move by |delta|"


def chunked(wrong):
    """Return a right function of chunks, but for calls for which ``wrong(x, chunks)`` holds."""

    def fn(x, chunks):
        at = np.arange(x.shape[2])
        return HALF.apply(x, at + 1 if wrong(x, chunks) else at)

    return fn


@pytest.mark.nightly
@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, chunks: x.shape[1] == 5 and tuple(chunks[1:]) == (8, 3),
        lambda x, chunks: x.shape[0] == 1 and chunks[0] == 17,
    ],
    ids=["heads and chunks", "rows and prompt"],
)
def test_two_facts_of_chunks_meet(wrong):
    assert check(chunked(wrong), HALF, "decode").verdict == "deviates"


def into(array):
    """Return ``calls`` that writes each result where ``array(x)`` says, and what it returns."""

    def calls(steps):
        results = []
        for x, offset in steps:
            y = array(x)
            y[...] = HALF.apply(x, offset + np.arange(x.shape[2]))
            results.append(y)
        return results

    return calls


def last_shape():
    """Return a new array only if the shape is not that of the call before."""
    kept = [np.empty(0)]

    def array(x):
        if kept[0].shape != x.shape:
            kept[0] = np.empty_like(x)
        return kept[0]

    return array


def one_workspace():
    """Return the first elements of one large array."""
    rows = np.empty(2**20, np.float32)
    return lambda x: rows[: x.size].reshape(x.shape)


@pytest.mark.parametrize("array", [last_shape, one_workspace])
def test_results_that_share_memory(array):
    found = first(into(array()), HALF, "calls")
    assert found.message.startswith("a later call overwrites the results of earlier calls")
    assert found.code == "state"


def test_results_of_a_torch_workspace():
    torch = pytest.importorskip("torch", reason="judges tensors of PyTorch")

    def calls(steps):
        rows, results = torch.empty(2**20), []
        for x, offset in steps:
            y = rows[: x.numel()].view(x.shape)
            y.copy_(torch.as_tensor(HALF.apply(x.numpy(), offset + np.arange(x.shape[2]))))
            results.append(y)
        return results

    report = check(calls, HALF, "calls", backend="torch")
    assert "both share memory" in report.findings[0].message


def test_results_that_were_overwritten_and_copied_then():
    calls = into(last_shape())
    found = first(lambda steps: [y.copy() for y in calls(steps)], HALF, "calls")
    assert found.code == "state"
    assert "share memory" not in found.message


def test_positions_that_never_go_back():
    def calls(steps):
        seen, results = 0, []
        for x, offset in steps:
            start = max(seen, offset)
            seen = start + x.shape[2]
            results.append(HALF.apply(x, np.arange(start, seen)))
        return results

    found = first(calls, HALF, "calls")
    assert found.message.startswith("positions never go back")
