"""A page for every model that is known by name."""

import json
from collections import defaultdict
from functools import cache

from posenc_ref import ModelEncoding
from posenc_ref.conformance.cli.options.models import describe

from .facts import classes, declared, link_to, models, page_of, values
from .home import section_named, toctree
from .text import fenced, table


def made():
    """Return the pages: name -> text."""
    found = {page_of("models", name): page(name, model) for name, model in models().items()}
    own = section_named("models")
    text = f"# {own.title}\n\n{own.purpose} `posenc check --preset NAME` judges a function against "
    text += "a model; `posenc diff A B` compares two.\n\n"
    rows = [(to_model(name), summary(name, model)) for name, model in models().items()]
    text += table(("model", "encodings"), rows)
    text += "## Reading other models\n\n" + toctree(f"/{page}" for page in own.pages)
    return found | {"models/index": text}


def to_model(name):
    """Return a link to the page of a preset."""
    return link_to("models", name, code=False)


def summary(name, model):
    """Return the encodings of a model in one line, or what must be given to know them."""
    known = {c.__name__ for c in classes()}
    if isinstance(model, ModelEncoding):
        found = [type(value).__name__ for value in values(model)]
        nothing = "no positional encoding"
    else:
        parts = declared()[name].get("encodings", {}).values()
        found = [entry["encoding"] for entry in parts if entry]
        nothing = f"not known without {' and '.join(f'`{fact}`' for fact, _ in model)}"
    links = [link_to("book", one) for one in dict.fromkeys(found) if one in known]
    return ", ".join(links) or nothing


@cache
def alike():
    """Return the presets by their encodings."""
    found = defaultdict(list)
    for name, model in models().items():
        if isinstance(model, ModelEncoding):
            found[stated(model)].append(name)
    return found


def stated(model):
    """Return the encodings of a model, layer type by layer type, as text."""
    found = {kind: one and one.to_dict() for kind, one in model.encodings.items()}
    return json.dumps(found, sort_keys=True)


def page(name, model):
    """Return the page of a preset."""
    parts = [f"---\norphan: true\n---\n\n# {name}\n\n"]
    parts.append(f"Encodings: {summary(name, model)}. [All models](/models/index.md).\n\n")
    if not isinstance(model, ModelEncoding):
        parts.append("The preset is complete with these facts:\n\n")
        parts.append(table(("fact", "why it must be given"), ((f"`{f}`", why) for f, why in model)))
        given = ", ".join(f"{fact}=..." for fact, _ in model)
        text = f'from posenc_ref import preset\n\npreset("{name}", {given})'
        return "".join([*parts, fenced(text, "python")])
    parts.append(fenced(f"$ posenc presets {name}\n{describe(model, False)}", "console"))
    parts.append("## Use it\n\n")
    parts.append(fenced(f"posenc check my_file.py:function --preset {name}", "sh"))
    text = f'from posenc_ref import preset\n\nmodel = preset("{name}")\n'
    for kind, value in model.encodings.items():
        text += f"model.encodings[{kind!r}]  # {value!r}\n"
    parts.append(fenced(text, "python"))
    same = [other for other in alike()[stated(model)] if other != name]
    if same:
        parts.append(f"## Models with the same encodings\n\n{', '.join(map(to_model, same))}.\n")
    return "".join(parts)
