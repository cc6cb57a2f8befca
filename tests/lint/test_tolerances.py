"""No literal tolerance outside posenc_ref/accuracy.py: one unit judges everything.

Limits: a tolerance bound to an unrelated name, or computed by a call, is not seen.
"""

import ast
import re

import pytest

from tests.lint.sources import AUTHORS, require_no_violations, sources

EXEMPT = (
    "posenc_ref/accuracy.py", "tests/mutants/", "tests/lint/test_tolerances.py", *AUTHORS,
)  # fmt: skip

NAME = re.compile(r"(^|_)([ra]?tol|tolerance)s?(_|$)", re.IGNORECASE)  # rtol, rel_tol, TOLERANCE
SMALL = 1e-3  # a comparison with a smaller number is a tolerance in disguise
# These hide a tolerance even where none is written.
COMPARISONS = {
    "allclose",
    "approx",
    "assertAlmostEqual",
    "assert_allclose",
    "assert_almost_equal",
    "assert_array_almost_equal",
    "assert_close",
    "isclose",
}
ARITHMETIC = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator)


def number(node):
    """Return the value of a literal number or of arithmetic on literals, else None."""
    if not all(isinstance(part, ARITHMETIC) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "<literal>", "eval"))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def states_number(node):
    """Whether a number other than zero stands in `node`, outside of calls."""
    if isinstance(node, ast.Call):
        return False
    if isinstance(node, ast.Constant):
        return bool(number(node))
    return any(map(states_number, ast.iter_child_nodes(node)))


def name_of(node):
    """Return the last part of a name, an attribute or a string key."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
    return ""


def bindings(node):
    """Yield what `node` binds, as (name, value): arguments, defaults, assignments, dict items."""
    match node:
        case ast.keyword(arg=str(name), value=value):
            yield name, value
        case ast.arguments():
            names = node.posonlyargs + node.args
            with_default = names[len(names) - len(node.defaults) :]
            for argument, value in (
                *zip(with_default, node.defaults, strict=True),
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            ):
                if value is not None:
                    yield argument.arg, value
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield name_of(target), value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield name_of(target), value
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield name_of(key), value


def violations(source):
    """Lines of `source` that state or hide a tolerance."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for name, value in bindings(node):
            if NAME.search(name) and states_number(value):
                found.append(f"{value.lineno}: {name} = {ast.unparse(value)}")
        if isinstance(node, ast.Call) and name_of(node.func) in COMPARISONS:
            found.append(f"{node.lineno}: {name_of(node.func)}")
        if isinstance(node, ast.Compare):
            for value in (node.left, *node.comparators):
                if 0 < abs(number(value) or 0) < SMALL:
                    found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.day
def test_no_literal_tolerance():
    files = sources("posenc_ref", "backends", "conformance", "tests", exempt=EXEMPT)
    require_no_violations(lambda path, text: violations(text), files)


@pytest.mark.parametrize(
    "wrong",
    [
        "f(a, b, rtol=1e-6)",
        "f(a, b, atol=-2 ** -20)",
        "f(a, b, atol=1e-6 * scale)",
        "f(a, b, rel_tol=1e-9 if double else 1e-4)",
        "def f(a, b, abs_tol=1e-6): pass",
        "def f(a, *, tolerance=1e-6): pass",
        "TOLERANCE = 1e-6",
        "self.angle_tol: float = 1e-6",
        "options = {'rtol': 1e-6}",
        "tolerances = {'float32': 1e-6, 'float64': 0}",
        "np.testing.assert_allclose(a, b, rtol=r)",
        "assert np.allclose(a, b)",
        "assert math.isclose(a, b)",
        "assert a == pytest.approx(b)",
        "torch.testing.assert_close(a, b)",
        "assert abs(a - b).max() < 1e-6",
        "assert 2.0**-20 > abs(a - b)",
    ],
)
def test_a_tolerance_is_found(wrong):
    assert violations(wrong) != []


@pytest.mark.parametrize(
    "right",
    [
        "f(a, b, rtol=0, atol=0.0)",
        "f(a, b, atol=budget(8) * unit)",
        "def f(a, b, *, tolerance=None): pass",
        "assert error <= accuracy.budget(dtype)",
        "assert abs(a - b).max() == 0",
        "total = 3",
        "assert count < 100",
    ],
)
def test_an_honest_line_passes(right):
    assert violations(right) == []
