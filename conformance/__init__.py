"""The conformance suite: judges any implementation, and says what is wrong with it."""

if __name__ != "posenc_ref.conformance":
    raise ImportError(
        "this folder is the package posenc_ref.conformance: import that, after installing "
        "posenc-ref"
    )

from .card import Card
from .check import SURFACES, check
from .codes import CODES, Code
from .exec_command import from_command
from .exec_process import HarnessError
from .expectations import ExpectedFailure, assert_conforms
from .identify import identify
from .implementation import Implementation
from .report import Accuracy, Finding, Report
from .vectors import VectorCase, load_vectors

__all__ = [
    "CODES",
    "SURFACES",
    "Accuracy",
    "Card",
    "Code",
    "ExpectedFailure",
    "Finding",
    "HarnessError",
    "Implementation",
    "Report",
    "VectorCase",
    "assert_conforms",
    "check",
    "from_command",
    "identify",
    "load_vectors",
]
