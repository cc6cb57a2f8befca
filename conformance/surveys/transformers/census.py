"""Find every rotary module class in the source code of the installed ``transformers``.

It reads the code without importing it: names identify the classes, and calls that build a class
show its configuration.  A model may build one class with several configurations, such as those of
a text tower and an audio tower.
"""

from __future__ import annotations

import ast
import fnmatch
import functools
import importlib.util
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: A pattern for the names of rotary modules, which excludes attention classes.
NAMES = re.compile(r"^(?!.*(Atten|Layer$|Model$)).*(Rotary|RoPE|Rope)")
#: Models without a rotary module class, each with the class that has the table or rotates.
WITHOUT = {
    "codegen": "CodeGenAttention",
    "gptj": "GPTJAttention",
    "lightglue": "LightGluePositionalEncoder",
    "roformer": "RoFormerModel",
    "vjepa2": "VJEPA2RopeAttention",
}


@dataclass(frozen=True, order=True)
class Target:
    """A rotary module class, and the configuration with which a model builds it."""

    model: str  #: the folder under ``transformers.models``
    module: str
    config: str = ""  #: configuration class of the class that builds it; "" for its own
    path: str = ""  #: attribute path from that configuration to the one passed
    scaled: bool = True  #: Molmo2 builds one instance without its scaling

    @property
    def name(self) -> str:
        """Return the model's folder and the class, then the configuration in parentheses."""
        parts = [self.config + (f".{self.path}" if self.path else "")]
        parts += [] if self.scaled else ["scaled=False"]
        inside = ", ".join(part for part in parts if part)
        return f"{self.model}.{self.module}" + (f"({inside})" if inside else "")

    @property
    def file(self) -> str:
        """Return the name of the modeling module."""
        return f"transformers.models.{self.model}.modeling_{self.model}"


def census(only: Sequence[str] = ()) -> list[Target]:
    """Return the sorted targets that match one of ``only``, or all if it is empty."""
    patterns = [pattern.lower() for pattern in only or "*"]
    return [t for t in _every() if any(matches(t.name, t.model, p) for p in patterns)]


def matches(name: str, model: str, pattern: str) -> bool:
    """Return whether ``pattern`` equals ``model`` or matches the module's ``name``.

    A pattern without wildcards matches a name that contains it, if the pattern has a dot.
    """
    if any(c in pattern for c in "*?["):
        return fnmatch.fnmatchcase(name.lower(), pattern)
    return pattern == model or (pattern in name.lower() and "." in pattern)


def models_folder() -> Path:
    """Return the folder of ``transformers`` with a subfolder for every model."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("transformers is not installed; pip install 'transformers>=5'")
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError('torch is not installed; pip install "posenc-ref[torch]"')
    return Path(spec.origin).parent / "models"


@functools.cache
def _every() -> list[Target]:
    found: set[Target] = set()
    for file in models_folder().glob("*/modeling_*.py"):
        model = file.parent.name
        if file.stem != f"modeling_{model}":
            continue
        source = file.read_text(encoding="utf-8")
        if model in WITHOUT:
            found.add(Target(model, WITHOUT[model]))
        elif re.search("^class .*(Rotary|RoPE|Rope)", source, re.MULTILINE):
            found.update(read(model, source))
    return sorted(found)


def read(model: str, source: str) -> Iterator[Target]:
    """Yield the targets of one modeling file."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    rotary = [node.name for node in classes if NAMES.search(node.name)]
    found: list[Target] = []
    for node in classes:
        for method in (m for m in node.body if isinstance(m, ast.FunctionDef)):
            known = {
                a.arg: ast.unparse(a.annotation).partition("|")[0].strip()
                for a in method.args.args
                if a.annotation is not None
            }
            for call in ast.walk(method):
                if isinstance(call, ast.Call) and ast.unparse(call.func) in rotary:
                    found.append(_target(model, call, known))
    named = {t.module for t in found if t.config}
    yield from (t for t in found if t.config or t.module not in named)
    yield from (Target(model, name) for name in rotary if all(t.module != name for t in found))


def _target(model: str, call: ast.Call, known: dict[str, str]) -> Target:
    """Return the target that a call such as ``LlamaRotaryEmbedding(config=config)`` builds."""
    given = {word.arg: word.value for word in call.keywords}
    first = call.args[0] if call.args else given.get("config")
    root, *path = ast.unparse(first).removeprefix("self.").split(".") if first else [""]
    scaled = given.get("scaled")
    return Target(
        model,
        ast.unparse(call.func),
        known.get(root, ""),
        ".".join(path) if root in known else "",
        not (isinstance(scaled, ast.Constant) and scaled.value is False),
    )
