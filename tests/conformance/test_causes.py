"""First findings on functions whose causes once had no name: some of tests/authors/d, f, l to t.

The expected words are in none of the messages for these functions before their causes were named.
"""

import importlib
from functools import cache

import pytest

from posenc_ref.conformance import check
from tests.authors import FOLDER, cases
from tests.night import by_day

#: The id of each function, and words of its first finding.
WORDS = {
    "d003": "the position of the same token of row 0, where the length of the call is 1",
    "d007": "frequencies are rounded to 11 significant bits",
    "d015": "the base is 10000, declared 500000, only in calls with S = 1",
    "d019": "the cosines are repeated each twice in a row",
    "d036": "scale_base of keys is 640, declared 512",
    "d038": "the declared position + the sum of the offsets of earlier rows",
    "d041": "an offset of 0 is taken for a missing one",
    "d042": "rows that are added to a kept table are one position late",
    "d043": "the first equally long call whose offset has the same low 8 bits",
    "d053": "rounded up to a multiple of 64",
    "d055": "log2(L / train_length) is rounded down, declared up",
    "d073": "frequencies are blended linearly, as in YaRN's code, not geometrically",
    "d077": "the factors of short and of long contexts are exchanged",
    "d099": "where the length of the call equals the number of batch rows",
    "d102": "the standard deviation is that of each column",
    "d105": "the real tokens are taken to come first",
    "d108": "the position in parts[0] counts from the first of the call",
    "d145": "the bias is limited to at least 0.5 and at most 15.5",
    "d156": "the position term of keys after the next one multiplies the query of the next row",
    "d158": "the table is shared in groups of 2",
    "d167": "the positions of keys start at 0 again in the last, incomplete tile of 32",
    "d169": "the query scale is that of the position before the query's",
    "d170": "the table is added to the queries only, not to the keys",
    "d171": "rows are shifted by K - 1 - i, not by Q - 1 - i, and end with zeros",
    "d192": "the bases of the axes are 100, 10000, declared 10000, 100: they are exchanged",
    "d193": "the exponent of pair i of each axis is divided by the number of pairs of axis 0, 22",
    "d197": "the angle of axis 1 is subtracted, not added, in pairs from 8 on",
    "d198": "the weight is rounded to float16",
    "f002": "as if these pairs were rotated twice, only in the pairs from 12 to 15",
    "f006": "sin is that of the token before, cos is not, only in heads from 8 on",
    "f007": "measured: positions in float16",
    "f016": "clamped to at most the largest position of the call - 1",
    "f023": "x is rounded from float64 to float32 before the rotation",
    "f029": "the weight is split in halves: head i is taken from i modulo 2",
    "f036": "in calls up to length 4096, frequencies are multiplied by short_factor, not divided",
    "f049": "row b starts at offset[b] - offset[b - 1] unless that is negative",
    "f051": "clamped to at most the length of the longest call so far - 1",
    "f052": "after the first 2 calls, a call gets the angles of an earlier equally long call",
    "f058": "rotated again only when their number has doubled since the last time",
    "f070": "the declared position - 1, where the offset is at least 1024 (1022 is right)",
    "f077": "beta_fast is 16, declared 32, beta_slow is 2, declared 1",
    "f082": "cos is right at every position, sin is not: it is sin(a - b)",
    "f094": "counted down the rows of the batch (axis 0)",
    "f101": "the frequencies are rounded to 4 decimals",
    "f105": "the declared position - 1, where the declared position is at least 32",
    "f127": "the last, incomplete tile of 64 have the positions of a whole tile",
    "f132": "r2 times the distance is squared inside the logarithm",
    "f135": "is 8h / 8, not 8h / 6: the number of heads is fixed",
    "f167": "the bias is multiplied by 64 ** (1/4)",
    "f184": "not rotated, as at position 0, where the batch row is past the last multiple of 2",
    "f185": "positions past 2**24 are rounded to float32",
    "f186": "the maximum of the row is subtracted from its logits, not from the sink",
    "f187": "the position of the query less the smallest of the call",
    "f190": "a document of text alone does not start again at 0",
    "f191": "the offset on the ring has lost its sign",
    "f195": "logits are scaled twice, only in calls with Q >= 2",
    "l038": "the two copies of each column, k and k + 32, have opposite signs",
    "l045": "frequencies are exp(-x log10(10000))",
    "l048": "the ramp (k - low) / (high - low) divides by high - low + 1",
    "m172": "the position in parts[1] is the number of the row in the call",
    "n038": "the smooth factor is not limited to at least 0",
    "n040": "with L // 4096 in place of L / 4096",
    "n042": "the exponent of the factor is k + 1 to the power, divided by d/2",
    "n053": "put back by the sorting permutation, not by its inverse",
    "n055": "exponents of the base are rounded to float16",
    "n078": "multiplied by 1.1 in calls of length 4097, declared 1.3",
    "n101": "kept = 0 is taken for a missing argument: 4 keys are kept",
    "n103": "the last, shorter block is left out",
    "n105": "the weight of the norm is permuted from half-split to interleaved order",
    "n108": "divided by its standard deviation",
    "o025": "the divisor of columns is the number itself",
    "o027": "the bases are exchanged: 50 for height",
    "o033": "with the larger side for columns",
    "o038": "the frequencies of coordinate 1 are those of coordinate 0",
    "o040": "hold the coordinates as they are passed",
    "o045": "takes digit 1 modulo the rows of table 2",
    "o046": "run as fast over the rows as over the columns",
    "o047": "those of the rows of the call, not of the whole table",
    "o048": "the offset of parts[0] is 3 more, that of parts[1]",
    "o050": "with zeros beyond the ends",
    "o051": "with its rows read as 6 rows of 4",
    "o052": "the shift by half a pixel is missing",
    "o062": "have the positions of a whole tile that ends where they end",
    "o076": "rounded up to a power of two before the slopes are made",
    "o077": "count from the rank's own first head",
    "o115": "the factor of dy is h + w, not 2w - 1",
    "o125": "zeros after every tile of 16 tokens",
    "o127": "over tokens and channels together",
    "o128": "the last layer has no activation",
    "o132": "(channels, height, width), without a transposition",
    "o134": "patches are shifted in one line",
    "o136": "but the last add x, the input of the first",
    "o151": 'centred by np.convolve(x, kernel, "same")',
    "o171": 'with mode="bilinear", align_corners=True, not with',
    "q013": "begins at its number times its own length",
    "q053": "rotated back by the positions of the first Q keys",
    "q057": "do not see their own key, the first of a tile",
    "q060": "are rounded to float16",
    "q061": "the keys, after their rotation, are rounded to bfloat16",
    "q067": "the length of the rows before is subtracted, their padding included",
    "q070": "as long as the first row has real tokens",
    "q071": "the result of the first call with arguments of the same shapes",
    "q075": "ids > 1 is tested",
    "q085": "reshaped, not transposed, to (rows, steps)",
    "q091": "the first chunks of all documents come first",
    "q110": "is to base 2, not natural",
    "q111": "the declared scale is cut, not rounded, to bfloat16",
    "q113": "max(frames, height, width) in patches, before merging",
    "q115": "start at the number of their first real column",
    "q118": "taken from the end of the list",
    "q121": "time counts frames before the merge",
    "q141": "projection is transposed",
    "q142": "the term position-content is multiplied by the scale once more",
    "r016": "the two channels of a pair follow different axes",
    "r018": "queries get the positions of the first keys",
    "s006": "which are not rotated, are 0 in the result",
    "s014": "for a = 1, 2, up to its section's size",
    "s027": "only as many query heads are rotated as there are key heads",
    "s031": "the offset is multiplied by 8",
    "s060": "are used as they are passed, without offset and factor",
    "s079": "to which 4 is not added",
    "t046": "starts at 0, not at 1, and its last number is the divisor",
    "s086": "filled with grids of another size",
    "o013": "in the order of sorted positions, in calls whose positions are all different",
    "o014": "each frequency is the one before times the ratio, in float32",
    "o170": "a call with every position gets the right rows, other calls get others",
    "q124": "does not start again at 0 after one that ends with one",
    "f196": "the base is multiplied by (alpha at length 8192) ** d/(d-2)",
}
#: Those that a pull request judges.
DAY = {
    "d043", "d053", "d073", "n042", "q124", "d077", "d105", "d171", "f029", "f082", "f190", "o134",
    "q085", "q091", "r016", "s006",
}  # fmt: skip


@cache
def every():
    """Return all cases by their ids, with the surplus ones of author d."""
    found = dict(cases())
    for path in sorted(FOLDER.glob("d/cases_*.py")):
        module = importlib.import_module(f"tests.authors.d.{path.stem}")
        found |= {case["id"]: case for case in getattr(module, "EXTRA", ())}
    return found


@pytest.mark.parametrize("name", by_day(WORDS, DAY))
def test_the_first_finding_names_the_cause(name):
    case = every()[name]
    report = check(case["fn"], case["encoding"], case["surface"], **case["settings"])
    assert WORDS[name] in report.findings[0].message, report
    mended = check(case["mended"], case["encoding"], case["surface"], **case["settings"])
    assert name == "d055" or mended.verdict == "conforms", mended  # its author's own is wrong too
