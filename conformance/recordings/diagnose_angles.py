"""Diagnose recorded angles: frequencies, factor, origin, precision, and the positions used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import BUDGET, FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.declaration import Declaration, declare
from posenc_ref.conformance.phases.decode import REACH, Decoder
from posenc_ref.conformance.phases.explain import explain
from posenc_ref.conformance.phases.fitted_parameters import report_amplitude
from posenc_ref.conformance.phases.frequencies import (
    SIGMAS,
    agree,
    half_precision,
    report,
)
from posenc_ref.conformance.phases.precision import Model, classify, models
from posenc_ref.conformance.phases.start import origin_of, straightened
from posenc_ref.conformance.rotary.diagnose_length import explain_frequencies

from .angles import Angles, Fitted, cleaned
from .call import Recorded
from .measure import Seen

#: The most tokens whose positions are decoded.
_DECODED = 128
#: The largest distance of (cos, sin) from those of the decoded position.
_NEAR = 0.25


def diagnose_angles(run: Run, calls: list[Recorded], seen: Seen, length: int) -> None:
    """Report what the angles of the declared pairs show; ``calls`` may be empty."""
    encoding: Rotary = run.encoding
    if encoding.num_axes > 1 and encoding.axes() is None:
        return  # in RoPE-Mixed, every pair follows all axes
    declared = declare(encoding)
    if declared.by_length is not None:
        declared = _at_length(encoding, declared, length)
    one, known = encoding.num_axes == 1, len(run.report.codes)
    if one and _decoded(run, calls, declared, seen):
        return
    _frequencies(run, encoding, declared, length, seen)
    if one and len(run.report.codes) == known:
        _precision(run, declared, seen)


def _at_length(encoding: Rotary, declared: Declaration, length: int) -> Declaration:
    """Return the declaration with the frequencies and the factor of one length."""
    assert declared.by_length is not None
    w = declared.by_length(length)
    return replace(
        declared,
        schedule=replace(declared.schedule, target=w, variants=tuple, late=tuple, seldom=tuple),
        frequencies=w,
        amplitude=encoding.attention_factor(length),
        by_length=None,
    )


def _frequencies(
    run: Run, encoding: Rotary, declared: Declaration, length: int, seen: Seen
) -> None:
    """Report frequencies, factor and origin that differ from the declared ones."""
    fitted = replace(seen.fitted, phases=straightened(run, seen.fitted.phases, declared)[0])
    phases, period, theta = fitted.phases, fitted.period, declared.frequencies
    w = _nearest(fitted, declared)
    if encoding.depends_on_length and explain_frequencies(
        run, encoding, {length: w}, lambda got, of: bool(agree(got, of, phases.sigma, period).all())
    ):
        return
    found = explain(w, phases.sigma, declared.schedule, period)
    if not phases.linear and any(e.code == "frequency-spacing" for e in found):
        return  # the angles follow other positions, or no frequency at all
    k = int(np.argmax(np.abs(w - theta)))
    evidence = f"pair {k} turns by {w[k]:.9g} rad per position, declared {theta[k]:.9g}"
    report(run, found, w, declared.schedule, evidence)
    factor = measured_factor(seen)
    if abs(factor - declared.amplitude) > factor_error(seen) * abs(declared.amplitude):
        where = f"least squares over {seen.angles.valid.sum()} pairs of tokens"
        report_amplitude(run, declared, factor, where)
    nearest = float(np.abs(seen.angles.positions).min(initial=np.inf))
    grain = BUDGET["float32"] * ROUNDOFF["float32"]
    uncertain = nearest * (SIGMAS * float(phases.sigma.max()) + grain)
    if phases.linear and uncertain <= BUDGET[seen.angles.dtype] * ROUNDOFF[seen.angles.dtype]:
        predicted = found[-1].predicted if found else declared.frequencies
        origin_of(run, phases, declared, np.abs(predicted), found)


def measured_factor(seen: Seen) -> float:
    """Return the median size of all measured maps."""
    sizes = np.abs(seen.angles.map[seen.angles.valid])
    return float(np.median(sizes)) if sizes.size else 1.0


def factor_error(seen: Seen) -> float:
    """Return the relative uncertainty of the factor, with the slack of coarse results."""
    dtype = seen.angles.dtype
    if not seen.coarse:
        return BUDGET[dtype] * ROUNDOFF[dtype]
    count = max(int(seen.angles.valid.sum()), 1)
    return FACTOR_SLACK + (SIGMAS + 1) * ROUNDOFF[dtype] / float(np.sqrt(count))


def wrong_factor(declared: float, seen: Seen) -> str:
    """Return the factor on cos and sin as text if it is not the declared one, else nothing.

    It is asked where results are coarser than float32, because their elements hide 1 %.
    """
    factor = measured_factor(seen)
    if abs(factor - declared) <= factor_error(seen) * abs(declared):
        return ""
    return f"cos and sin are multiplied by {factor:.6g}, declared {declared:.6g}"


def _nearest(fitted: Fitted, declared: Declaration) -> np.ndarray:
    """Return frequencies, for sign 1, moved by whole periods next to the declared ones."""
    w, theta = declared.sign * fitted.phases.frequencies, declared.frequencies
    near = w - fitted.period * np.rint((w - theta) / fitted.period)
    return cleaned(replace(fitted.phases, frequencies=near)).frequencies


def _unit(declared: Declaration, angles: Angles) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the measured cos and sin of amplitude 1, and the half-precision format that they have.

    Least squares do not return such numbers exactly, so near ones are rounded.
    """
    both = np.stack([angles.map.real, declared.sign * angles.map.imag]) / declared.amplitude
    grain = BUDGET["float32"] * ROUNDOFF["float32"]
    if ROUNDOFF[angles.dtype] <= ROUNDOFF["float32"]:
        for name, rounded in half_precision(both):
            if (np.abs(rounded - both) <= grain / 8).all():
                return rounded[0], rounded[1], name
    return both[0], both[1], ""


def _complete(angles: Angles, declared: Declaration) -> tuple[Angles, np.ndarray]:
    """Return the tokens with an input in every pair, and the declared frequencies.

    Pairs without an input in any token are left out.
    """
    pairs = np.asarray(angles.valid.any(axis=0))
    tokens = angles.valid[:, pairs].all(axis=1)
    some = angles.of_pairs(pairs)
    whole = Angles(some.map[tokens], some.valid[tokens], some.positions[tokens], angles.dtype)
    return whole, declared.frequencies[pairs]


def _precision(run: Run, declared: Declaration, seen: Seen) -> None:
    """Report angles, frequencies or tables in half precision."""
    angles, w = _complete(seen.angles, declared)
    if not angles.map.size:
        return
    cos, sin, held = _unit(declared, angles)
    at = angles.positions[:, 0] + declared.origin
    found = _near_model(at, cos + 1j * sin, w, held or run.coarse, bool(held))
    found = found or classify(at, cos, sin, w, run.coarse)
    if (
        found is not None
        and found.code
        and (not found.table or found.table != run.settings.precision)
    ):
        run.add(found.code, f"measured: {found.name}", f"recomputed for {at.size} tokens")


def _near_model(
    positions: np.ndarray, measured: np.ndarray, w: np.ndarray, dtype: str, tables: bool
) -> Model | None:
    """Return the model of cos and sin that is nearest to the measured maps, or None.

    Least squares give cos and sin with an absolute error; :func:`classify` expects a relative one.
    With ``tables``, cos and sin are numbers of a half-precision dtype.
    """
    unit = ROUNDOFF[dtype] + ROUNDOFF["float32"] * np.abs(positions[:, None] * w)
    rated = []
    for n, model in enumerate(models()):
        if model.table != (dtype if tables else None) and (model.table or not model.code):
            continue
        cos, sin = model.cos_sin(positions, w)
        worst = float((np.abs(cos + 1j * sin - measured) / unit).max())
        if worst <= BUDGET[dtype]:
            rated.append((worst if model.code and not model.table else 0.0, n, model))
    return min(rated)[2] if rated else None


def _decoded(run: Run, calls: list[Recorded], declared: Declaration, seen: Seen) -> bool:
    """Decode the positions of tokens from their angles; report wrong ones, return whether so.

    They are decoded with the declared frequencies, so other frequencies give no positions.
    """
    angles, w = _complete(seen.angles, declared)
    if not angles.map.size:
        return False
    some = np.unique(np.linspace(0, len(angles.map) - 1, _DECODED).astype(int))
    at = angles.positions[some, 0]
    reach = int(min(2 * at.max(initial=0) + REACH // 128, 2**20))
    cos, sin = (t[some] for t in _unit(declared, angles)[:2])
    near = _decoding_error(seen.angles.dtype, at)
    telling = int((np.abs(w) * reach > np.pi).sum())
    if reach * (near / np.pi) ** min(telling, 8) > near:
        return False  # some position would fit by chance
    decoder = Decoder.of(w, reach)
    few = slice(None, None, max(some.size // 4, 1))  # a large table makes each token expensive
    if decoder.positions(cos[few], sin[few])[1].max() > near:
        return False
    used, misfit = decoder.positions(cos, sin)
    used = used - round(declared.origin)
    wrong = used != at
    backwards = np.array_equal(used, -at)  # a wrong sign
    if not wrong.any() or backwards or misfit.max() > near:
        return False
    shift, before = np.unique(used - at), len(run.report.codes)
    first = int(np.argmax(wrong))
    evidence = f"position {at[first]:g} has the angles of position {used[first]}"
    if shift.size == 1:
        text = f"position 0 has the angles of position {shift[0]:g}, declared 0"
        code = "position-origin"
        if calls and all(call.x.shape[2] == 1 for call in calls):  # decoding steps
            code = "decode-offset"
            text = f"every position is {abs(shift[0]):g} too {'small' if shift[0] < 0 else 'large'}"
        run.add(code, text, f"{evidence}; {at.size} tokens decoded")
        return True
    judged = [call.judged() for call in calls]
    match(run, judged, _ranges(at, used))
    if len(run.report.codes) == before:
        text = f"{int(wrong.sum())} of {at.size} decoded tokens have the angles of other positions"
        run.add("wrong-row", text, evidence)
    return True


def _decoding_error(dtype: str, positions: np.ndarray) -> float:
    """Return the largest distance of a token's cos and sin from those of its own position."""
    of_angles = BUDGET["float32"] * min(ROUNDOFF[dtype], ROUNDOFF["float32"])
    grain = BUDGET[dtype] * ROUNDOFF[dtype] + of_angles * float(np.abs(positions).max())
    return min(2 * grain, _NEAR)


def _ranges(at: np.ndarray, used: np.ndarray) -> Iterator[Mistake]:
    """Yield clamped positions, and positions modulo a size, that the decoded positions suggest."""
    most = int(used.max())
    yield Mistake(
        "position-range",
        f"positions are clamped to {most}",
        lambda call: call.at(np.minimum(call.part.positions, most)[:, None]),
    )
    size = int(np.gcd.reduce((at - used)[used != at].astype(np.int64)))
    if size > 1:
        yield Mistake(
            "position-range",
            f"positions wrap round modulo {size}",
            lambda call: call.at((call.part.positions % size)[:, None]),
        )
