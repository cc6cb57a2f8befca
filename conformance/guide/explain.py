"""``explain``: what the code of a finding means, or how a surface or an encoding is defined."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from posenc_ref import presets
from posenc_ref.conformance.calling.conventions import NAMES
from posenc_ref.conformance.exact.property_text import declared, meanings
from posenc_ref.conformance.harness.codes import CODES
from posenc_ref.conformance.harness.nearest import find, near
from posenc_ref.conformance.harness.signatures import SIGNATURES
from posenc_ref.conformance.registry import entries
from posenc_ref.conformance.surfaces import WORDS
from posenc_ref.encoding import Value

from .names import ALIASES, encodings, others, scalings
from .overview import SHAPES, TOPICS, overview, signatures
from .text import WIDTH, docstring, hanging, unmarked


def explain(name: str | None = None) -> str:
    """Return the text about a code, surface, encoding, scaling or topic, or an overview of all.

    Parameters
    ----------
    name : str, optional
        Its case, hyphens and underscores do not matter.  None: an overview of all names.

    Returns
    -------
    str
        Plain text in lines of at most 100 characters, apart from JSON.

    Raises
    ------
    ValueError
        If nothing has this name; the message suggests similar names.
    """
    if name is None:
        return overview()
    if topic := find(name, TOPICS):
        return TOPICS[topic]()
    values: dict[str, type[Value]] = {c.__name__: c for c in (*encodings(), *scalings(), *others())}
    surface, code = find(name, SIGNATURES), find(name, CODES)
    known = find(name, values) or ALIASES.get(find(name, ALIASES) or "")
    texts = [  # "slopes" is a surface and a code, "proportional" a scaling and a code
        *([_surface(surface)] if surface else []),
        *([_encoding(values[known])] if known else []),
        *([_code(code)] if code else []),
    ]
    if not texts and (convention := find(name, NAMES)):
        return signatures([NAMES[convention]])
    if texts:
        return "\n\n".join(texts)
    raise ValueError(
        f"there is no code, surface, encoding or scaling called {name!r}{_hint(name, values)}"
    )


def _hint(name: str, values: dict[str, type[Value]]) -> str:
    """Return where to find an unknown name."""
    if model := find(name, presets()):
        return f"; it is a model: `posenc presets {model}` shows its encoding"
    wanted = name.strip().lower()
    alike = near(name, [*CODES, *values, *ALIASES, *SIGNATURES, *NAMES, *TOPICS], n=5, cutoff=0.5)
    alike += [code for code in CODES if wanted in code and code not in alike]
    texts = {c.name: f"{c.meaning} {c.remedy}" for c in CODES.values()}
    texts |= {known: inspect.getdoc(cls) or "" for known, cls in values.items()}
    mentioned = [known for known, text in texts.items() if wanted in text.lower()]
    hint = ""
    if mentioned:
        hint += f"; {name!r} is mentioned in {', '.join(mentioned[:6])}"
    if alike:
        hint += f"; did you mean {', '.join(dict.fromkeys(ALIASES.get(n, n) for n in alike))}?"
    return hint or "; `posenc explain` without a name lists everything"


def _code(name: str) -> str:
    parts = ("meaning", "trigger", "remedy")
    return "\n".join([name, *(hanging(part, getattr(CODES[name], part)) for part in parts)])


def _surface(name: str) -> str:
    """Return the call, the result and the encodings of a surface, and the letters in its shapes."""
    row = SIGNATURES[name]
    lines = [hanging("call", row.call)]
    if row.meaning:
        lines.append(hanging("result", row.meaning))
    judged = ", ".join(WORDS[family] for family in row.families if family in WORDS)
    lines.append(hanging("judges", judged or "nothing: for test vectors and identify"))
    shapes = " ".join(re.findall(r"\([^()]*\)", f"{row.call} {row.meaning}"))
    used = [letter for letter in SHAPES if letter in re.findall(r"\w+", shapes)]
    if used:
        lines.append(hanging("shapes", ", ".join(f"{one} {SHAPES[one]}" for one in used)))
    return "\n".join([f"surface {name}", *lines])


def _encoding(cls: type[Value]) -> str:
    """Return the constructor, the JSON, the docstring and the properties of a class."""
    parts = [_signature(cls), _json(cls), docstring(inspect.getdoc(cls) or ""), _properties(cls)]
    return "\n\n".join(filter(None, parts))


def _signature(cls: type) -> str:
    """Return the constructor's arguments with their defaults."""
    plain = inspect.signature(cls)
    bare = [p.replace(annotation=p.empty) for p in plain.parameters.values()]
    arguments = str(plain.replace(parameters=bare, return_annotation=plain.empty))
    return textwrap.fill(
        f"{cls.__name__}{arguments}", WIDTH, subsequent_indent=" " * (len(cls.__name__) + 1)
    )


def _json(cls: type[Value]) -> str:
    """Return the JSON that declares an encoding or scaling: the keys that have no default."""
    example = next((e for e in _examples() if type(e) is cls), None)
    kind = cls.kind
    body = {kind: cls.__name__} if example is None else example.to_dict()
    required = [
        name
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.default is parameter.empty
    ]
    values = ", ".join(f'"{name}": {_value(body.get(name, ...))}' for name in (kind, *required))
    inside = kind == "scaling"
    text = f'"scaling": {{{values}}}' if inside else f"'{{{values}}}'"
    where = "inside that of a rotary encoding" if inside else "for --encoding"
    return f"JSON {where}; every parameter below is a key\n    {text}"


def _examples() -> Iterator[Value]:
    """Yield the examples in the registry, and their scalings."""
    for entry in entries():
        for example in entry.examples.values():
            yield example
            scaling = getattr(example, "scaling", None)
            if scaling is not None:
                yield scaling


def _value(value: Any) -> str:
    """Return JSON, with "..." for the numbers of arrays and for what no example states."""
    if value is ...:
        return "..."
    if isinstance(value, dict) and "hex" in value:
        rank = len(value["shape"])
        return "[" * rank + "..." + "]" * rank
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)}: {_value(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


def _properties(cls: type) -> str:
    """Return the properties that a registered encoding declares, with their meanings."""
    entry = next((entry for entry in entries() if entry.encoding is cls), None)
    if entry is None:
        return ""
    known, lines = meanings(entry), ["Properties"]
    for what, but in declared(entry).items():
        text = known[what] + (f"; the example {but} does not have this property" if but else "")
        lines.append(hanging(f"  {what}", unmarked(text), 19))
    return "\n".join([*lines, *([] if len(lines) > 1 else ["    none declared"])])
