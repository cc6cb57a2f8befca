"""identify of position ids as libraries make them: from tokens, masks, documents and segments."""

import numpy as np
import pytest

from posenc_ref.conformance import identify


def roberta(first, padding=1):
    """Return ids as in RoBERTa, with the first real token at ``padding_idx + first``."""

    def ids(input_ids, padding_idx=padding):
        real = (input_ids != padding_idx).astype(int)
        return (np.cumsum(real, axis=1) + first - 1) * real + padding_idx

    return ids


def test_the_rule_of_roberta():
    card = identify(roberta(1))
    assert card.encoding.padding_idx == 1
    assert card.encoding.offset == 0
    assert card.exact, str(card)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (roberta(0), "real tokens are counted from padding_idx, not from padding_idx + 1"),
        (roberta(2), "real tokens are counted from padding_idx + 2, not from padding_idx + 1"),
        (roberta(0, 3), "real tokens are counted from padding_idx, not from padding_idx + 1"),
    ],
    ids=["low", "high", "low after 3"],
)
def test_the_rule_of_roberta_with_one_defect(fn, words):
    card = identify(fn)
    assert card.encoding.offset == 0
    (finding,) = card.deviations
    assert words in finding.message, str(card)


def test_padding_that_is_counted_is_known_by_its_name():
    def ids(input_ids, padding_idx=1):
        return np.broadcast_to(np.arange(input_ids.shape[1]) + padding_idx + 1, input_ids.shape)

    card = identify(ids, "ids_from_tokens")
    (finding,) = card.deviations
    assert finding.message.startswith("padding is counted: token i of a sequence"), str(card)


def test_the_rows_of_opt():
    card = identify(lambda attention_mask: np.cumsum(attention_mask, 1) * attention_mask + 1)
    assert card.function == "posenc_ref.position_ids(attention_mask, padding=-1) + 2", str(card)


def test_positions_from_one_are_a_defect():
    def ids(attention_mask):
        return np.where(attention_mask == 0, 1, np.cumsum(attention_mask, axis=-1))

    card = identify(ids, "position_ids")
    assert [f.code for f in card.deviations] == ["position-origin"], str(card)


def of_bounds(cu_seqlens):
    return np.concatenate([np.arange(n) for n in np.diff(cu_seqlens)])


def of_segments(segment_ids):
    """Return positions (B, S) that start again where the segment changes, as in JAX libraries."""
    at = np.arange(segment_ids.shape[1])
    first = np.diff(segment_ids, axis=1, prepend=-1) != 0
    return at - np.maximum.accumulate(np.where(first, at, 0), axis=1)


def not_restarted(segment_ids):
    return np.broadcast_to(np.arange(segment_ids.shape[1]), segment_ids.shape)


@pytest.mark.parametrize("fn", [of_bounds, of_segments])
def test_documents_by_their_bounds_and_by_their_numbers(fn):
    card = identify(fn)
    assert card.function == "posenc_ref.packed(lengths)", str(card)
    assert card.facts["compared"] != "1 call"


def test_documents_that_do_not_start_again():
    card = identify(not_restarted)
    assert [f.code for f in card.deviations] == ["packing"], str(card)


def test_text_alone_does_not_show_the_axes_of_images():
    """The three axes were taken for three heads of ALiBi."""

    def three(input_ids):
        return np.broadcast_to(np.arange(input_ids.shape[1]), (3, *input_ids.shape))

    card = identify(three)
    assert card.function == "posenc_ref.position_ids(attention_mask)", str(card)
    assert any("all 3 axes have the same positions" in text for text in card.limits)


def test_a_function_that_is_no_rule_is_not_taken_for_one():
    def other(segment_ids):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no calling convention fits"):
        identify(other)
