"""What the site adds to Sphinx: formulas as MathML, their font, and small repairs of pages."""

from pathlib import Path

from docutils import nodes

from .docstrings import LITERAL, MATHEMATICAL, TAIL, formula
from .formula import mathml

#: What formulas may show: ASCII, italic and Greek letters, and the operators of mathml.py.
DRAWN = (
    [range(0x20, 0x7F), range(0x370, 0x400), range(0x1D434, 0x1D468), range(0x1D6E2, 0x1D71C)],
    "\u210e·−…‥′″∑√⌊⌋⌈⌉≤≥|\u2061\u2062",
)


def setup(app):
    """Register the extension."""
    app.add_role("formula", formula_role)
    app.connect("autodoc-process-docstring", repaired)
    app.connect("html-page-context", placed)
    app.connect("build-finished", font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def formula_role(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Return the node of a formula; a long one has a line of its own."""
    source, _, tail = text.partition(TAIL)
    shown = mathml(source)
    if len(source) > 44:
        # The keyboard scrolls it where the window is narrow.
        shown = f'<span class="long-formula" tabindex="0">{shown}{tail}</span>'
        tail = ""
    return [nodes.raw("", shown + tail, format="html")], []


def repaired(app, what, name, thing, options, lines):
    """Set the formulas of a docstring as mathematics, and keep bars from being substitutions."""
    inside = False
    for number, line in enumerate(lines):
        if line and not line[0].isspace():
            inside = line.startswith(MATHEMATICAL)
        texts = LITERAL.split(line)  # text, literal, text, ...
        for at, part in enumerate(texts):
            if at % 2 == 0:
                texts[at] = part.replace("|", "\\|")
            else:
                texts[at] = formula(part, ":formula:") if inside else f"``{part}``"
        lines[number] = "".join(texts)


def placed(app, name, template, context, doctree):
    """Say above the page of a model that it belongs to the models: the sidebar has none."""
    if name.startswith("models/") and name != "models/index":
        context["parents"] = [{"title": "Models", "link": "index.html"}]


def font(app, error):
    """Write the font of formulas: the letters and signs of STIX Two Math that formulas use."""
    if error is not None or app.builder.format != "html":
        return
    import ziamath
    from fontTools import subset

    ranges, signs = DRAWN
    options = subset.Options(flavor="woff", layout_features=["*"], notdef_outline=True)
    whole = Path(ziamath.__file__).with_name("fonts") / "STIXTwoMath-Regular.ttf"
    drawn = subset.load_font(str(whole), options)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=[c for part in ranges for c in part] + [ord(c) for c in signs])
    cut.subset(drawn)
    subset.save_font(drawn, str(Path(app.outdir) / "_static/stix-two-math.woff"), options)
