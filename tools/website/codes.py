"""A page for every code of a finding."""

from posenc_ref.conformance.harness.codes import CODES

from .corpus import cases, declaration, examples, origin, source
from .facts import link_to, page_of, wrong
from .home import section_named, toctree
from .text import fenced, file_of, table


def made():
    """Return the pages: name -> text."""
    found = {page_of("codes", name): page(code) for name, code in CODES.items()}
    own = section_named("codes")
    text = f"# {own.title}\n\n{own.purpose}\n\n"
    groups = {}
    for code in CODES.values():
        groups.setdefault(code.group, []).append(code)
    for title, members in groups.items():
        rows = [(link_to("codes", c.name), c.meaning) for c in members]
        text += f"## {title}\n\n" + table(("code", "meaning"), rows)
        text += toctree(
            (f"/{page_of('codes', c.name)}" for c in members), hidden=True, caption=title
        )
    text += "## How causes are found\n\n" + toctree(f"/{page}" for page in own.pages)
    return found | {"codes/index": text}


def page(code):
    """Return the page of a code."""
    parts = [f"# {code.name}\n\n{code.meaning}\n\n"]
    parts.append(f"What triggers it\n: {code.trigger}\n\nWhat to do\n: {code.remedy}\n\n")
    parts.append(example(code.name))
    return "".join(parts) + others(code.name)


def example(name):
    """Return a short wrong implementation and its report."""
    recorded = examples().get(name)
    if recorded is None:
        return ""
    case = cases()[recorded["case"]]
    path = file_of(case.thing)
    text = f"## An example\n\n{case.why} {origin(case)}\n\n" + fenced(source(case), "python")
    text += f"The [whole file](/source/{path}.md) has the imports. It is judged on the surface "
    text += f"{link_to('surfaces', case.surface)}"
    if case.encoding is None:
        text += ".\n\n"
    else:
        text += " against this declaration:\n\n" + fenced(declaration(case.encoding), "text")
    return text + "## Its report\n\n" + fenced(recorded["report"], "text")


def others(name):
    """Return the other implementations of the corpus with this code."""
    shown = examples().get(name, {}).get("case")
    rows = [
        (case.why, link_to("surfaces", case.surface), origin(case))
        for case in wrong(code=name)
        if case.name != shown
    ]
    if not rows:
        return ""
    return "## Other implementations with it\n\n" + table(("mistake", "surface", "source"), rows)
