"""A page for every model that is known by name."""

import json
import re
from collections import defaultdict
from functools import cache

from posenc_ref import ModelEncoding
from posenc_ref.conformance.cli.options.models import describe

from .facts import classes, declared, link_to, models, page_of, values
from .home import section_named, toctree
from .text import fenced, table

#: The names that make a family, and the title of the models that are in none.
FAMILY, OTHERS = 3, "other models"
#: Without JavaScript the field is not shown; with it nothing moves when it is.
FILTER = """```{raw} html
<noscript><style>#model-filter { display: none }</style></noscript>
<form id="model-filter" role="search">
<label for="model-words">Only models and encodings with</label>
<input id="model-words" type="search" placeholder="deepseek yarn" autocomplete="off">
<output for="model-words"></output>
</form>
<script src="../_static/models.js" defer></script>
```
"""


def made():
    """Return the pages: name -> text."""
    found = {page_of("models", name): page(name, model) for name, model in models().items()}
    own = section_named("models")
    text = f"# {own.title}\n\n{own.purpose} `posenc check --preset NAME` judges a function against "
    text += f"a model; `posenc diff A B` compares two.\n\n{FILTER}\n"
    for title, members in families().items():
        rows = [(to_model(name), summary(name, models()[name])) for name in members]
        text += f"## {title}\n\n" + table(("model", "encodings"), rows)
    text += "## Reading other models\n\n" + toctree(f"/{page}" for page in own.pages)
    return found | {"models/index": text}


@cache
def families():
    """Return the names of presets by the letters with which they begin, then all others."""
    found = defaultdict(list)
    for name in models():
        found[re.match(r"[a-z]+", name)[0]].append(name)
    large = {title: names for title, names in sorted(found.items()) if len(names) >= FAMILY}
    small = [name for name in models() if not any(name in names for names in large.values())]
    return large | {OTHERS: small}


def family_of(name):
    """Return the title of the family that has a preset."""
    return next(title for title, names in families().items() if name in names)


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
    title = family_of(name)
    parts.append(f"Encodings: {summary(name, model)}.\n\n")
    anchor = title.replace(" ", "-")
    parts.append(f"[All models](/models/index.md) · [{title}](/models/index.md#{anchor})\n\n")
    if not isinstance(model, ModelEncoding):
        parts.append("The preset is complete with these facts:\n\n")
        parts.append(table(("fact", "why it must be given"), ((f"`{f}`", why) for f, why in model)))
        given = ", ".join(f"{fact}=..." for fact, _ in model)
        text = f'from posenc_ref import preset\n\npreset("{name}", {given})'
        return "".join([*parts, fenced(text, "python"), relatives(name)])
    parts.append(fenced(f"$ posenc presets {name}\n{describe(model, False)}", "console"))
    parts.append("## Use it\n\n")
    parts.append(fenced(f"posenc check my_file.py:function --preset {name}", "sh"))
    text = f'from posenc_ref import preset\n\nmodel = preset("{name}")\n'
    for kind, value in model.encodings.items():
        text += f"model.encodings[{kind!r}]  # {value!r}\n"
    parts.append(fenced(text, "python"))
    same = [other for other in alike()[stated(model)] if other != name]
    if same:
        names = ", ".join(map(to_model, same))
        parts.append(f"## Models with the same encodings\n\n{names}.\n\n")
    return "".join([*parts, relatives(name)])


def relatives(name):
    """Return links to the models of the same family, as no sidebar has them."""
    title = family_of(name)
    names = [other for other in families()[title] if other != name]
    if title == OTHERS:
        return ""
    return f"## Other models of the name {title}\n\n{', '.join(map(to_model, names))}.\n"
