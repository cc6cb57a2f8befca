"""A plot of a plan, with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from posenc_ref.conformance.harness.whole import write_whole

from .plan import INSIDE, NEW, SEEN, Plan

_COLOURS = {SEEN: "tab:green", INSIDE: "tab:blue", NEW: "tab:red"}
_LABELS = {
    SEEN: "turned at least once in training",
    INSIDE: "within the angles of training",
    NEW: "angles never seen in training",
}


def plot(plans: Sequence[tuple[str, Plan]], path: Path) -> None:
    """Write the wavelength of every pair to a file, one panel for each plan.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        The file exists, or matplotlib does not know the ending of its name.
    """
    if path.exists():
        raise ValueError(f"--plot: {path} exists already; give the name of a new file")
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'matplotlib draws plots; pip install "posenc-ref[plots]", or leave --plot out'
        ) from error
    figure, panels = plt.subplots(
        len(plans), 1, figsize=(8, 4.5 * len(plans)), squeeze=False, layout="constrained"
    )
    for panel, (name, plan) in zip(panels[:, 0], plans, strict=True):
        index = [p.pair for p in plan.pairs]
        trained = [p.trained_wavelength for p in plan.pairs]
        panel.plot(index, trained, color="0.6", label="wavelength in training")
        for state, colour in _COLOURS.items():
            own = [p for p in plan.pairs if p.state == state]
            if own:
                at, waves = [p.pair for p in own], [p.wavelength for p in own]
                panel.scatter(at, waves, s=14, color=colour, label=_LABELS[state], zorder=3)
        for length, style, word in ((plan.trained, ":", "trained"), (plan.length, "--", "planned")):
            panel.axhline(length, color="black", linestyle=style, label=f"{word} length {length}")
        panel.set(yscale="log", xlabel="pair", ylabel="wavelength, tokens", title=name)
        panel.legend(fontsize="small")
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, format=path.suffix[1:] or None)
    finally:
        plt.close(figure)
    write_whole(path, drawn.getvalue())
