"""What several pages need: models by encoding, wrong implementations, golden vectors, scores."""

import json
import re
from collections import Counter, defaultdict
from functools import cache

from posenc_ref import Attention, ConvPositions, ModelEncoding, preset, presets
from posenc_ref.conformance.guide.names import encodings, query_scales, rules, scalings
from posenc_ref.conformance.guide.overview import FAMILIES
from posenc_ref.conformance.vectors.files import all_cases, shipped
from posenc_ref.encoding import Value
from posenc_ref.models.presets import needs
from tests.mutants import WRONG

from .sections import ROOT


@cache
def groups():
    """Return the classes that have a page, by the title of their group."""
    made = {
        title: [c for c in encodings() if c.family == family] for family, title in FAMILIES.items()
    }
    made["Frequency scalings of rotary encodings"] = scalings()
    made["Position ids of text, images and videos"] = rules()
    made["Factors on queries"] = query_scales()
    made["Attention layers and convolutions"] = [Attention, ConvPositions]
    return made


def classes():
    """Return every class that has a page."""
    return [c for own in groups().values() for c in own]


def page_of(folder, name):
    """Return the page of a class ("book"), code ("codes"), surface or model."""
    return f"{folder}/{name.lower()}"


def link_to(folder, name, *, code=True):
    """Return a link to the page of a class, code, surface or model."""
    return f"[{f'`{name}`' if code else name}](/{page_of(folder, name)}.md)"


@cache
def models():
    """Return every preset: its ModelEncoding, or the facts that the caller must give."""
    return {name: needs(name) or preset(name) for name in presets()}


@cache
def uses():
    """Return for every class the presets with it: name -> {preset: [fields of each use]}."""
    found = defaultdict(dict)
    for name, model in models().items():
        if isinstance(model, ModelEncoding):
            every = [*values(model), *model.query_scale.values()]
            for value in {id(v): v for v in every}.values():
                found[type(value).__name__].setdefault(name, []).append(value)
    for name, entry in declared().items():
        for kind in names_in(entry):
            found[kind].setdefault(name, [])
    return found


def values(model):
    """Yield the encodings of a model, their scalings, and the encodings inside them."""
    left = [e for e in model.encodings.values() if e is not None]
    while left:
        one = left.pop()
        yield one
        left += [v for v in vars(one).values() if isinstance(v, Value)]


@cache
def declared():
    """Return the entries of the presets that lack facts, as JSON."""
    text = (ROOT / "posenc_ref/models/data/presets.json").read_text(encoding="utf-8")
    table = json.loads(text)["presets"]
    return {name: table[name] for name, model in models().items() if type(model) is tuple}


@cache
def vectors():
    """Return how many golden vectors each file has: (surface, encoding) -> {file: number}."""
    found = defaultdict(Counter)
    for file, group, _ in all_cases(shipped()):
        found[group["surface"], (group["encoding"] or {}).get("encoding", "")][file] += 1
    return found


def wrong(*, encoding=None, surface=None, code=None):
    """Return the wrong implementations of the corpus with this declaration, surface and code."""
    return [
        case
        for case, names in declarations()
        if (encoding is None or encoding in names)
        and surface in (None, case.surface)
        and code in (None, case.expected[0])
    ]


@cache
def declarations():
    """Return every wrong implementation with the names of the classes that it declares."""
    return [(case, names_in(case.encoding)) for case in WRONG]


def names_in(value):
    """Return the classes in a declaration, at any depth."""
    if isinstance(value, list | tuple):
        return set().union(*map(names_in, value))
    if not isinstance(value, dict):
        return set()
    own = {value[key] for key in ("encoding", "scaling") if isinstance(value.get(key), str)}
    return own.union(*map(names_in, value.values()))


@cache
def worst():
    """Return the lines about properties and scores that docs/generated/encodings.md has."""
    text = (ROOT / "docs/generated/encodings.md").read_text(encoding="utf-8")
    return {
        name: re.findall(r"^(Properties|Worst scores): (.*)\.$", body, re.MULTILINE)
        for name, body in re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
    }
