"""Judge of ``scores`` for encodings whose logits are a sum of terms."""

from __future__ import annotations

from itertools import chain

from posenc_ref import Score
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness.run import Run

from .drive import Size, drive, inputs, past_the_end
from .encoding_mistakes import score_mistakes
from .espnet_table import table_length
from .term_mistakes import Summed


def judge(run: Run) -> None:
    """Judge ``fn(q, k)``: logits (B, H, Q, K) of queries at the end of the keys."""
    drive(run, _input, _explain)


def _input(run: Run, size: Size) -> Summed | None:
    """Queries and keys of a size that the encoding has room for."""
    encoding: Score = run.encoding
    b, h, n_q, n_k = size
    h, d = encoding.heads or h, encoding.head_dim
    whole = encoding.rows
    if whole is not None and n_k > whole:
        if n_q != n_k or n_k <= whole + 1:
            return None
        n_q = n_k = whole
    if past_the_end(run, n_k):
        return None
    q, k = inputs(run, h, (n_q, n_k), b, d)
    return Summed(encoding, q, k, encoding.own_scale(d))


def _explain(run: Run, calls: list[JudgedCall]) -> None:
    declared = calls[0].facts.encoding
    match(run, calls, chain(score_mistakes(declared), table_length(declared, calls)))
