"""Every test draws from a generator of its own: its inputs depend on no other test.

A generator at module scope may fill constants there.  Inside a function it would go on from
wherever the tests before, of this worker, have left it: pass it as an argument, or take ``rng``.

Limit: a generator that another name hides (``draw = RNG.normal``) is not seen.
"""

import ast

import pytest

from tests.lint.sources import AUTHORS, require_no_violations, sources

MAKERS = {"Generator", "Random", "RandomState", "default_rng", "manual_seed"}
DEFERRED = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def makes_a_generator(node):
    """Whether ``node`` is a call like default_rng(3) or torch.Generator().manual_seed(3)."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in MAKERS
    return False


def names(nodes):
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def generators(tree):
    """Names bound to a generator at module scope."""
    bound = set()
    for node in tree.body:
        match node:
            case ast.Assign(targets=targets, value=value) if makes_a_generator(value):
                bound |= names(targets)
            case ast.AnnAssign(target=target, value=value) if makes_a_generator(value):
                bound |= names([target])
    return bound


def violations(source, elsewhere=frozenset()):
    """Lines of ``source`` that draw from a generator which outlives the test.

    ``elsewhere`` are names of generators in other test modules, which may not be imported.
    """
    tree = ast.parse(source)
    shared, found = generators(tree), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {
                (node.lineno, f"imports the generator {alias.name}")
                for alias in node.names
                if node.level and alias.name in elsewhere
            }
        if not isinstance(node, DEFERRED):
            continue
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            if makes_a_generator(default):
                found.add((default.lineno, "a generator as a default is shared by all calls"))
        body = node.body if isinstance(node.body, list) else [node.body]
        for part in body if shared else ():
            for inner in ast.walk(part):
                if isinstance(inner, ast.Name) and inner.id in shared:
                    found.add((inner.lineno, f"{inner.id} is shared by all tests"))
    return [f"{line}: {what}" for line, what in sorted(found)]


@pytest.mark.day
def test_every_test_has_its_own_generator():
    files = sources("tests", exempt=AUTHORS)
    makers = [text for text in files.values() if any(maker in text for maker in MAKERS)]
    shared = {name for text in makers for name in generators(ast.parse(text))}
    require_no_violations(lambda path, text: violations(text, shared), files)


MADE = "RNG = np.random.default_rng(0)\n"


@pytest.mark.parametrize(
    "wrong",
    [
        MADE + "def test(): x = RNG.normal()",
        MADE + "def helper(): return RNG.normal()",
        MADE + "CASES = [lambda: RNG.normal()]",
        MADE + "class A:\n    def test(self): x = RNG.normal()",
        "RNG: np.random.Generator = default_rng(0)\ndef test(): x = RNG.normal()",
        "g = torch.Generator().manual_seed(0)\ndef test(): x = torch.randn(3, generator=g)",
        "r = random.Random(0)\ndef test(): x = r.random()",
        "def helper(shape, rng=np.random.default_rng(0)): return rng.normal(shape)",
        "from .naive import RNG",
    ],
)
def test_a_shared_generator_is_found(wrong):
    assert violations(wrong, {"RNG"}) != []


@pytest.mark.parametrize(
    "right",
    [
        MADE + "X = RNG.normal()\ndef test(): x = X",
        MADE + "@pytest.mark.parametrize('x', [RNG.normal()])\ndef test(x): pass",
        MADE + "def numbers(rng): return rng.normal()\nX = numbers(RNG)",
        "def test(rng): x = rng.normal()",
        "def test():\n    rng = np.random.default_rng(0)\n    x = rng.normal()",
        "from .naive import numbers",
        "from numpy.random import RNG",
    ],
)
def test_an_own_generator_passes(right):
    assert violations(right, {"RNG"}) == []
