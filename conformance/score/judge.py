"""Judge ``scores``: attention logits in short and long calls, and state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref import Bias, ModelEncoding, PRoPE, Score, Table
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.cases import span
from posenc_ref.conformance.bias.diagnose_other import large_constants
from posenc_ref.conformance.bias.future_mask import MASKED, masked
from posenc_ref.conformance.diagnosis.coarse import report_coarse, report_narrow
from posenc_ref.conformance.diagnosis.drive import Probe, drive, drive_crossed
from posenc_ref.conformance.diagnosis.limited import limited
from posenc_ref.conformance.diagnosis.match import fits, likely, match, report_in_part
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.offset_sizes import sizes_of
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS
from posenc_ref.conformance.diagnosis.same_logits import RowConstants, row_constants
from posenc_ref.conformance.diagnosis.together import match_together
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.crossing import Crossing, Row
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.conformance.table.reference import longest
from posenc_ref.rotary_score import RotaryScore

from .capped import CAPPED, capped
from .changed import mistakes_of
from .encoding_mistakes import score_mistakes
from .far import FAR, LONGEST, late_scale, require, rules_of
from .formulas import changed_constants, changed_sizes, changed_steps, measured_biases
from .mistakes import logit_mistakes
from .query_scales import query_scale_changes
from .together import two_of_scores

Size = tuple[int, int, int, int]
#: (B, H, Q, K); the function may refuse fewer queries than keys.
SIZES: tuple[Size, ...] = ((2, 3, 5, 5), (3, 2, 4, 4), (1, 4, 2, 2), (1, 1, 33, 33))
OPTIONAL: tuple[Size, ...] = (
    (2, 3, 1, 7), (1, 2, 3, 11), (1, 1, 1, 1), (1, 8, 64, 64), (1, 2, 150, 150), (1, 1, 1, 256),
    (1, 1, 1, 2050),
)  # fmt: skip
#: A further call of an encoding with numbers of its own for every token.
_TOKENS: Size = (1, 1, 1, 700)
#: Calls that could refute a cause which explains all others.
REFUTING: tuple[Size, ...] = ((1, 5, 6, 6), (2, 2, 3, 23), (1, 1, 40, 47))
_KEYS = "key heads"
_GROUP = "query heads per key head"
#: Sizes of which every two meet in a call.
CROSSED = {
    "B": (1, 3), _KEYS: (1, 3), _GROUP: (1, 2), "Q": (1, 5), "K": (8, 129),
}  # fmt: skip
#: Those of a function that has failed, to find out where.
MORE = {
    "B": (1, 2, 3), _KEYS: (1, 2, 3), _GROUP: (1, 2, 4), "Q": (1, 2, 5),
    "K": (2, 8, 17, 129),
}  # fmt: skip
#: The most logits of such a call.
MOST = 4000
#: Channels of q and k if the encoding does not define them.
_DIM = 64
#: What holds in calls with keys of two cameras.
_CAMERAS = "two cameras meet"
#: The most keys in a call with as many queries, in which keys are far.
_SQUARE = 2**8
#: Calls with more logits than this use batch size 1.
_MANY = 2**20


def judge(run: Run) -> None:
    """Judge ``fn(q, k)``: logits (B, H, Q, K) of queries at the last positions of the keys."""
    run.report.required = ("logits", "state")
    whole = _whole_calls(run)
    seen = drive(run, _probes(run, whole), partial(_asked, run))
    if not seen:
        return
    lengths = {one.facts.k.shape[2] for one in seen}
    for rules, telling in _far(run).items():
        met = range(max(lengths) + 1) if rules == _CAMERAS else lengths
        name = "second camera" if rules == _CAMERAS else FAR
        require(run, "", [n for n in telling if n not in met], " keys", rules, name)
    if not whole:
        seen += _crossed(run, CROSSED)
        seen += _crossed(run, MORE) if run.failures else []
    first: Scored = seen[0].facts
    state.replay(
        run,
        lambda: first.seen(_called(run, first)),
        seen[0].actual,
        seen[0].case,
        seen[0].truth.value,
    )
    state.kept_result(
        run, lambda: run.driver.call(first.q, first.k), lambda: run.driver.call(first.k, first.q)
    )
    if run.failures and not run.report.codes:
        run.explain(_explain, seen)
    if first.up_to_constant and not run.failures:
        row_constants(run, map(_constants, seen))


def _constants(one: JudgedCall) -> RowConstants:
    """Return the logits at each query's own key: ``check`` leaves a constant of each row open."""
    call: Scored = one.facts
    parts = call.parts().values()
    value, terms = (sum(np.asarray(getattr(t, name)) for t in parts) for name in ("value", "terms"))
    assert call.constant is not None
    size = np.broadcast_to(np.abs(terms).max(axis=-1), call.constant.shape[:-1])
    return RowConstants(one.case, call.constant[..., 0], call.own(np.asarray(value))[..., 0], size)


def _probes(run: Run, whole: tuple[Size, ...]) -> Iterator[Probe]:
    of = _of_score if isinstance(run.encoding, Score) else _of_encoding
    more = (_TOKENS,) if getattr(run.encoding, "holds_tokens", False) else ()
    seen = set()
    for size in whole or (*SIZES, *OPTIONAL, *more):
        call = of(run, size)
        if call is not None:
            case = "B, H, Q, K = " + ", ".join(map(str, (*call.q.shape[:3], call.k.shape[2])))
            if more and case in seen:  # two sizes, cut to the tokens of the encoding
                continue
            seen.add(case)
            yield Probe("logits", case, call, bool(whole) or size in SIZES)
    for telling in _far(run).values():
        yield from _far_probes(run, telling)


def _far(run: Run) -> dict[str, tuple[int, ...]]:
    """Return numbers of keys with which rules hold that hold in no shorter call."""
    of: Any = run.encoding
    found: dict[str, tuple[int, ...]] = {}
    if isinstance(of, ModelEncoding):
        late = {f"{type(one).__name__} acts": late_scale(one) for one in of.query_scale.values()}
        found = {rules: (at + 1,) for rules, at in late.items() if at is not None}
        of = of.only if any(one is not None for one in of.encodings.values()) else None
    if isinstance(of, RotaryScore):
        found[rules_of(of)] = of.telling_lengths
    elif isinstance(of, PRoPE):
        found[_CAMERAS] = of.telling_lengths
    return found


def _far_probes(run: Run, telling: tuple[int, ...]) -> Iterator[Probe]:
    """Yield calls in which a query meets keys under every rule of the encoding."""
    of = _of_score if isinstance(run.encoding, Score) else _of_encoding
    if telling and isinstance(run.encoding, Score) and run.encoding.rows is not None:
        telling = tuple(dict.fromkeys((*telling, run.encoding.rows)))
    for n in telling:
        n_q = n if n <= _SQUARE else 1
        call = of(run, (1, 1, n_q, n)) if n <= LONGEST else None
        if call is not None:
            yield Probe("logits", f"B, H, Q, K = 1, 1, {n_q}, {n}", call, False)


def _whole_calls(run: Run) -> tuple[Size, ...]:
    """Return calls of all declared tokens, if the function refuses calls of a part of them."""
    encoding = run.encoding
    if not isinstance(encoding, Score):
        return ()
    grid = getattr(encoding, "grid", None) is not None
    if not grid and not encoding.holds_tokens:
        return ()
    tokens = encoding.rows or 0
    most = max(_MANY // tokens**2, 1)  # a large grid has few batch rows and heads
    sizes = tuple(dict.fromkeys((min(b, most), min(h, most), tokens, tokens) for b, h, *_ in SIZES))
    part, whole = _of_score(run, SIZES[0]), _of_score(run, sizes[0])
    if part is None or whole is None:
        return ()
    try:
        run.driver.call(part.q, part.k)
    except Refused as error:
        refused = error
    else:
        return ()
    try:
        run.driver.call(whole.q, whole.k)
    except Refused:
        return ()
    what = "grid" if grid else "sequence"
    run.limit(
        f"calls of a part of the {what} are refused ({refused}); judged in calls of whole {what}s"
    )
    return sizes


def _crossed(run: Run, levels: Mapping[str, tuple[int, ...]]) -> list[JudgedCall]:
    """Judge calls in which every two sizes meet; return them."""
    if getattr(run.encoding, "grid", None) is not None:
        return []  # its tokens are those of one grid
    fixed = getattr(run.encoding, "num_heads", None) or getattr(run.encoding, "heads", None)
    if fixed:  # the number of key heads decides the group
        few = next((n for n in (2, 3, 1) if fixed % n == 0 and n < fixed), None)
        heads = (fixed, few) if few else (fixed,)
        levels = {n: heads if n == _KEYS else v for n, v in levels.items() if n != _GROUP}
    crossing = Crossing(levels, _allowed, run.settings.seed, (_KEYS,) if fixed else (_GROUP,))
    of = _of_score if isinstance(run.encoding, Score) else _of_encoding

    def probe(row: Row) -> Probe | None:
        heads, group = row[_KEYS], row.get(_GROUP, (fixed or 1) // row[_KEYS])
        wanted = (row["B"], heads * group, row["Q"], row["K"])
        call = of(run, wanted)
        if call is None or (*call.q.shape[:3], call.k.shape[2]) != wanted:
            return None  # the encoding allows other sizes only
        keys = call.k[:, ::group]
        call = call.replace(k=np.repeat(keys, group, axis=1), group=group)
        case = "B, H, Q, K = " + ", ".join(map(str, wanted))
        case += f", {heads} key {'head' if heads == 1 else 'heads'}" * (group > 1)
        words = "fewer key heads than query heads" if group > 1 else case
        return Probe("logits", case, call, False, words)

    return drive_crossed(run, crossing, probe, partial(_asked, run))


def _allowed(row: Row) -> bool:
    """Return whether a call, or a part of one, is small enough, with no more queries than keys."""
    return int(np.prod(list(row.values()))) <= MOST and row.get("Q", 1) <= row.get("K", MOST)


def _of_score(run: Run, size: Size) -> Scored | None:
    """Return a call of the given size, None if it is too large; cut square calls to the window."""
    encoding: Score = run.encoding
    b, h, n_q, n_k = size
    whole = encoding.rows
    if whole is not None and n_k > whole:
        if encoding.holds_tokens and size[:3] == (1, 1, 1):
            n_k = whole  # the last token, and all others
        elif n_q != n_k or n_k <= whole + 1:
            return None
        else:
            n_q = n_k = whole
    d = encoding.head_dim
    return _drawn(run, encoding, (b, encoding.heads or h, n_q, n_k), d, encoding.own_scale(d))


def _of_encoding(run: Run, size: Size) -> Scored | None:
    """Return a call of the given size or of a size that the encoding allows, or None to omit it."""
    declared: Any = run.encoding
    b, h, n_q, n_k = size
    model = declared if isinstance(declared, ModelEncoding) else None
    encoding = declared
    if model is not None:
        encoding = None if all(e is None for e in model.encodings.values()) else model.only
    if isinstance(encoding, Bias):
        h = encoding.num_heads
    if isinstance(encoding, Table) and n_k > longest(encoding):
        return None
    if (one := span(run, encoding)) is not None:
        if b == 1 and (one.whole or n_q == n_k):  # a larger batch of the same size is judged
            return None
        square = one.whole or n_q == n_k
        n_k = one.square if square else one.tokens
        n_q = n_k if square else min(n_q, n_k)
        if n_k == 0:
            return None
        b = b if h * n_q * n_k <= _MANY else 1
    d = getattr(encoding, "head_dim", None) or getattr(encoding, "dim", None)
    d = d or run.settings.head_dim or _DIM
    scale = d**-0.5 if not isinstance(encoding, Bias) else encoding.own_scale(d)
    factor = None
    if model is not None:
        scale = scale if model.softmax_scale is None else model.softmax_scale
        query_scale = next(iter(model.query_scale.values()), None)
        if query_scale is not None:
            factor = np.asarray(query_scale.factor(np.arange(n_k - n_q, n_k)))
    return _drawn(run, encoding, (b, h, n_q, n_k), d, scale, factor)


def _drawn(
    run: Run, encoding: Any, size: Size, d: int, scale: float, factor: np.ndarray | None = None
) -> Scored | None:
    """Return a call with random q and k, or None if a key is past the largest position."""
    b, h, n_q, n_k = size
    if not run.settings.allows(n_k - 1):
        return None
    seed = run.settings.seed + n_q + n_k
    q = run.driver.rounded(dense((b, h, n_q, d), seed))
    return Scored(encoding, q, run.driver.rounded(dense((b, h, n_k, d), seed + 7)), scale, factor)


def _asked(run: Run, probe: Probe) -> list[JudgedCall]:
    actual = _called(run, probe.facts)
    call: Scored = probe.facts.judged_as(actual)
    judged = _judged(run, call, actual, probe.case)
    return [JudgedCall(probe.case, call.seen(actual), call.truth(), call, judged)]


def _called(run: Run, call: Scored) -> np.ndarray:
    y = run.driver.array(run.driver.call(*call.sent))
    shape = (*call.q.shape[:3], call.k.shape[2])
    if y.shape != shape:
        raise Malformed(f"expected shape (B, H, Q, K) = {shape}, got {y.shape}")
    run.reached(call.k.shape[2] - 1)
    return y.astype(np.float64) if y.dtype.kind == "b" else y  # NumPy subtracts no booleans


def _judged(run: Run, call: Scored, actual: np.ndarray, case: str) -> np.ndarray | None:
    """Return the mask of the logits to compare, or None for all."""
    visible = np.broadcast_to(call.visible, actual.shape)
    if call.causal:
        return visible
    if not masked(actual, ~call.visible):
        return None
    if call.declares_future:
        run.failed("logits", case, np.inf, MASKED)
        run.add("future-keys", MASKED, case, by=None)
    else:
        run.limit("logits of keys after the query are masked: the others are judged")
    return visible


def _explain(run: Run, calls: list[JudgedCall]) -> None:
    if all(fits(run, one, _beside_constants(one)) for one in calls):
        large_constants(run, [(one.case, one.facts.constant) for one in calls])
        return
    declared = calls[0].facts.encoding
    own = isinstance(declared, Score)
    known = score_mistakes(declared, calls) if own else logit_mistakes(declared)
    scales = getattr(run.encoding, "query_scale", None) or {}
    factors = query_scale_changes(next(iter(scales.values()))) if scales else ()
    singles = [*known, *mistakes_of(declared, factors)]
    sizes = sizes_of(run, calls, _offsets)
    first = calls[0].facts
    whole, of_each = measured_biases(first)
    others = chain(changed_steps(first, sizes), whole, changed_sizes(first))
    steps = likely(run, calls, others)
    limits = [] if calls[0].facts.up_to_constant else [limited(Scored.truth, "the logit", CAPPED)]
    constants = [*changed_constants(first), *of_each]
    every = chain(singles, steps, constants, capped() if calls[0].facts.up_to_constant else limits)
    if match(run, calls, every, further=partial(_further, run)) or run.report.codes:
        return
    if report_in_part(run, calls, changed_steps(calls[0].facts, sizes)):
        return
    if match_together(run, calls, two_of_scores(run, calls, singles), partial(_further, run)):
        return
    found = False
    if isinstance(declared, Bias) and not calls[0].facts.up_to_constant:
        parts = lambda call: (call.bias(), call.dot().value)  # noqa: E731
        found = report_coarse(run, calls, "the bias", parts)
    if not found and run.dtype not in SIGNIFICANT_BITS:
        report_narrow(run, calls, "the logit")


def _offsets(call: Scored) -> np.ndarray:
    q_at, k_at = call.grid
    return np.asarray(q_at - k_at)


def _further(run: Run) -> Iterator[JudgedCall]:
    """Make calls of other sizes, which could refute a cause."""
    of = _of_score if isinstance(run.encoding, Score) else _of_encoding
    for size in REFUTING:
        call = of(run, size)
        if call is None or (*call.q.shape[:3], call.k.shape[2])[2:] != size[2:]:
            continue  # the encoding allows other sizes only
        with suppress(Refused, Malformed):
            case = "B, H, Q, K = " + ", ".join(map(str, size))
            yield from _asked(run, Probe("logits", case, call, False))


def _beside_constants(one: JudgedCall) -> Truth | None:
    """Return the reference with tolerance for a constant per row, None if none is allowed."""
    constant, t = one.facts.constant, one.truth
    return None if constant is None else Truth(t.value, t.terms + np.abs(constant), t.angle)
