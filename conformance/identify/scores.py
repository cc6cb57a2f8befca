"""Identify the encoding, the terms and the scale of logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import ALiBi, Learned, XPos
from posenc_ref.accuracy import FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.bias.cases import Ruler
from posenc_ref.conformance.check import make_run
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Reach
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.harness.signatures import SURFACES, load
from posenc_ref.conformance.phases.measure import Measured, channel_pairs, unwrap

from . import relative_terms
from .card import Card, Unidentified, require_same
from .fit.measurement import Factor
from .images.decomposed import decomposed
from .length import Lengths
from .logits import Logits, Terms, Whole, take_apart
from .measure import reach, refined, xpos_rates
from .pairs.structure import structures
from .rotary import UNKNOWN_LAYOUT, closest_fit, describe_pairs, explain, numbers

#: Rows to measure of a table added to embeddings; each takes one call per channel.
_ROWS = 2**10
#: The lengths of calls that show whether queries are ahead of keys, and by how many lengths.
_SHIFTED, _TURNED = (5, 12), 4
#: The most tokens of a call whose terms are measured for each pair of channels.
_MOST_APART = 64
_TERMS = {
    "content": "content-content (q . k)",
    "query": "content-position (q and a position)",
    "key": "position-content (a position and k)",
    "bias": "position-position (a bias)",
}


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(q, k) -> logits``."""
    measure(run, card, Logits(run, run.settings.head_dim or 0))


def measure(run: Run, card: Card, logits: Logits) -> None:
    """Fill in the identity card of a function whose logits are known."""
    logits.learn()
    few = min(logits.tokens, 5) if not logits.whole else logits.tokens
    first = logits.bias(few, few)
    require_same(first, logits.bias(few, few))
    if np.isnan(first).any():
        raise Unidentified("the logits of zero inputs contain NaN")
    whole = Whole.of(logits) if logits.whole else None
    if whole is not None:
        _of_grid(run, logits, whole, card)
        return
    if logits.tokens > _MOST_APART:
        raise Unidentified(
            f"only {logits.tokens} tokens are accepted, and more than q . k, terms of the query "
            "and a bias form the logits"
        )
    terms = take_apart(logits)
    later = np.triu(np.ones(terms.visible.shape, bool), 1)
    if not terms.visible[later].any():
        card.facts["mask"] = "later keys are masked"
    present = [name for name in _TERMS if getattr(terms, name).any()]
    card.facts["terms"] = ", ".join(_TERMS[name] for name in present) or "none"
    if not terms.bilinear:
        raise Unidentified("logits are not linear in q and k: positions depend on content (CoPE)")
    if "content" not in present:
        raise Unidentified("the logits contain no q.k term")
    if np.abs(terms.content[:1] - terms.content).max() > terms.noise["content"]:
        card.unknown.append("the q.k term differs between heads: the card describes head 0")
    if terms.same("content", "all"):
        _unmoved(run, logits, terms, present, card)
        return
    card.fill(_rotary, run, logits, terms)
    if "bias" in present:
        _part(run, card, "bias", logits.bias)
        card.facts["bias"] = f"added to the rotated q.k: {card.encoding!r}"
        card.encoding = None
        raise Unidentified("no single encoding describes logits with both a rotation and a bias")


# -- whole grids ---------------------------------------------------------------------------------


def _of_grid(run: Run, logits: Logits, whole: Whole, card: Card) -> None:
    """Identify logits of the patches of one image: DecomposedRelative, or a bias."""
    if not whole.scale:
        raise Unidentified("the logits contain no q.k term")
    _scale(run, card, whole.scale, logits.dim)
    present = [name for name in ("query", "bias") if getattr(whole, name).any()]
    card.facts["terms"] = ", ".join(_TERMS[name] for name in ("content", *present))
    if present == ["bias"]:
        _part(run, card, "bias", logits.bias)
    elif present == ["query"] and not np.ptp(whole.query, axis=1).any():
        card.encoding = found = decomposed(whole.query[:, 0], run.dtype, Ruler.of(run))
        if found is None:
            raise Unidentified("no tables of rows and columns give the terms of the query")
        card.facts["grid"] = "{} x {} patches, row by row".format(*found.grid)
        card.relations += ("a constant vector may move from one table to the other",)
    else:
        raise Unidentified("no known encoding of a whole grid has these terms")


# -- content terms independent of positions ----------------------------------------------------


def _unmoved(run: Run, logits: Logits, terms: Terms, present: list[str], card: Card) -> None:
    content = terms.content[0][terms.visible][0]
    s = float(np.median(np.diagonal(content)))
    if np.abs(content - s * np.eye(logits.dim)).max() > terms.noise["content"]:
        raise Unidentified("the content term is no multiple of q . k: the function projects q or k")
    _scale(run, card, s, logits.dim)
    if present == ["content"]:
        raise Unidentified("positions make no difference: the logits are q . k without an encoding")
    if present == ["content", "bias"]:
        logits.more_heads()
        _part(run, card, "bias", logits.bias)
        _inside(run, card, s, logits)
    elif terms.same("query", "queries") and terms.same("key", "keys"):
        _added(run, card, logits, s)
    else:
        _relative(logits, card, terms, s)


def _inside(run: Run, card: Card, s: float, logits: Logits) -> None:
    """Set ``bias_inside_scale`` of ALiBi if the softmax scale multiplies the bias as well."""
    e = card.encoding
    if not isinstance(e, ALiBi) or s == 1.0:
        return
    got, expected = logits.bias(5, 5), e.bias(range(5), range(5))
    seen = np.tril(np.ones((5, 5), bool), -1)
    if not Ruler(run.coarse).differ(got, s * expected, expected)[:, seen].any():
        card.encoding = e.replace(bias_inside_scale=True)
        card.facts["recipe"] = "ALiBi's slopes times the softmax scale on q . k"


def _added(run: Run, card: Card, logits: Logits, s: float) -> None:
    """Identify a table that is added to q and k."""
    every, none = np.arange(logits.dim), np.full(logits.dim, -1)

    def table(positions: np.ndarray) -> np.ndarray:
        if positions.dtype.kind not in "iu" or positions.min() < 0:
            raise ValueError("positions must be integers >= 0: in fn(q, k), token i has position i")
        length = int(positions.max()) + 1
        rows = logits.last(every, none, length) - logits.last_bias(length)
        return np.asarray(rows[:, 0, positions].T / (s * logits.size))

    card.facts["positions"] = "the row of a table for each position is added to q and k"
    _part(run, card, "table", table, max_position=min(_ROWS, logits.farthest))
    if isinstance(card.encoding, Learned):
        card.unknown.append("rows are measured from logits, so they are exact only to rounding")


def _part(run: Run, card: Card, surface: str, fn: Callable[..., Any], **options: Any) -> None:
    """Identify a part of the logits as a function of another surface."""

    def driven(*args: Any) -> Any:
        try:
            return fn(*args)
        except Refused as error:
            raise error.cause from None  # the function's own error

    part = make_run(driven, None, surface, dtype=run.coarse, name=surface, **options)
    facts, card.encoding = dict(card.facts), None
    try:
        card.fill(load(SURFACES[surface].identify), part)
    except (Refused, Malformed) as error:
        card.unknown.append(f"the {surface}: a call failed: {error}")
    card.facts |= facts  # keep the mask of the logits
    card.limits += [text for text in part.report.limits if text not in card.limits]


def _relative(logits: Logits, card: Card, terms: Terms, s: float) -> None:
    """Identify relative terms, such as those of Shaw, Transformer-XL and DeBERTa."""
    words = {"all": "the same everywhere", "offsets": "a function of key minus query"}
    shapes = {
        name: next((along for along in words if terms.same(name, along)), "")
        for name in ("query", "key", "bias") if getattr(terms, name).any()
    }  # fmt: skip
    card.facts |= {
        _TERMS[name].partition(" (")[0]: words.get(
            shape, "differs between elements with the same key minus query"
        )
        for name, shape in shapes.items()
    }
    card.encoding = relative_terms.found(logits, s, shapes)
    if card.encoding is not None:
        return
    known = {
        "Shaw: a vector for each offset, added to keys": {"query": "offsets"},
        "Transformer-XL: offsets and two biases":
            {"query": "offsets", "key": "all", "bias": "offsets"},
        "DeBERTa: disentangled attention": {"query": "offsets", "key": "offsets"},
    }  # fmt: skip
    for name, expected in known.items():
        if shapes == expected:
            raise Unidentified(f"logits have the terms of {name}, but no tables of it give them")
    raise Unidentified("no known encoding has these terms")


# -- content terms rotated by positions --------------------------------------------------------


class _Distances(Reach):
    """The cos and sin of every pair, by the distance of a key from the last query."""

    def __init__(self, run: Run, logits: Logits, measured: Measured, scale: float) -> None:
        super().__init__(run, mode="any")
        self._logits, self._measured, self._scale = logits, measured, scale

    def touch(self, position: int) -> None:
        """Call the function with a key at distance ``position`` from the query."""
        self.tables(np.array([position]))

    def tables(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return cos and sin of every pair: the first row of its 2 x 2 matrix."""
        if not self.run.settings.allows(int(positions.max())):
            raise Refused(ValueError("the distance is above max_position"))
        a, b = (np.array([getattr(p, c) for p in self._measured.pairs]) for c in "ab")
        bias = self._logits.bias_at(positions)[0]
        size = self._scale * self._logits.size**2
        rows = (self._logits.at(a, channel, positions)[:, 0] - bias for channel in (a, b))
        cos, sin = (y.T / size for y in rows)
        return cos, sin


def _rotary(run: Run, logits: Logits, terms: Terms, card: Card) -> None:
    if not terms.same("content", "offsets"):
        raise Unidentified(
            "the q.k term depends on more than key minus query: positions of q and k start at "
            "different numbers, or q and k are not rotated by their positions"
        )
    card.facts["offset"] = "the q.k term depends on key minus query alone"
    i, j = np.nonzero(terms.visible)
    blocks = terms.content[0][i, j]
    own = np.diagonal(blocks[i == j][0]).copy()
    own[own == 0] = 1.0
    matrices = blocks / own[:, None]
    measured = Measured(j - i, matrices, *channel_pairs(matrices))
    if not measured.pairs:
        raise Unidentified("channels of q and k are not combined in pairs: this is not a rotation")
    turned = float(np.median([own[p.a] for p in measured.pairs]))
    if not logits.at_end():
        card.facts["queries"] = "a single query does not have the position of the last key"
        raise Unidentified("frequencies are measured only if a single query has the last position")
    most = run.settings.up_to(logits.farthest)
    run = replace(run, settings=replace(run.settings, max_position=most))
    access = _Distances(run, logits, measured, turned)
    phases = unwrap(access.tables, run.coarse)
    decay = None if phases.linear else xpos_rates(access.tables, access, run.coarse)
    lengths = Lengths(run, access, access.tables, phases, card)
    phases = refined(access.tables, phases, reach(access), run.coarse)
    # Rotated channels give the scale times m squared; channels passed through give the scale.
    passed = [own[c] for c in measured.passed]
    m = float(np.sqrt(turned / np.median(passed))) if passed else 1.0
    error = FACTOR_SLACK / 8 if passed else np.inf
    factor = Factor(m, error, 8 * ROUNDOFF[run.coarse])
    numbers(card, phases, factor, run.coarse)
    card.facts.pop("origin", None)
    every = structures(logits.dim, measured)
    describe_pairs(card, measured, every)
    if not every:
        raise Unidentified(UNKNOWN_LAYOUT)
    if decay is None:
        lengths.explain(card, *explain(run, card, every, phases, factor, phases.sign))
    else:
        fitted = closest_fit(every[0].measurement(run.coarse, phases, factor, phases.sign))
        if fitted.named and fitted.scaling is None:
            layout, scale_base = every[0].fields["layout"], decay[1] or XPos.scale_base
            card.encoding = XPos(logits.dim, layout=layout, base=fitted.base, scale_base=scale_base)
    ahead, size = _ahead(logits, card.frequencies, measured)
    if ahead:
        card.facts["queries"] = f"queries are rotated {ahead} further than keys of the same token"
    _amplitude(run, card, size if ahead else turned, logits.dim, known=bool(passed))
    card.unknown.append(
        "logits do not show the origin of positions, the output layout, and whether a factor "
        "multiplies q or k"
    )


def _ahead(logits: Logits, w: np.ndarray, measured: Measured) -> tuple[str, float]:
    """Return how many positions queries are ahead of their keys, and the scale of q . k."""
    steps, size = [], 0.0
    a, b = (np.array([getattr(p, c) for p in measured.pairs]) for c in "ab")
    for n in _SHIFTED:
        try:
            bias = logits.last_bias(n)[0, -1]
            cos, sin = (logits.last(a, other, n)[:, 0, -1] - bias for other in (a, b))
        except (Refused, Malformed):
            return "", 0.0
        tried = np.arange(-_TURNED * n, _TURNED * n + 1)
        off = np.abs(np.exp(1j * np.outer(tried, w)) - (cos + 1j * sin) / np.hypot(cos, sin))
        best = int(off.max(axis=1).argmin())
        if off[best].max() > FACTOR_SLACK:
            return "", 0.0
        steps.append(int(tried[best]))
        size = float(np.median(np.hypot(cos, sin))) / logits.size**2
    if not any(steps):
        return "", size
    each = {s / n for s, n in zip(steps, _SHIFTED, strict=True)}
    if len(each) == 1:
        times = each.pop()
        what = "as many positions as the call has tokens"
        return what if times == 1 else f"{times:g} times {what}", size
    return (f"{steps[0]} positions", size) if len(set(steps)) == 1 else ("", size)


def _amplitude(run: Run, card: Card, turned: float, dim: int, *, known: bool) -> None:
    """Fill in the softmax scale, without the attention factor m squared."""
    e: Any = card.encoding
    m = abs(e.attention_factor()) if hasattr(e, "attention_factor") else 1.0
    own = dim**-0.5
    slack = FACTOR_SLACK / 8 + 8 * ROUNDOFF[run.coarse]
    scaling: Any = getattr(e, "scaling", None)
    plain, multiplied = (abs(turned / s - 1) <= slack for s in (own, m * m * own))
    if not known and plain and not multiplied and hasattr(scaling, "attention_factor"):
        card.encoding, m = e.replace(scaling=scaling.replace(attention_factor=1.0)), 1.0
    if m != 1.0 and not known:
        card.relations += (
            f"logits show only scale * m**2 = {turned:.6g} (m: attention factor): scale "
            f"{turned / (m * m):.6g} with m = {m:.6g} gives the same logits as scale {turned:.6g} "
            "with m = 1",
        )
    _scale(run, card, turned / (m * m), dim)


def _scale(run: Run, card: Card, s: float, dim: int) -> None:
    """Fill in the softmax scale, as a usual or short number if possible."""
    slack = FACTOR_SLACK / 8 + 8 * ROUNDOFF[run.coarse]
    known = {f"1/sqrt({dim})": dim**-0.5, "1": 1.0, f"1/{dim}": 1 / dim, "1/2": 0.5}
    for n in (2, 3):  # DeBERTa's, with as many terms
        known[f"1/sqrt({n} * {dim})"] = (n * dim) ** -0.5
    near = [(name, v) for name, v in known.items() if abs(s / v - 1) <= slack]
    card.softmax_scale = near[0][1] if near else Factor(s, 0.0, 8 * ROUNDOFF[run.coarse]).short
    named = f" = {near[0][0]}" if near else f", where 1/sqrt({dim}) would be {dim**-0.5:.6g}"
    card.facts["scale"] = f"{card.softmax_scale:.6g}{'' if card.softmax_scale == 1.0 else named}"
