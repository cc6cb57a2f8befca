"""Empty documents and padding meet every number of documents and of tokens."""

import re

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.functions.masks import mask_crossing, mask_row
from posenc_ref.conformance.functions.positions import packed_crossing, packed_row


def first(fn, surface):
    report = check(fn, None, surface)
    assert report.verdict == "deviates", report
    return report.findings[0]


def test_the_calls_have_what_they_say():
    for row in packed_crossing().rows():
        (lengths,) = packed_row(row)
        assert (lengths > 0).sum() == row["documents"]
        assert (lengths == 0).any() == (row["empty documents"] != "none")
    for row in mask_crossing().rows():
        (mask,) = mask_row(row)
        assert mask.shape == (row["rows"], row["tokens"])
        assert mask.any(axis=1).all()
        assert (mask == 1).all() == (row["padding"] == "nowhere")


def test_an_empty_document_that_undoes_a_restart():
    def fn(lengths):
        lengths = np.asarray(lengths)
        step = np.ones(int(lengths.sum()) + 1, np.int64)
        step[np.cumsum(lengths)[:-1]] = 1 - lengths[:-1]
        step[0] = 0
        return np.cumsum(step[:-1])

    found = first(fn, "packed")
    assert found.message.startswith("an empty document undoes the restart")
    assert found.remedy.endswith("Drop documents of length 0 before steps or jumps are assigned.")


def test_results_without_elements_are_not_counted():
    """ "9 of 34 results are wrong" stood beside "wrong in 9 of 33 results"."""

    def fn(lengths):
        found, at, before = [], 0, 1
        for n in lengths:
            at = 0 if before and n else at  # a document after an empty one goes on
            found += range(at, at + n)
            at, before = at + n, n
        return np.array(found, np.int64)

    said = first(fn, "packed").message
    one, other = re.findall(r"of (\d+) results", said)
    assert one == other


def test_whole_numbers_as_floats_are_to_be_integers():
    found = first(lambda prompt, steps: prompt + np.arange(steps) * 1.0, "decode_positions")
    assert found.remedy.startswith("Return integers")


@pytest.mark.nightly
def test_two_facts_of_documents_meet():
    def fn(lengths):
        lengths = np.asarray(lengths)
        wrong = (lengths > 0).sum() == 6 and (lengths == 0).sum() == 2
        return pr.packed(lengths) + wrong

    assert first(fn, "packed").code == "packing"


@pytest.mark.nightly
def test_padding_on_both_sides_of_five_rows():
    def fn(mask):
        p = np.maximum(np.cumsum(mask, -1) - 1, 0)
        return p + (len(mask) == 5) * (mask[:, :1] == 0) * (mask[:, -1:] == 0)

    assert first(fn, "position_ids").code == "padding"


def test_the_last_rank_with_its_halves_exchanged():
    def fn(bounds, size, rank):
        parts = []
        for n in np.diff(bounds):
            chunks = np.split(np.arange(n), 2 * size)
            two = [chunks[rank], chunks[2 * size - 1 - rank]]
            parts += two[::-1] if rank == size - 1 and size > 1 else two
        return np.concatenate(parts)

    found = first(fn, "shard_positions")
    assert found.message == "the last of several ranks has its halves exchanged"
