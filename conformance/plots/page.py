"""Recorded reports as one HTML file, with their pictures inside."""

from __future__ import annotations

import html
from collections.abc import Sequence

from posenc_ref.conformance.surveys.ndjson import Recorded
from posenc_ref.conformance.surveys.ndjson_markdown import EMOJI, markdown

from .draw import drawn
from .reports import errors, measured

#: The most functions in one picture.
MOST = 7
#: The sign of each verdict: fonts without emoji have these, and a printer shows them.
_SIGNS = {
    "conforms": "✓", "deviates": "✗", "inconclusive": "?", "error": "!", "skipped": "–",
    "expected": "(✓)", "unexpected": "✗",
}  # fmt: skip
_HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Positional encodings</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: auto; padding: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
pre { overflow-x: auto; padding: .6rem; border: 1px solid; }
code { overflow-wrap: anywhere; }
figure { margin: 1rem 0; background: #fff; color: #000; }
figure svg { max-width: 100%; height: auto; }
</style>
</head>
<body>
<main>
"""


def page(recorded: Sequence[Recorded]) -> str:
    """Return a page with the table, findings, limits and versions, and the errors by position.

    Raises
    ------
    ImportError
        markdown-it-py or matplotlib is not installed.
    """
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise ImportError(
            'markdown-it-py makes HTML of a report; pip install "posenc-ref[plots]"'
        ) from error
    # Foreign text in the Markdown is escaped; the only tag that it has is <sub>.
    text = MarkdownIt("commonmark").enable("table").render(markdown(recorded))
    for verdict, emoji in EMOJI.items():
        text = text.replace(f"<td>{emoji}</td>", f"<td>{_SIGNS[verdict]}</td>")
    text = text.replace("<table>", '<div class="wide" tabindex="0"><table>')
    text = text.replace("</table>", "</table></div>")
    return f"{_HEAD}{text}{''.join(_figures(recorded))}</main>\n</body>\n</html>\n"


def _figures(recorded: Sequence[Recorded]) -> list[str]:
    """Return pictures of the errors by position, of :data:`MOST` functions each."""
    every = list(measured(recorded).items())
    found = []
    for start in range(0, len(every), MOST):
        some = dict(every[start : start + MOST])
        svg = drawn([("", [errors(some)])]).decode()
        says = f"Error by position of {', '.join(some)}"
        inside = svg[svg.index("<svg") :]
        found.append(
            f'<figure role="img" aria-label="{html.escape(says, quote=True)}">{inside}</figure>\n'
        )
    return found
