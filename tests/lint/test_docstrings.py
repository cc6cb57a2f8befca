"""Docstrings of public names are complete: ``help()`` suffices.

An encoding states its formula, source, error unit and fields; its base class states what all of
them raise. A function states its parameters, its result and its exceptions.
"""

import dataclasses
import functools
import inspect
import re
import types

import pytest

import posenc_ref
import posenc_ref.backends
import posenc_ref.conformance
from posenc_ref import Encoding
from tests.lint.sources import require_none

#: The module that defines the coefficients A and B of an error unit.
SEE = " (see :mod:`posenc_ref.accuracy`)"
MODULES = (posenc_ref, posenc_ref.backends, posenc_ref.conformance)
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
}
FUNCTIONS = {name: thing for name, thing in PUBLIC.items() if inspect.isfunction(thing)}
CLASSES = {
    name: thing
    for name, thing in PUBLIC.items()
    if inspect.isclass(thing) and dataclasses.is_dataclass(thing)
}


def section(doc, title):
    """Return the lines below an underlined title, up to the next title; None without one."""
    found = re.search(rf"^{title}\n-+\n((?:.*\n?)*?)(?=^\S.*\n-+$|\Z)", doc, re.MULTILINE)
    return found[1] if found else None


def named(doc, titles):
    """Return the parameters of these sections: ``a, b : int`` and ``**c`` give three names."""
    lines = [line for title in titles for line in (section(doc, title) or "").splitlines()]
    heads = [line.partition(" : ")[0] for line in lines if line and not line[0].isspace()]
    # A line may hold several, ``hidden : array (W, 1);  hidden_bias : array (W,)``.
    more = [name for line in lines for name in re.findall(r";  (\w+) :", line)]
    return {name.strip(" *") for head in heads for name in head.split(",")} | set(more)


def of_function(function):
    """Return the parts that a function's signature and docstring lack."""
    doc, signature = inspect.getdoc(function) or "", inspect.signature(function)
    found = [
        f"{name} is not typed"
        for name, parameter in signature.parameters.items()
        if parameter.annotation is inspect.Parameter.empty
    ]
    if signature.return_annotation is inspect.Signature.empty:
        found.append("the result is not typed")
    missing = sorted(set(signature.parameters) - named(doc, ["Parameters"]))
    found += [f"{name} is not under Parameters" for name in missing]
    found += ["no Returns"] if section(doc, "Returns") is None else []
    raises = section(doc, "Raises")
    if signature.parameters and raises is None:
        found.append("no Raises")
    if raises and not re.match(r"\w+(, \w+)*\n    \S", raises):
        found.append("Raises must name the exceptions, then say when, indented")
    return found


def of_class(cls):
    """Return the parts that a dataclass's docstring lacks."""
    doc = inspect.getdoc(cls) or ""
    fields = {f.name for f in dataclasses.fields(cls) if not f.name.startswith("_")}
    missing = sorted(fields - named(doc, ["Parameters", "Attributes"]))
    found = [f"{name} is not under Parameters or Attributes" for name in missing]
    if issubclass(cls, Encoding):
        for title, rest in (("Formula", ""), ("Source", ""), ("Error unit", SEE)):
            if not re.search(rf"^{title}{re.escape(rest)}\n    \S", doc, re.MULTILINE):
                found.append(f"no {title}{rest}")
    return found


def undocumented(name, value):
    """Return `name` and the public members that have no docstring, not even an inherited one."""
    doc = inspect.getdoc(value) or ""
    # A dataclass without a docstring gets its signature as one.
    bare = not doc or (inspect.isclass(value) and doc.startswith(f"{value.__name__}("))
    missing = [name] if bare else []
    if inspect.isclass(value):
        kinds = (types.FunctionType, property, functools.cached_property, classmethod, staticmethod)
        fields = (
            {f.name for f in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else ()
        )
        missing += [
            f"{name}.{member}"
            for member in dir(value)
            if not member.startswith("_")
            and member not in fields
            and isinstance(inspect.getattr_static(value, member), kinds)
            and not any(
                vars(base)[member].__doc__ for base in value.__mro__ if member in vars(base)
            )
        ]
    return missing


def test_functions():
    assert "posenc_ref.conformance.check" in FUNCTIONS
    require_none(
        f"{name}: {found}" for name, thing in FUNCTIONS.items() for found in of_function(thing)
    )


def test_classes():
    assert "posenc_ref.RoPE" in CLASSES
    assert section(inspect.getdoc(Encoding), "Raises")
    require_none(f"{name}: {found}" for name, cls in CLASSES.items() for found in of_class(cls))


def test_public_names_and_members_have_docstrings():
    callables = {name: thing for name, thing in PUBLIC.items() if callable(thing)}
    require_none(found for name, thing in callables.items() for found in undocumented(name, thing))


GOOD = """Twice x.

    Parameters
    ----------
    x : float
    *rest, **more
        Left alone.

    Returns
    -------
    float

    Raises
    ------
    TypeError
        No number.
    """


def twice(x: float, *rest: int, **more: int) -> float:
    return 2 * x


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("", []),
        ("    x : float\n", ["x is not under Parameters"]),
        ("*rest, ", ["rest is not under Parameters"]),
        ("    Returns\n    -------\n    float\n\n", ["no Returns"]),
        ("    Raises\n    ------\n    TypeError\n        No number.\n", ["no Raises"]),
        ("    TypeError\n    ", ["Raises must name the exceptions, then say when, indented"]),
    ],
)
def test_an_incomplete_function_is_found(left_out, said, monkeypatch):
    assert left_out in GOOD
    monkeypatch.setattr(twice, "__doc__", GOOD.replace(left_out, "", 1) if left_out else GOOD)
    assert of_function(twice) == said


def test_a_function_without_types_is_found():
    def untyped(x):
        return x

    untyped.__doc__ = GOOD
    assert of_function(untyped) == ["x is not typed", "the result is not typed"]


@pytest.mark.parametrize("left_out", ["Formula", "Source", f"Error unit{SEE}"])
def test_an_incomplete_encoding_is_found(left_out, monkeypatch):
    doc = posenc_ref.Kerple.__doc__
    monkeypatch.setattr(posenc_ref.Kerple, "__doc__", doc.replace(left_out, "Remark", 1))
    assert of_class(posenc_ref.Kerple) == [f"no {left_out}"]


def test_an_undocumented_field_is_found(monkeypatch):
    doc = posenc_ref.T5Bias.__doc__
    monkeypatch.setattr(posenc_ref.T5Bias, "__doc__", doc.replace("scaled, bias_", "bias_", 1))
    assert of_class(posenc_ref.T5Bias) == ["scaled is not under Parameters or Attributes"]


def test_a_missing_docstring_is_found():
    class Documented:
        """Has one."""

        def method(self):
            """Has one."""

    class Inherits(Documented):
        """Has one."""

        def method(self):
            return 0

        @property
        def field(self):
            return 0

    @dataclasses.dataclass
    class Bare:
        dim: int

    assert undocumented("Documented", Documented) == []
    assert undocumented("Inherits", Inherits) == ["Inherits.field"]
    assert undocumented("Bare", Bare) == ["Bare"]
