"""A page for every model that is known by name."""

from posenc_ref import ModelEncoding
from posenc_ref.conformance.cli.options.models import describe

from .facts import classes, declared, models, page_of, values
from .home import section_named, toctree
from .text import fenced, table


def made():
    """Return the pages: name -> text."""
    found = {page_of("models", name): page(name, model) for name, model in models().items()}
    own = section_named("models")
    text = (
        f"# {own.title}\n\n{own.purpose} `posenc check --preset NAME` judges a function against a "
    )
    text += "model; `posenc diff A B` compares two.\n\n"
    rows = [
        (f"[{n}](/{page_of('models', n)}.md)", summary(n, model)) for n, model in models().items()
    ]
    text += table(("model", "encodings"), rows)
    text += "## Reading other models\n\n" + toctree(f"/{page}" for page in own.pages)
    return found | {"models/index": text}


def linked(names):
    """Return the names of classes with links, without those that have no page."""
    known = {c.__name__ for c in classes()}
    return ", ".join(
        f"[`{n}`](/{page_of('book', n)}.md)" for n in dict.fromkeys(names) if n in known
    )


def summary(name, model):
    """Return the encodings of a model in one line."""
    return linked(kinds(name, model)) or "no positional encoding"


def kinds(name, model):
    """Return the names of the classes of a model's encodings and scalings."""
    if isinstance(model, ModelEncoding):
        return [type(value).__name__ for value in values(model)]
    text = declared()[name].get("encodings", {})
    return [entry["encoding"] for entry in text.values() if entry]


def page(name, model):
    """Return the page of a preset."""
    parts = [f"---\norphan: true\n---\n\n# {name}\n\n"]
    if not isinstance(model, ModelEncoding):
        parts.append(f"{summary(name, model)}. The preset is complete with these facts:\n\n")
        parts.append(table(("fact", "why it must be given"), ((f"`{f}`", why) for f, why in model)))
        given = ", ".join(f"{fact}=..." for fact, _ in model)
        parts.append(
            fenced(f'from posenc_ref import preset\n\npreset("{name}", {given})', "python")
        )
        return "".join(parts)
    parts.append(f"Encodings: {summary(name, model)}.\n\n")
    parts.append(fenced(f"$ posenc presets {name}\n{describe(model, False)}", "console"))
    parts.append("## Use it\n\n")
    parts.append(fenced(f"posenc check my_file.py:function --preset {name}", "sh"))
    text = f'from posenc_ref import preset\n\nmodel = preset("{name}")\n'
    text += "\n".join(
        f"model.encodings[{kind!r}]  # {value!r}" for kind, value in model.encodings.items()
    )
    parts.append(fenced(text, "python"))
    return "".join(parts)
