"""The book: a page for every encoding, frequency scaling and surface."""

import ast
import inspect
from collections import defaultdict

from posenc_ref.conformance.exact.property_text import declared, meanings
from posenc_ref.conformance.guide.explain import explain
from posenc_ref.conformance.guide.text import first_line
from posenc_ref.conformance.harness.codes import CODES
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.registry import entries

from . import pictures
from .docstrings import markdown, sections
from .facts import classes, groups, link_to, page_of, uses, vectors, worst, wrong
from .home import section_named, toctree
from .text import definition, fenced, file_of, folded, listed, table

#: The parts of a docstring that the page shows, in this order.
SHOWN = ("Formula", "Source", "Defaults", "Traps", "Error unit")
#: Methods that check arguments or bound errors: the page shows the others.
ASIDE = {"__post_init__", "properties"}


def made():
    """Return the pages: name -> text."""
    found = {page_of("book", c.__name__): encoding(c) for c in classes()}
    found |= {page_of("surfaces", name): surface(row) for name, row in SURFACES.items()}
    own = section_named("book")
    text = f"# {own.title}\n\n{own.purpose}\n\n"
    for title, members in groups().items():
        lines = [f"{link_to('book', c.__name__)}\n: {first_line(c)}\n" for c in members]
        text += f"## {title}\n\n" + "\n".join(lines) + "\n"
        text += hidden(title, "book", (c.__name__ for c in members))
    text += "## Surfaces: kinds of functions\n\n"
    rows = [(link_to("surfaces", n), f"`{row.call}`") for n, row in SURFACES.items()]
    text += table(("surface", "call"), rows)
    text += hidden("Surfaces", "surfaces", SURFACES)
    text += "## Essays\n\n" + toctree(f"/{page}" for page in own.pages)
    return found | {"book/index": text}


def hidden(title, folder, names):
    """Return the entries of pages in the navigation."""
    return toctree((f"/{page_of(folder, name)}" for name in names), hidden=True, caption=title)


def links():
    """Return the link of every class from a page of the book."""
    return {c.__name__: f"/{page_of('book', c.__name__)}.md" for c in classes()}


def encoding(cls):
    """Return the page of an encoding, a scaling or another declaration."""
    name, said = cls.__name__, sections(cls)
    parts = [f"# {name}\n\n{markdown(said[''], links(), formulas=False)}\n\n"]
    for heading in SHOWN:
        if heading in said:
            mathematical = heading in ("Formula", "Error unit")
            body = markdown(said[heading], links(), formulas=mathematical)
            parts.append(f"## {heading}\n\n{body}\n\n")
        if heading == "Formula":
            parts.append(pictures.of(cls))
    parts += [code(cls), settings(cls), models(cls), mistakes(encoding=name)]
    parts += [properties(cls), golden(encoding=name)]
    parts.append(
        "## Reference\n\n```{eval-rst}\n"
        f".. autoclass:: {cls.__module__.partition('.')[0]}.{name}\n   :members:\n"
        "   :inherited-members:\n```\n"
    )
    return "".join(parts)


def code(cls):
    """Return the code that computes an encoding, and the formula that it is compared with."""
    path = file_of(cls)
    body = "## Code\n\n"
    body += f"From [{path}](/source/{path}.md), without the docstring, the checks of arguments and "
    body += "the bounds of errors. "
    bases = [c for c in cls.__mro__[1:] if c.__module__.startswith("posenc_ref.")]
    near = {file_of(c): c.__name__ for c in bases if c.__name__ not in ("Value", "Encoding")}
    if near:
        named = [f"[`{name}`](/source/{file}.md)" for file, name in near.items()]
        body += f"It inherits from {', '.join(named)}.\n\n"
    body = body.rstrip() + "\n\n" + fenced(without_checks(definition(cls)), "python")
    entry = next((entry for entry in entries() if entry.encoding is cls), None)
    if entry is not None:
        where = file_of(inspect.getmodule(entry.exact))
        title = "The same formula for one pair of positions, in 50 digits"
        title = title if cls.family in ("bias", "score") else "The same formula in 50 digits"
        text = f"Written from the source on its own ([{where}](/source/{where}.md)); the tests "
        text += "compare the class with it.\n\n"
        body += folded(title, text + fenced(definition(entry.exact), "python"))
    return body


def without_checks(text):
    """Return the source of a class without docstrings, checks and bounds of errors."""
    tree = ast.parse(text)
    (node,) = tree.body
    lines, dropped = text.splitlines(), set()
    for one in ast.walk(node):
        if isinstance(one, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(one):
            first = one.body[0]
            if len(one.body) > 1:
                dropped |= set(range(first.lineno, first.end_lineno + 1))
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and (one.name in ASIDE or "truth" in one.name.lower()):
            begin = min([one.lineno, *(d.lineno for d in one.decorator_list)])
            dropped |= set(range(begin, one.end_lineno + 1))
    kept, blank = [], True
    for number, line in enumerate(lines, 1):
        if number in dropped or (not line.strip() and blank):
            continue
        blank = not line.strip()
        kept.append(line)
    return "\n".join(kept)


def settings(cls):
    """Return how the encoding is declared."""
    body = fenced("\n\n".join(explain(cls.__name__).split("\n\n")[:2]), "text")
    return f"## Declaration\n\n{body}"


def models(cls):
    """Return the presets with the encoding, and the settings in which they differ."""
    using = uses().get(cls.__name__, {})
    if not using:
        return ""
    names = ", ".join(link_to("models", name, code=False) for name in using)
    body = "## Models\n\n"
    if len(using) > 12:
        body += folded(f"{len(using)} presets", f"{names}.\n")
    else:
        body += f"Presets: {names}.\n\n"
    found = defaultdict(lambda: defaultdict(list))
    for name, values in using.items():
        for value in values:
            for field, given in value.to_dict().items():
                if field not in (value.kind, "scaling") and not isinstance(given, list | dict):
                    found[field][given].append(name)
    rows = [
        (f"`{field}`", f"`{given!r}`", listed(dict.fromkeys(where), 5))
        for field, by in found.items()
        if len(by) > 1
        for given, where in sorted(by.items(), key=lambda item: -len(item[1]))
    ]
    if rows:
        title = f"Settings that differ between these models ({len(rows)} values)"
        body += folded(title, table(("setting", "value", "models"), rows))
    return body


def mistakes(**which):
    """Return the mistakes that reports name, with wrong implementations of the corpus."""
    found = defaultdict(list)
    for case in wrong(**which):
        found[case.expected[0]].append(case)
    if not found:
        return ""
    rows = [
        (
            f"[`{name}`](/{page_of('codes', name)}.md)",
            CODES[name].meaning,
            f"{cases[0].why}",
            len(cases),
        )
        for name, cases in sorted(found.items(), key=lambda item: -len(item[1]))
    ]
    total = sum(map(len, found.values()))
    text = f"## Mistakes that check names\n\nThe corpus has {total} wrong implementations with "
    text += "this declaration; the first of each code is described.\n\n"
    if "surface" in which:
        text = text.replace("this declaration", "this surface")
    return text + table(("code", "meaning", "for example", "implementations"), rows)


def properties(cls):
    """Return the declared properties, and the worst scores against the 50 digits."""
    entry = next((entry for entry in entries() if entry.encoding is cls), None)
    if entry is None:
        return ""
    known = meanings(entry)
    rows = []
    for what, but in declared(entry).items():
        text = markdown(known[what], {}, formulas=True) + (
            f"; not in the example {but}" if but else ""
        )
        rows.append(f"`{what}`\n: {text}\n")
    body = "## Properties\n\n" + ("\n".join(rows) or "None declared.\n") + "\n"
    for label, text in worst().get(cls.__name__, []):
        if label == "Worst scores":
            unit = "[units](/judging.md#the-unit)"
            body += f"Worst errors of the class against 50 digits, in {unit}: {text}.\n\n"
    return body


def golden(**which):
    """Return the golden vectors."""
    rows = []
    for (surface_name, name), files in vectors().items():
        if (
            which.get("encoding", name) == name
            and which.get("surface", surface_name) == surface_name
        ):
            for file, number in files.items():
                rows.append((f"`{surface_name}`", f"`{name}`" if name else "", f"`{file}`", number))
    if not rows:
        return ""
    head = ("surface", "encoding", "file in `conformance/vectors/v0`", "cases")
    return "## Golden vectors\n\n" + table(head, rows)


def surface(row):
    """Return the page of a surface."""
    given = " --encoding @encoding.json" if row.needs_encoding else ""
    parts = [
        f"# Surface {row.name}\n\n{fenced(row.call, 'python')}",
        f"`posenc explain {row.name}` prints:\n\n{fenced(explain(row.name), 'text')}",
        fenced(f"posenc check file.py:function --surface {row.name}{given}", "sh"),
    ]
    can = [c for c in classes() if getattr(c, "family", None) in row.families]
    if can:
        names = [link_to("book", c.__name__) for c in can]
        parts.append(f"## Encodings\n\n{', '.join(names)}.\n\n")
    parts += [mistakes(surface=row.name), golden(surface=row.name)]
    return "".join(parts)
