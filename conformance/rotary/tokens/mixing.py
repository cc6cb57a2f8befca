"""Find on which other tokens the result of a token depends, by changing x of one token."""

from __future__ import annotations

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run

#: Sizes (B, H, S), and the tokens whose x is changed, one in each call.
_CALLS = (
    ((3, 4, 5), ((1, 1, 2), (0, 0, 1), (1, 1, 4))),
    ((2, 3, 7), ((0, 1, 3), (0, 1, 6), (1, 0, 2))),
)
#: The names of the axes of tokens, for several.
_AXES = ("batch rows", "heads", "tokens")


def diagnose(run: Run, encoding: Rotary) -> bool:
    """Report that a result depends on x of other tokens; return whether it does."""
    if run.settings.reduced:
        return False
    axes, behind, where = [], [], ""
    for n, (size, tokens) in enumerate(_CALLS):
        x = run.random((*size, encoding.head_dim), 90 + n)
        at = (
            np.arange(size[2])
            if encoding.num_axes == 1
            else np.broadcast_to(np.arange(size[2]), (encoding.num_axes, size[0], size[2]))
        )
        found: set[int] = set()
        try:
            before = run.driver.apply(x, at)
            for token in tokens:
                other = x.copy()
                other[token] = -x[token]
                changed = np.argwhere((run.driver.apply(other, at) != before).any(axis=-1))
                away = changed - np.array(token)
                found |= {int(axis) for axis in np.flatnonzero(away.any(axis=0))}
                behind += away[:, 2].tolist()
                apart = changed[away.any(axis=1)]
                if apart.size and not where:
                    r, h, s = apart[0]
                    where = f"B, H, S = {size}: changing x of row {token[0]}, head {token[1]}, "
                    where += f"token {token[2]} changes the result of row {r}, head {h}, token {s}"
        except (Malformed, Refused):
            return False
        axes.append(found)
    if not axes[0] or axes[0] != axes[1]:
        return False
    step = {int(d) for d in behind if d}
    names = [_AXES[axis] for axis in sorted(axes[0])]
    if axes[0] == {2} and (step <= {1} or step <= {-1}):
        words = "the token before" if step == {1} else "the token after"
    elif 2 in axes[0]:
        order = "earlier " if min(step) > 0 else "later " if max(step) < 0 else ""
        words = f"other {' and '.join(names[:-1])} and " if names[:-1] else ""
        words += f"{order or 'other '}tokens"
    else:
        words = f"other {' and '.join(names)}"
    run.add(
        "not-linear",
        f"the result of a token depends on x of {words}",
        where,
        remedy="Compute the result of every token from its own x and position only.",
        by=None,
    )
    return True
