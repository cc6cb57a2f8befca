"""Mistakes that earlier probes missed: bands of positions, strides, calls that look alike."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

D = 16
HALF = pr.RoPE(D, layout="half")
PE = pr.Sinusoidal(D)


@pytest.mark.parametrize(("low", "high"), [(2050, 3000), (20001, 32000)])
def test_a_band_of_wrong_positions(low, high):
    def banded(x, positions):
        at = np.asarray(positions)
        return HALF.apply(x, np.where((at >= low) & (at < high), 0, at))

    assert check(banded, HALF, "apply").verdict == "deviates"
    table = check(lambda p: PE.table(np.where((p >= low) & (p < high), 0, p)), PE, "table")
    assert table.verdict == "deviates"


def test_a_kernel_that_ignores_the_strides_of_a_transposed_view():
    def misread(x, positions):
        if not x.flags.c_contiguous and x.strides[-1] == x.itemsize and x.flags.writeable:
            x = np.resize(x.base, x.shape)
        return HALF.apply(x, positions)

    found = check(misread, HALF, "apply")
    assert found.verdict == "deviates"
    assert "transposed" in found.findings[0].message


def test_the_same_on_torch():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")

    def misread(x, positions):
        if x.numel() and not x.is_contiguous():
            x = torch.as_strided(x, x.shape, torch.empty(x.shape).stride(), x.storage_offset())
        return HALF.apply(x, positions)

    assert check(misread, HALF, "apply", backend="torch").verdict == "deviates"


def test_results_kept_by_place_and_shape():
    def stale(calls):
        kept, results = {}, []
        for x, offset in calls:
            if (offset, x.shape) not in kept:
                kept[offset, x.shape] = HALF.apply(x, range(offset, offset + x.shape[2]))
            results.append(kept[offset, x.shape].copy())
        return results

    assert check(stale, HALF, "calls").codes == ["state"]


@pytest.mark.parametrize(
    ("surface", "fn"),
    [
        ("packed", lambda n: np.arange(n.sum()) if len({*n.tolist()}) == 1 else pr.packed(n)),
        ("packed", lambda n: pr.packed(n) % 512),
        ("packed", lambda n: pr.packed(n).astype(np.int16).astype(np.int64)),
        ("position_ids", lambda mask: pr.position_ids(mask).astype(np.int8)),
        ("position_ids", lambda mask: np.where(np.arange(len(mask))[:, None] < 8,
                                               pr.position_ids(mask), 0)),
        ("decode_positions", lambda prompt, n: np.minimum(pr.decode_positions(prompt, n), 4097)),
        ("shard_positions", lambda b, size, rank: pr.shard_positions(b, size, rank) % 64),
    ],
)  # fmt: skip
def test_more_and_longer_sequences(surface, fn):
    report = check(fn, None, surface)
    assert report.verdict == "deviates", report


def test_buckets_that_are_not_clamped():
    report = check(lambda r: np.asarray(r) + 0, pr.T5Bias(np.zeros((32, 1))), "bucket")
    assert "bucket-clamp" in report.codes or "bucket-sign" in report.codes, report
    assert not any("broke off" in text for text in report.limits)


@pytest.mark.nightly
def test_an_offset_that_only_the_first_tile_adds():
    def tiled(x, offset):
        tokens = np.arange(x.shape[2])
        return HALF.apply(x, tokens + np.where(tokens < 32, np.asarray(offset)[:, None], 0))

    found = check(tiled, HALF, "apply_offset")
    assert found.findings[0].message == (
        "the position used is the index in the call, where the index in the call is at least 32"
    )


@pytest.mark.parametrize(
    ("rounded", "words"), [(np.floor, "down"), (np.round, "to the nearest integer")]
)
def test_the_steps_of_qwen_are_rounded_up(rounded, words):
    declared = HALF.replace(scaling=pr.QwenNTK(2048))

    def fn(length):
        steps = max(rounded(np.log2(length / 2048)), 0)
        return declared.frequencies(int(2048 * 2**steps)).astype(np.float32)

    found = check(fn, declared, "frequencies")
    assert found.findings[0].message == (
        f"QwenNTK: log2(L / train_length) is rounded {words}, declared up"
    )


def test_a_decoding_step_that_takes_one_axis_for_all():
    declared = pr.MultiAxisRoPE(16, sections=(2, 2, 4), layout="half")

    def fn(x, positions):
        at = np.broadcast_to(positions, (3, *np.shape(positions)[-2:]))
        return declared.apply(x, np.stack([at[0]] * 3) if x.shape[2] == 1 else at)

    (found,) = check(fn, declared, "apply").findings
    assert found.evidence.endswith("with positions that differ on the axes and with S = 1")


def test_an_index_of_eight_bits():
    found = check(lambda window: pr.relative_index(window) % 256, surface="relative_index")
    assert found.codes == ["index-collision"]
