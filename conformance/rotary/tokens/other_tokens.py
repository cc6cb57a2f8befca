"""Find results that are made with x of another batch row, head or token than their own.

A result channel is a sum of two terms, cos times one channel of the pair and sin times the other.
x has another number in every token, so that each term shows the token that its x is taken from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.match import explains
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.rule import DECLARED, Rule, find_rule
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.rotary.turned import CALLS, FURTHER, Turned, calls_of
from posenc_ref.conformance.rotary.wrong_rotations import ELEMENTS

#: The sizes (B, H, S) in which the sources are measured, and the first position. Farther positions
#: could enlarge a table that is kept, and so hide another mistake.
_CALLS = (((2, 3, 5), 1), ((4, 2, 3), 2), ((3, 4, 4), 1), ((3, 2, 1), 4), ((2, 5, 1), 3))
#: The largest x; the smallest one is its inverse, and the ratio of neighbours is constant.
_LARGEST = 8.0
#: A term shows its token if its cos or sin is at least this large, and in coarse results.
_LEAST, _LEAST_COARSE = 2.0**-12, 0.75
#: The most evenly spaced channels that are listed.
_LISTED = 4
#: The names of the axes of tokens, and of their number in two orders of all tokens.
_AXES = ("batch row", "head", "token", "token", "token")
#: The orders in which all tokens are counted, by the number of their axis.
_ORDERS = {3: (0, 1, 2), 4: (0, 2, 1)}


@dataclass(frozen=True)
class _Term:
    """The channels that results are written to, and the channels of x that a term takes."""

    out: np.ndarray
    of: np.ndarray


@dataclass(frozen=True)
class _Sources:
    """The tokens that the results of a call are made with."""

    call: Turned
    found: tuple[np.ndarray, ...]  #: of each term, (B, H, S, channels); -1: not known


@dataclass(frozen=True)
class _Taken:
    """The channels of a term that take x of another token, and the rules of the axes."""

    term: _Term
    which: np.ndarray  #: which of the term's channels
    rules: dict[int, Rule]


def diagnose(run: Run, encoding: Rotary) -> bool:
    """Report x of another token in the results; return whether it explains all calls."""
    if run.settings.reduced or run.settings.head_dim is None:
        return False
    terms = _terms(encoding)
    known: list[_Sources] = []
    for size, start in _CALLS:
        found = None
        for first in (start, 0):  # some functions count from 0
            try:
                found = _measured(run, encoding, terms, size, first + np.arange(size[2]))
            except Refused:
                continue
            except Malformed:
                return False
            break
        if found is None:
            return False
        known.append(found)
    if not any(_foreign(one).any() for one in known):
        return False
    taken = _taken(terms, known)
    if taken is None:
        return False
    mistake = Mistake(ELEMENTS, _words(taken), partial(_predicted, taken), _remedy(taken))
    calls = list(calls_of(run, encoding, (*CALLS, *FURTHER)))
    if not explains(run, calls, mistake):
        return False
    where = f"{_shown_by(terms, known)}; {len(calls)} further calls agree"
    run.add(mistake.code, mistake.message, where, remedy=mistake.remedy, by=None)
    return True


def _shown_by(terms: Sequence[_Term], known: Sequence[_Sources]) -> str:
    """Return the first result with x of another token, in words."""
    one = next(one for one in known if _foreign(one).any())
    b, h, s = np.argwhere(_foreign(one))[0]
    n = next(n for n, found in enumerate(one.found) if _other(found)[b, h, s].any())
    k = int(np.flatnonzero(_other(one.found[n])[b, h, s])[0])
    r, i, t = np.unravel_index(one.found[n][b, h, s, k], one.call.x.shape[:3])
    return (
        f"row {b}, head {h}, token {s}: channel {terms[n].out[k]} has channel {terms[n].of[k]} of "
        f"x of row {r}, head {i}, token {t}"
    )


def _terms(encoding: Rotary) -> list[_Term]:
    """Return the four terms of the pairs, and the channels that are passed through."""
    pairs, out = encoding.pairs(), encoding.output_pairs()
    turned = np.concatenate(out)
    still = np.setdiff1d(np.arange(encoding.head_dim), turned)
    every = [_Term(out[i], pairs[j]) for i in (0, 1) for j in (i, 1 - i)]
    return [*every, _Term(still, still)] if still.size else every


def _measured(
    run: Run,
    encoding: Rotary,
    terms: Sequence[_Term],
    size: tuple[int, int, int],
    at: np.ndarray,
) -> _Sources | None:
    """Return the tokens whose x the results of one size are made with.

    Return None if a result is no multiple of one token's x.
    """
    count = int(np.prod(size))
    least = _LEAST if run.coarse in ("float32", "float64") else _LEAST_COARSE
    each = np.stack([np.random.default_rng(c).permutation(count) for c in range(encoding.head_dim)])
    whole = run.driver.rounded(_LARGEST ** (2 * each.T / count - 1).reshape(*size, -1))
    call = Turned(encoding, whole, at)
    results: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
    found = []
    for term in terms:
        key = tuple(term.of.tolist())
        if key not in results:
            only = np.isin(np.arange(encoding.head_dim), term.of)
            x = np.where(only, whole, 0.0)
            ones = np.broadcast_to(np.where(only, 1.0, 0.0), x.shape)
            results[key] = run.driver.apply(x, at), apply_truth(encoding, ones, at).value
        y, factor = (np.broadcast_to(part, whole.shape)[..., term.out] for part in results[key])
        source = _nearest(whole[..., term.of], y, factor, least)
        if source is None:
            return None
        found.append(source)
    return _Sources(call, tuple(found))


def _nearest(x: np.ndarray, y: np.ndarray, factor: np.ndarray, least: float) -> np.ndarray | None:
    """Return the token (B, H, S, channels) of which each result is ``factor`` times x.

    Smaller factors than ``least`` show none.
    """
    shape, n = x.shape, x.shape[-1]
    given, result, by = (a.reshape(-1, n) for a in (x, y, factor))
    telling = np.abs(by) >= least
    off = np.abs(result / np.where(telling, by, 1.0) / given[:, None] - 1)
    source = np.where(telling, off.argmin(axis=0), -1)
    if not (off.min(axis=0) <= (_LARGEST ** (2 / len(given)) - 1) / 4)[telling].all():
        return None
    return np.asarray(source.reshape(shape))


def _other(found: np.ndarray) -> np.ndarray:
    """Return which results of a term (B, H, S, channels) take x of another token."""
    own = np.arange(np.prod(found.shape[:3])).reshape(*found.shape[:3], 1)
    return np.asarray((found >= 0) & (found != own))


def _foreign(one: _Sources) -> np.ndarray:
    """Return which tokens (B, H, S) have a result with x of another token."""
    return np.asarray(np.any([_other(found).any(axis=-1) for found in one.found], axis=0))


def _taken(terms: Sequence[_Term], known: Sequence[_Sources]) -> list[_Taken] | None:
    """Return the terms with x of other tokens, or None if one has no rule."""
    taken = []
    for n, term in enumerate(terms):
        wrong = [_other(one.found[n]) for one in known]
        which = np.any([w.any(axis=(0, 1, 2)) for w in wrong], axis=0)
        if not which.any():
            continue
        rules = _rules(known, n, which)
        if rules is None:
            return None
        # Channels that no call shows count as wrong, unless they lie apart from the wrong ones.
        shown = np.any([_shown(one, one.found[n], rules) for one in known], axis=0)
        taken.append(_Taken(term, _filled(which, shown), rules))
    return taken


def _shown(one: _Sources, found: np.ndarray, rules: Mapping[int, Rule]) -> np.ndarray:
    """Return the channels whose source is known in a token that takes x of another one."""
    size = one.call.x.shape[:3]
    other = np.any(np.array(_source(rules, size)) != np.indices(size), axis=0)
    return np.asarray((found[other] >= 0).any(axis=0))


def _filled(which: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Return ``which``, and the channels that are not shown next to these."""
    filled = which.copy()
    for order in (slice(None), slice(None, None, -1)):
        wrong, seen = filled[order], shown[order]
        for k in range(1, wrong.size):
            wrong[k] |= wrong[k - 1] & ~seen[k]
    return filled


def _rules(known: Sequence[_Sources], term: int, which: np.ndarray) -> dict[int, Rule] | None:
    """Return the rule for the index on each axis on which it is not the token's own one.

    If an axis has no rule, the tokens of all rows and heads are counted.
    """
    every: list[tuple[tuple[int, ...], np.ndarray, np.ndarray]] = []
    for one in known:
        found, size = one.found[term][..., which], one.call.x.shape[:3]
        shown = np.flatnonzero((found >= 0).any(axis=-1))
        first = (found >= 0).argmax(axis=-1)[..., None]
        source = np.take_along_axis(found, first, -1).ravel()[shown]
        every.append((size, shown, source))
    for axes in ((0, 1, 2), *((axis,) for axis in _ORDERS)):
        rules = {}
        for axis in axes:
            used = np.concatenate([_index(n, axis).ravel()[source] for n, _, source in every])
            each = [(_variables(n, axis), shown) for n, shown, _ in every]
            flat = {m: np.concatenate([v[m].ravel()[at] for v, at in each]) for m in each[0][0]}
            if np.array_equal(used, flat[DECLARED]):
                continue
            once = np.unique(np.stack([used, *flat.values()]), axis=1)
            rule = find_rule(once[0], dict(zip(flat, once[1:], strict=True)), DECLARED)
            if rule is None:
                break
            rules[axis] = rule
        else:
            return rules
    return None


def _index(size: tuple[int, ...], axis: int) -> np.ndarray:
    """Return the index (B, H, S) on an axis, or the number in an order of all tokens."""
    if axis not in _ORDERS:
        return np.asarray(np.indices(size)[axis])
    order = _ORDERS[axis]
    number = np.arange(np.prod(size)).reshape([size[a] for a in order])
    return number.transpose(np.argsort(order))


def _variables(size: tuple[int, ...], axis: int) -> Variables:
    """Return numbers (B, H, S) that may be the index on an axis."""
    row, head, token = np.indices(size)
    own, name = _index(size, axis), _AXES[axis]
    n, (_, heads, tokens) = int(own.max()) + 1, size
    counts = (("batch rows", 0), ("heads", 1), ("tokens", 2))
    split, joined = token * heads + head, head * tokens + token
    reshaped = {
        1: {"(s H + h) // S": split // tokens, "(h S + s) modulo H": joined % heads},
        2: {"(s H + h) modulo S": split % tokens, "(h S + s) // H": joined // heads},
    }
    return {
        DECLARED: own,
        f"the last {name}": 0 * own + n - 1,
        f"the {name} before ({name} 0: from itself)": np.maximum(own - 1, 0),
        f"the {name} before ({name} 0: from the last one)": (own - 1) % n,
        f"the {name} after (the last one: from itself)": np.minimum(own + 1, n - 1),
        f"the {name} after (the last one: from {name} 0)": (own + 1) % n,
        f"the {name} as far from the end": n - 1 - own,
        **{f"the {name} {words}": of for words, of in reshaped.get(axis, {}).items()},
        **{
            f"the {other}": index
            for other, index in zip(_AXES, (row, head, token), strict=False)
            if other != name
        },
        **{f"the number of {many}": 0 * own + size[a] for many, a in counts},
    }


def _predicted(taken: Sequence[_Taken], call: Turned) -> Truth:
    """Return the result of a call whose terms take x of the tokens that the rules give."""
    truth = apply_truth(call.encoding, call.x, call.positions)
    shape = call.x.shape
    parts = {name: np.array(np.broadcast_to(getattr(truth, name), shape)) for name in _PARTS}
    outs = {tuple(one.term.out.tolist()) for one in taken}
    for out in outs:
        x = call.x.copy()
        for one in taken:
            if tuple(one.term.out.tolist()) == out:
                of = one.term.of[one.which]
                x[..., of] = call.x[_source(one.rules, shape[:3])][..., of]
        other = apply_truth(call.encoding, x, call.positions)
        for name, part in parts.items():
            part[..., list(out)] = np.broadcast_to(getattr(other, name), shape)[..., list(out)]
    return replace(truth, **parts)


#: The parts of a reference that x changes.
_PARTS = ("value", "terms", "angle", "amplitude")


def _source(rules: Mapping[int, Rule], size: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Return the row, the head and the token (B, H, S) that the rules give; they exist."""
    found = list(np.indices(size))
    for axis, rule in rules.items():
        used = np.asarray(rule.of(_variables(size, axis)))
        if axis not in _ORDERS:
            found[axis] = np.clip(used, 0, size[axis] - 1)
            continue
        order = _ORDERS[axis]
        places = np.unravel_index(
            np.clip(used, 0, np.prod(size) - 1), tuple(size[a] for a in order)
        )
        for a, place in zip(order, places, strict=True):
            found[a] = place
    return tuple(found)


def _words(taken: Sequence[_Taken]) -> str:
    """Return where the wrong terms take x from, in words."""
    whole = len({_from(one.rules) for one in taken}) == 1
    if whole and all(one.which.all() for one in taken) and _all_pairs(taken):
        source = _from(taken[0].rules).replace("their own", "its own")
        return f"every result is made with x {source}"
    said: dict[str, list[tuple[str, str]]] = {}
    for one in taken:
        out, of = (np.sort(c[one.which]).tolist() for c in (one.term.out, one.term.of))
        said.setdefault(_from(one.rules), []).append((_channels(out), _channels(of)))
    texts = []
    for where, (first, *others) in said.items():
        text = f"{first[0]} of the result take {first[1]} of x"
        text += "".join(f", and {out} {of}" for out, of in others) + ", " * bool(others)
        texts.append(f"{text.strip()} {where}")
    return "; ".join(texts)


def _channels(numbers: list[int]) -> str:
    """Return channels in words; those that are evenly spaced by their first and last ones."""
    steps = np.unique(np.diff(numbers))
    if len(numbers) > _LISTED and steps.size == 1 and steps[0] > 1:
        return f"channels {numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"
    return f"channel{'s' * (len(numbers) > 1)} {ranges(numbers)}"


def _all_pairs(taken: Sequence[_Taken]) -> bool:
    """Return whether all four terms of the pairs are among the wrong ones."""
    return sum(bool((one.term.out != one.term.of).any()) for one in taken) == 2 and len(taken) >= 4


def _from(rules: Mapping[int, Rule]) -> str:
    """Return the source in words, and what it should be."""
    texts = [_text(rule, axis) for axis, rule in rules.items()]
    own = " and ".join(_AXES[axis] for axis in rules)
    return f"from {' and '.join(texts)}, not from their own {own}"


def _text(rule: Rule, axis: int) -> str:
    name, text = _AXES[axis], rule.text.replace(DECLARED, "their own index")
    if text.isdigit():
        text = f"{name} {text}"
    elif not text.startswith((f"the last {name}", f"the {name} ")):
        text = f"another {name} (its index: {text})"
    if axis in _ORDERS:
        text += f" in the order ({', '.join('BHS'[a] for a in _ORDERS[axis])}) of all tokens"
    where = rule.where.replace(DECLARED, f"the {name}")
    return f"{text}{f', where {where}' if where else ''}"


def _remedy(taken: Sequence[_Taken]) -> str:
    axes = sorted({axis for one in taken for axis in one.rules})
    names = " and ".join(dict.fromkeys(_AXES[axis] for axis in axes))
    own = "the token itself" if names == "token" else f"the token's own {names}"
    return f"Take x of {own} in every term of its result."
