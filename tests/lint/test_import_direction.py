"""Imports point one way, and third-party libraries are imported only when used.

posenc_ref <- backends <- conformance. The specification imports NumPy and the standard library,
and array_api_compat inside functions. The outer packages import any other library inside the
function that needs it, so that all of them import where nothing else is installed.
"""

import ast
import sys
from pathlib import Path

import pytest

from tests.lint.sources import CALLS, imported, module_name, require_no_violations, sources

BACKENDS, CONFORMANCE = "posenc_ref.backends", "posenc_ref.conformance"
FORBIDDEN = {
    "posenc_ref": (BACKENDS, CONFORMANCE),
    "backends": (CONFORMANCE,),
    "conformance": (),
}
AT_IMPORT = {"numpy", "posenc_ref", *sys.stdlib_module_names}
#: Imported only inside functions; the decorators of a kernel need its library at once.
KERNELS = {
    "backends/kernels/numba_memory.py": {"numba"},
    "backends/kernels/numba_rotary.py": {"numba"},
    "backends/torch_graph.py": {"torch"},
    "backends/kernels/triton_rotary.py": {"torch", "triton"},
}
#: Only the command line imports these at once.
COMMAND_LINE = {"typer", "rich"}


def is_deferring(node):
    """Whether the body of `node` does not run where it stands."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING")
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def walk(node, calls, deferred=False):
    """Yield (node, deferred): deferred code does not run when the module is imported.

    Expressions import nothing unless ``calls``: the file calls a function that imports.
    """
    yield node, deferred
    for field, value in ast.iter_fields(node):
        lazy = deferred or (field == "body" and is_deferring(node))
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and (calls or not isinstance(child, ast.expr)):
                yield from walk(child, calls, lazy)


def within(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def violations(path, source):
    """Return the lines of `source`, the file at `path`, with a wrong import."""
    folder = Path(path).parts[0]
    found = []
    calls = any(name in source for name in CALLS)
    for node, deferred in walk(ast.parse(source), calls):
        for name in imported(node, module_name(path)):
            owner = name.partition(".")[0]
            if folder == "posenc_ref":
                allowed = AT_IMPORT | ({"array_api_compat"} if deferred else set())
            else:
                allowed = (
                    AT_IMPORT
                    | (COMMAND_LINE if path.startswith("conformance/cli/") else set())
                    | KERNELS.get(path, set())
                )
                allowed = allowed | {owner} if deferred else allowed
            if within(name, FORBIDDEN[folder]):
                found.append(f"{node.lineno}: {name} points outwards")
            elif owner not in allowed:
                found.append(f"{node.lineno}: {name} at import" + " or ever" * deferred)
    return found


@pytest.mark.day
def test_imports_point_inwards():
    require_no_violations(violations, sources(*FORBIDDEN))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("posenc_ref/rotary.py", "import posenc_ref.backends"),
        ("posenc_ref/rotary.py", "from posenc_ref import backends"),
        ("posenc_ref/rotary.py", "from . import conformance"),
        ("posenc_ref/__init__.py", "from .conformance import check"),
        ("posenc_ref/rotary.py", "def f():\n    from .backends.torch import fused"),
        ("posenc_ref/rotary.py", "import_module('posenc_ref.backends')"),
        ("posenc_ref/rotary.py", "import torch"),
        ("posenc_ref/rotary.py", "def f():\n    import torch"),
        ("posenc_ref/rotary.py", "import array_api_compat"),
        ("posenc_ref/rotary.py", "try:\n    import array_api_compat\nexcept ImportError: pass"),
        ("backends/torch.py", "from posenc_ref.conformance import check"),
        ("backends/torch.py", "def f():\n    from ..conformance import check"),
        ("backends/__init__.py", "from ..conformance import check"),
        ("backends/torch.py", "import torch"),
        ("backends/torch.py", "class A:\n    import torch"),
        ("conformance/__main__.py", "import typer"),
        ("conformance/adapters/hf.py", "from transformers import AutoModel"),
    ],
)
def test_a_wrong_import_is_found(path, wrong):
    assert violations(path, wrong) != []


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("posenc_ref/rotary.py", "import math\nimport numpy as np\nfrom . import accuracy"),
        ("posenc_ref/rotary.py", "def f():\n    import array_api_compat"),
        ("backends/torch.py", "from .. import RoPE\nfrom . import registry"),
        ("backends/torch.py", "def f():\n    import torch"),
        ("backends/torch.py", "if TYPE_CHECKING:\n    import torch"),
        ("conformance/adapters/hf.py", "from ...backends import fused\nfrom .. import check"),
        ("conformance/cli/__init__.py", "import typer\nfrom rich.console import Console"),
    ],
)
def test_a_right_import_passes(path, right):
    assert violations(path, right) == []
