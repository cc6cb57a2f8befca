"""Judge any implementation of a positional encoding, and name its mistakes."""

if __name__ != "posenc_ref.conformance":
    raise ImportError(
        "this folder is the package posenc_ref.conformance: import that, after installing "
        "posenc-ref"
    )

from typing import TYPE_CHECKING

from posenc_ref._lazy import serve

if TYPE_CHECKING:
    from .assertions import assert_conforms
    from .calling import NoConvention, bind
    from .check import SURFACES, check
    from .compare.comparison import Comparison
    from .compare.function import compare
    from .external.command import from_command
    from .external.process import HarnessError
    from .graphs.load import from_onnx
    from .guide.explain import explain
    from .harness.accuracy import Accuracy
    from .harness.codes import CODES, Code
    from .harness.expected import ExpectedFailure
    from .harness.implementation import Implementation
    from .harness.report import Finding, Report
    from .identify.card import Card
    from .identify.function import identify
    from .recordings.against import compare_recorded
    from .recordings.identify import identify_recorded
    from .recordings.judge import check_recorded, check_recorded_file
    from .vectors import VectorCase, load_vectors

#: The module of each public name. A name is imported when it is first used, because the
#: command line needs few of them.
_MODULES = {
    "CODES": "harness.codes",
    "SURFACES": "check",
    "Accuracy": "harness.accuracy",
    "Card": "identify.card",
    "Code": "harness.codes",
    "Comparison": "compare.comparison",
    "ExpectedFailure": "harness.expected",
    "Finding": "harness.report",
    "HarnessError": "external.process",
    "Implementation": "harness.implementation",
    "NoConvention": "calling",
    "Report": "harness.report",
    "VectorCase": "vectors",
    "assert_conforms": "assertions",
    "bind": "calling",
    "check": "check",
    "check_recorded": "recordings.judge",
    "check_recorded_file": "recordings.judge",
    "compare": "compare.function",
    "compare_recorded": "recordings.against",
    "explain": "guide.explain",
    "from_command": "external.command",
    "from_onnx": "graphs.load",
    "identify": "identify.function",
    "identify_recorded": "recordings.identify",
    "load_vectors": "vectors",
}

__all__ = [
    "CODES",
    "SURFACES",
    "Accuracy",
    "Card",
    "Code",
    "Comparison",
    "ExpectedFailure",
    "Finding",
    "HarnessError",
    "Implementation",
    "NoConvention",
    "Report",
    "VectorCase",
    "assert_conforms",
    "bind",
    "check",
    "check_recorded",
    "check_recorded_file",
    "compare",
    "compare_recorded",
    "explain",
    "from_command",
    "from_onnx",
    "identify",
    "identify_recorded",
    "load_vectors",
]

serve(__name__, _MODULES)
