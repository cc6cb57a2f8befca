"""What is public says what it takes, gives back and refuses, and where it comes from.

An encoding has the formula, the source, the error unit and every field with its range (``Encoding``
says what a wrong field raises); a function every parameter, what comes back, and what it raises.
``help()`` then suffices.
"""

import dataclasses
import inspect
import re

import pytest

import posenc_ref
import posenc_ref.backends
import posenc_ref.conformance
from posenc_ref import Encoding

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
    """The lines below a title that is underlined, up to the next title; None without one."""
    found = re.search(rf"^{title}\n-+\n((?:.*\n?)*?)(?=^\S.*\n-+$|\Z)", doc, re.MULTILINE)
    return found[1] if found else None


def named(doc, titles):
    """The parameters of these sections: ``a, b : int`` and ``**c`` are names of three."""
    lines = [line for title in titles for line in (section(doc, title) or "").splitlines()]
    heads = [line.partition(" : ")[0] for line in lines if line and not line[0].isspace()]
    # A line may hold several, ``hidden : array (W, 1);  hidden_bias : array (W,)``.
    more = [name for line in lines for name in re.findall(r";  (\w+) :", line)]
    return {name.strip(" *") for head in heads for name in head.split(",")} | set(more)


def of_function(function):
    """What the docstring of a function lacks."""
    doc, signature = inspect.getdoc(function) or "", inspect.signature(function)
    found = [
        f"{name} is not typed"
        for name, parameter in signature.parameters.items()
        if parameter.annotation is inspect.Parameter.empty
    ]
    if signature.return_annotation is inspect.Signature.empty:
        found.append("what it returns is not typed")
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
    """What the docstring of a dataclass lacks."""
    doc = inspect.getdoc(cls) or ""
    fields = {f.name for f in dataclasses.fields(cls) if not f.name.startswith("_")}
    missing = sorted(fields - named(doc, ["Parameters", "Attributes"]))
    found = [f"{name} is not under Parameters or Attributes" for name in missing]
    if issubclass(cls, Encoding):
        for title in ("Formula", "Source", "Error unit"):
            if not re.search(rf"^{title}\n    \S", doc, re.MULTILINE):
                found.append(f"no {title}")
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    assert of_function(FUNCTIONS[name]) == []


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    assert of_class(CLASSES[name]) == []


def test_there_are_some():
    assert len(FUNCTIONS) > 35
    assert len(CLASSES) > 60


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
def test_a_function_that_says_less_is_found(left_out, said, monkeypatch):
    assert left_out in GOOD
    monkeypatch.setattr(twice, "__doc__", GOOD.replace(left_out, "", 1) if left_out else GOOD)
    assert of_function(twice) == said


def test_a_function_without_types_is_found():
    def untyped(x):
        return x

    untyped.__doc__ = GOOD
    assert of_function(untyped) == ["x is not typed", "what it returns is not typed"]


@pytest.mark.parametrize("left_out", ["Formula", "Source", "Error unit"])
def test_an_encoding_that_says_less_is_found(left_out, monkeypatch):
    doc = posenc_ref.Kerple.__doc__
    monkeypatch.setattr(posenc_ref.Kerple, "__doc__", doc.replace(left_out, "Remark", 1))
    assert of_class(posenc_ref.Kerple) == [f"no {left_out}"]


def test_a_field_that_is_not_explained_is_found(monkeypatch):
    doc = posenc_ref.T5Bias.__doc__
    monkeypatch.setattr(posenc_ref.T5Bias, "__doc__", doc.replace("scaled, bias_", "bias_", 1))
    assert of_class(posenc_ref.T5Bias) == ["scaled is not under Parameters or Attributes"]
