"""Causes that had no name, or a false one, in functions of tests/authors."""

import pytest

from posenc_ref.conformance import check
from tests.authors import case
from tests.night import by_day

#: Words of the first finding.
CASES = {
    "ab/a12-027": "a key head is rotated once for each query head of its group: H / H_kv times",
    "ab/a12-058": "cos and sin are approximations, off by up to 0.00031",
    "ab/a12-079": "the position on axis 0 is used on every axis, in calls whose row 0 has the same",
    "ab/a12-085": "the position on axis 0 is used on axis 2 too, in calls with the same largest",
    "ab/a12-105": "a document of one token does not start again at 0",
    "ab/a12-108": "second chunks start as if all sequences had the length of the first",
    "ab/a12-112": "text after a video of several frames starts at its start + the number of frames",
    "ac/a13-012": "rows are those of the position rounded down to a multiple of 4",
    "ac/a13-026": "nothing is added, only in tokens from 256 on",
    "ac/a13-061": "the bias is -r1 log(max(r2 d, 1)): 1 bounds r2 d, and is not added",
    "ac/a13-078": "every part of 64 keys adds the sink to the denominator",
    "ac/a13-079": "query head h has sink h // (H / H_kv), by the number of its key head",
    "ac/a13-116": "documents start again at 0 only on axis 0",
    "ad/a14-086": "a call gets the first angles of the longest call before, if it is no longer",
    "ad/a14-088": "is the number of tokens since the last chunk of several tokens began",
    "ad/a14-098": "rows are viewed as (2, d/2, heads) and put in the order (d/2, 2, heads)",
    "ad/a14-040": "they are half-split after the channels are viewed as (2, 32) and transposed",
    "ae/a15-008": "the row used is that of the declared position - the first position of the call",
    "ae/a15-009": "is that of the index in the call + the first position of the call",
    "ae/a15-010": "the offset is added after the multiplication by 1000, not before",
    "af/a16-005": "the tokens after the last whole tile of 8 have the position of the first of",
    "af/a16-028": "positions are made as (tokens, rows) and reshaped, not transposed",
    "af/a16-035": "kept table that begins with 32 rows are numbered from 0 again",
    "af/a16-038": "a call with an offset other than 0 goes on where the one before it ended",
    "af/a16-043": "token of the chunk (h S + s) // H, as where x is reshaped, not transposed",
    "af/a16-059": "keys are moved within one buffer, the last one first",
    "af/a16-094": "every such layer is counted from the last layer of the model",
    "af/a16-104": "the number of the step is added to the position before",
    "af/a16-109": "with grids of another size, as far as there are tokens of its kind",
    "af/a16-114": "the place of its number among the videos of its document, not from its own",
    "af/a16-115": "ends with text: runs of text are found across documents",
    "ag/a17-021": "every call resizes the table of 40 rows to its own number of positions",
    "ag/a17-078": "the logarithmic bucket is rounded down, not up; and |r| in the logarithm",
    "ag/a17-090": "running products that are 0 in float32 after many tokens, with 1e-30 added",
    "ag/a17-094": "keeps the output channels (dim 0), not the taps of the kernel (dim 2), and",
    "ag/a17-114": "the place of its number among the videos of its row, not from its own",
    "ag/a17-115": "is moved by its width, and generated tokens go on after the last token",
}
#: Those of less than half a second.
DAY = {
    "ab/a12-027", "ab/a12-105", "ab/a12-108", "ab/a12-112", "ac/a13-078", "ac/a13-079",
    "ac/a13-116", "ad/a14-040", "ae/a15-010", "af/a16-028", "af/a16-035", "af/a16-038",
    "af/a16-059", "af/a16-094", "af/a16-104", "af/a16-109", "af/a16-114", "af/a16-115",
    "ag/a17-094", "ag/a17-114", "ag/a17-115",
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(CASES, DAY))
def test_the_first_finding_names_the_cause(name):
    one = case(name)
    report = check(one["fn"], one["encoding"], one["surface"], **one.get("settings", {}))
    assert report.verdict == "deviates"
    assert CASES[name] in report.findings[0].message, report
