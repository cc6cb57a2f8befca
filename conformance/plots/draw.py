"""Draw pictures with matplotlib, in colours that the colour-blind and a printer tell apart."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

from .picture import Picture

#: The colours of Okabe and Ito, without yellow, each with a style of line: black and white will do.
_STYLES = (
    ("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"),
    ("#000000", (0, (5, 1))), ("#56B4E9", (0, (1, 1))), ("#E69F00", (0, (3, 1, 1, 1))),
)  # fmt: skip
#: Text of SVG stays text: paths would be larger, and a search would not find it.
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "posenc",
    "font.size": 9,
    "axes.titlesize": 10,
    "figure.dpi": 150,
}


def drawn(rows: Sequence[tuple[str, Sequence[Picture]]], format: str = "svg") -> bytes:
    """Return a file with one row of panels for each title.

    Parameters
    ----------
    rows : sequence of (title, pictures)
        The panels of each row, from left to right.
    format : str
        "svg", "png", "pdf" or another format of matplotlib.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        matplotlib does not know the format.
    """
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('matplotlib draws pictures; pip install "posenc-ref[plots]"') from error
    wide = max(len(panels) for _, panels in rows)
    with mpl.rc_context(_SETTINGS):
        figure: Any = plt.figure(
            figsize=(max(4.6 * wide, 6.0), 4.2 * len(rows)), layout="constrained"
        )
        try:
            for part, (title, panels) in zip(
                np.atleast_1d(figure.subfigures(len(rows), 1)), rows, strict=True
            ):
                part.suptitle(textwrap.fill(title, 55 * len(panels)), fontsize=11)
                for panel, picture in zip(
                    np.atleast_1d(part.subplots(1, len(panels))), panels, strict=True
                ):
                    _draw(panel, picture, part)
            made = io.BytesIO()
            metadata = {"Date": None} if format == "svg" else None
            figure.savefig(made, format=format, metadata=metadata)
        finally:
            plt.close(figure)
    return made.getvalue()


def _draw(panel: Any, picture: Picture, figure: Any) -> None:
    panel.set(title=picture.title, xlabel=picture.x_label, ylabel=picture.y_label)
    if picture.cells is not None:
        _draw_cells(panel, picture, figure)
        return
    panel.set(xscale=picture.scale[0], yscale=picture.scale[1])
    for line, (colour, style) in zip(picture.lines, cycle(_STYLES), strict=False):
        kind = "steps-post" if picture.steps else "default"
        few = "o" if line.x.size <= 16 else ""
        panel.plot(
            line.x, line.y, color=colour, linestyle=style, drawstyle=kind, marker=few,
            markersize=3, linewidth=1.4, label=line.label,
        )  # fmt: skip
    for (label, height), style in zip(picture.marks, cycle((":", "--")), strict=False):
        number = f"{height:.0f}" if height >= 1 else f"{height:.3g}"
        panel.axhline(height, color="0.35", linestyle=style, linewidth=1, label=f"{label} {number}")
    panel.grid(color="0.9", linewidth=0.6)
    if len(picture.lines) + len(picture.marks) > 1:
        # Long names, as of functions, would hide the lines.
        long = max((len(line.label) for line in picture.lines), default=0) > 24
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)} if long else {}
        panel.legend(fontsize="small", **below)


def _draw_cells(panel: Any, picture: Picture, figure: Any) -> None:
    given: Any = picture.cells
    cells = np.ma.masked_invalid(given)
    low, high = (float(cells.min()), float(cells.max())) if cells.count() else (0.0, 1.0)
    signed = low < 0 < high
    most = max(-low, high)
    limits = {"vmin": -most, "vmax": most} if signed else {"vmin": low, "vmax": high}
    # PuOr and cividis keep their order for the colour-blind; PuOr is white at zero.
    image = panel.imshow(
        cells, cmap="PuOr" if signed else "cividis", aspect="auto", interpolation="nearest",
        **limits,
    )  # fmt: skip
    figure.colorbar(image, ax=panel, label=picture.cells_label, shrink=0.85)
