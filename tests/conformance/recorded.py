"""Reports of a right and a wrong function, and functions that record them in files."""

from posenc_ref import RoPE
from posenc_ref.conformance import ExpectedFailure, check
from posenc_ref.conformance.surveys.batch import Batch, Checked
from posenc_ref.conformance.surveys.ndjson_writer import recording
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.verify import Verification
from tests.conformance.handwritten import HEAD_DIM, rope

HALF = RoPE(HEAD_DIM, layout="half")
FACTS = {
    "subject": "mine",
    "surface": "apply",
    "declared": repr(HALF),
    "backend": "numpy",
    "backend_version": "2",
    "dtype": "float32",
}


def record(path, report, seconds=1.5, **facts):
    with recording(path, "check", HALF, **FACTS | facts) as writer:
        writer.report(report, seconds)
    return path


def record_verification(path, found):
    options = {"full": False, "only": None, "dtypes": [], "libraries": []}
    with recording(path, "verify", options=options) as writer:
        writer.verification(found)
    return path


def record_batch(path, found):
    with recording(path, "ci", source="posenc.toml", select=None) as writer:
        for one in found.checked:
            writer.case(one)
        writer.batch(found)
    return path


def right():
    return check(rope(), HALF, "apply", name="mine")


def wrong():
    return check(rope(base=500.0), HALF, "apply", name="mine")


def expected():
    report = wrong()
    report.expected = ExpectedFailure("base", "issue 12")
    return report


def batch():
    """Return the result of many checks: one of each verdict that reports of two functions have."""
    unexpected = right()
    unexpected.expected = ExpectedFailure("base", "issue 12")
    reports = {"r": right(), "w": wrong(), "e": expected(), "u": unexpected}
    checked = [Checked.of(name, report, 0.5) for name, report in reports.items()]
    return Batch([*checked, Checked.failed("absent", "there is no file absent.py")], 2.0)


OUTCOMES = [
    Outcome("backend", "numpy", "2", "RoPE", "apply", dtype="float32", verdict="conforms",
            worst=1.5, budget=128.0, executed=40, errors={4096: 0.1}, highest=5, encoding="R"),
    Outcome("library", "foreign", "1", "rope", "apply", dtype="float32", verdict="deviates",
            codes=("sign",), messages=("turns backwards",), worst=float("inf"), executed=7,
            errors={4096: float("inf")}),
    Outcome("library", "absent", reason="absent is not installed"),
    Outcome("library", "absent", reason="absent is not installed"),
]  # fmt: skip
FOUND = Verification(OUTCOMES, 2.0)
