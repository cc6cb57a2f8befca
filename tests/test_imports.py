"""What `import posenc_ref` loads, and what it offers."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import posenc_ref
import posenc_ref.conformance

OPTIONAL = {"cupy", "dask", "jax", "jsonschema", "mpmath", "rich", "scipy", "torch", "typer"}
LAZY = [posenc_ref, posenc_ref.conformance]


def fresh(code):
    """What a fresh process prints as JSON."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def newly_loaded(code="import posenc_ref"):
    """Names of the modules that a statement loads on top of NumPy, in a fresh process."""
    return fresh(
        "import json, sys, numpy\n"
        f"before = set(sys.modules)\n{code}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    )


def owner(module):
    return module.partition(".")[0]


def own(modules):
    return [name for name in modules if owner(name) == "posenc_ref"]


def test_import_loads_nothing_but_the_package():
    loaded = newly_loaded()
    assert own(loaded) == ["posenc_ref", "posenc_ref._lazy"]
    others = set(map(owner, loaded)) - {"posenc_ref"} - sys.stdlib_module_names
    # setuptools names the finder of an editable install after the project
    assert [name for name in others if not name.startswith("__editable__")] == []


def test_a_name_loads_its_family():
    loaded = newly_loaded("import posenc_ref; posenc_ref.RoPE(64, layout='half')")
    assert OPTIONAL.isdisjoint(map(owner, loaded))
    found = own(loaded)
    print(f"posenc_ref.RoPE: {len(found)} modules")
    assert "posenc_ref.rope" in found
    assert "posenc_ref.t5" not in found
    assert len(found) <= 24  # the base classes, the numerics, one encoding


def test_all_names_together_load_nothing_foreign():
    loaded = newly_loaded("from posenc_ref import *")
    assert set(posenc_ref._MODULES.values()) <= {n.partition(".")[2] for n in own(loaded)}
    foreign = [
        name
        for name in loaded
        if owner(name) not in {"posenc_ref", "array_api_compat", "numpy"}
        and not owner(name).startswith("__editable__")
        and owner(name) not in sys.stdlib_module_names
    ]
    assert foreign == []
    # NumPy has imported most of what it needs; a jump means that something heavy crept in.
    assert sum(owner(name) in sys.stdlib_module_names for name in loaded) <= 10
    outer = ("posenc_ref.backends", "posenc_ref.conformance")
    assert [name for name in loaded if name.startswith(outer)] == []


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_the_lists_of_names_agree(package):
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    checkers = next(
        node.body
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imported = {alias.name: node.module for node in checkers for alias in node.names}
    assert imported == package._MODULES, "what type checkers read, and what is imported"
    assert sorted(package.__all__) == sorted({*package.__all__}), "a name twice"
    own_names = {"__version__", "SPEC_VERSION"} if package is posenc_ref else set()
    assert set(package.__all__) == {*package._MODULES} | own_names
    for name, module in package._MODULES.items():
        defined = (
            vars(sys.modules[f"{package.__name__}.{module}"]) if getattr(package, name) else {}
        )
        assert defined[name] is getattr(package, name)


def test_dir_and_modules_of_a_fresh_package():
    found = fresh(
        "import json, posenc_ref as pr\n"
        "names = dir(pr)\n"
        "from posenc_ref import position_ids\n"  # a function with the name of its module
        "import posenc_ref.position_ids\n"
        "print(json.dumps([names, callable(position_ids), callable(pr.position_ids),"
        " pr.accuracy.__name__, *(hasattr(pr, n) for n in ('Rope', '_none', 'rope.none'))]))"
    )
    assert set(posenc_ref.__all__) <= set(found[0])
    assert found[1:] == [True, True, "posenc_ref.accuracy", False, False, False]


def test_json_finds_classes_that_nobody_imported():
    found = fresh(
        "import json, posenc_ref as pr\n"
        "a = pr.from_dict({'encoding': 'RoPE', 'head_dim': 8, 'layout': 'half', 'scaling': "
        "{'scaling': 'LinearScaling', 'factor': 2.0}})\n"
        "try:\n    pr.from_dict({'scaling': 'Yarn'})\n"
        "except ValueError as error:\n    print(json.dumps([repr(a), str(error)]))"
    )
    assert found[0] == "RoPE(8, layout='half', scaling=LinearScaling(2.0))"
    assert all(name in found[1] for name in ("LongRoPE", "RIFLEx", "YaRN"))


def test_a_users_class_keeps_its_name():
    found = fresh(
        "import json, posenc_ref as pr\n"
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True, eq=False, repr=False)\n"
        "class ALiBi(pr.Bias):\n    num_heads: int\n"
        "pr.ALiBi(8)\n"
        "print(json.dumps(type(pr.from_dict({'encoding': 'ALiBi', 'num_heads': 8})).__module__))"
    )
    assert found == "__main__"


def test_judging_in_the_own_folder_keeps_the_package():
    """`posenc ci` forgets the modules of a check's folder, but never makes a class twice."""
    found = fresh(
        "import json, pathlib, posenc_ref as pr\n"
        "from posenc_ref.conformance.cli.options.isolation import own_modules\n"
        f"with own_modules(pathlib.Path({str(Path(posenc_ref.__file__).parents[1])!r})):\n"
        "    first = pr.from_dict({'encoding': 'ALiBi', 'num_heads': 8})\n"
        "from posenc_ref.alibi import ALiBi\n"
        "print(json.dumps(isinstance(first, ALiBi)))"
    )
    assert found is True
