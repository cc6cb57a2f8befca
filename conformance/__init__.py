"""The conformance suite: judges any implementation, and says what is wrong with it."""

if __name__ != "posenc_ref.conformance":
    raise ImportError(
        "this folder is the package posenc_ref.conformance: import that, after installing "
        "posenc-ref"
    )

from .check import SURFACES, check
from .codes import CODES, Code
from .implementation import Implementation
from .report import Accuracy, Finding, Report

__all__ = [
    "CODES",
    "SURFACES",
    "Accuracy",
    "Code",
    "Finding",
    "Implementation",
    "Report",
    "check",
]
