"""What `import posenc_ref` loads, and what it offers."""

import __future__

import json
import subprocess
import sys
import types

import posenc_ref

OPTIONAL = {"cupy", "dask", "jax", "jsonschema", "mpmath", "rich", "scipy", "torch", "typer"}

PROBE = """
import json, sys
import numpy
before = set(sys.modules)
import posenc_ref
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def newly_loaded():
    """Names of the modules that `import posenc_ref` loads on top of NumPy, in a fresh process."""
    run = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def owner(module):
    return module.partition(".")[0]


def test_import_loads_nothing_but_the_specification():
    loaded = newly_loaded()
    assert OPTIONAL.isdisjoint(map(owner, loaded))
    foreign = [
        name
        for name in loaded
        # setuptools names the finder of an editable install after the project
        if owner(name) not in {"posenc_ref", "array_api_compat", "numpy"}
        and not owner(name).startswith("__editable__")
        and owner(name) not in sys.stdlib_module_names
    ]
    own = sum(owner(name) == "posenc_ref" for name in loaded)
    standard = sum(owner(name) in sys.stdlib_module_names for name in loaded)
    print(f"import posenc_ref: {own} own, {standard} standard, {len(foreign)} foreign modules")
    assert foreign == []
    assert own > 0
    # NumPy has imported most of what it needs; a jump means that something heavy crept in.
    assert standard <= 10
    assert own <= 104  # a small file for every encoding, schedule and plain function


def test_import_does_not_load_the_outer_packages():
    outer = ("posenc_ref.backends", "posenc_ref.conformance")
    assert [name for name in newly_loaded() if name.startswith(outer)] == []


def test_all_equals_the_public_names():
    public = {
        name
        for name, value in vars(posenc_ref).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType | __future__._Feature)
    }
    modules = {
        name
        for name in posenc_ref.__all__
        if isinstance(getattr(posenc_ref, name), types.ModuleType)
    }
    declared = {name for name in posenc_ref.__all__ if not name.startswith("_")} - modules
    assert sorted(public - declared) == [], "public, but not in __all__"
    assert sorted(declared - public) == [], "in __all__, but not there"
    assert len(set(posenc_ref.__all__)) == len(posenc_ref.__all__)
