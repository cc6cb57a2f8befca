"""What `verify` asks of JAX and Dask in fewer calls still catches every backend that is wrong.

Each seeded fault is what a port to such a library gets wrong: casts, chunks, kernels of long
calls, state.  The full check is the control: what it sees, the quick one has to see.
"""

import dataclasses

import numpy as np
import pytest

from posenc_ref.backends import backends
from posenc_ref.conformance import check
from posenc_ref.conformance.check import check_reduced
from posenc_ref.conformance.surveys import verify
from posenc_ref.conformance.surveys.own import own_surfaces
from posenc_ref.conformance.surveys.verify import Options

NUMPY = next(b for b in backends() if b.name == "numpy")
OWN = {own.label: own for own in own_surfaces(NUMPY, "float32", None, 16)}
ROTARY = ("RoPE half", "RoPE interleaved", "RoPE YaRN", "M-RoPE")
EVERY = (*ROTARY, "RoPE cos_sin", "Sinusoidal", "ALiBi", "T5Bias")


FAULTS = {}


def fault(*labels):
    """File a way to spoil the own function of these labels."""

    def file(spoil):
        FAULTS.update({(spoil.__name__, label): spoil for label in labels})
        return spoil

    return file


@fault(*ROTARY, "Sinusoidal")
def positions_in_bfloat16(fn):
    def wrong(*args):
        *x, p = args
        bits = np.asarray(p, np.float32).view(np.uint32)
        kept = ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)
        return fn(*x, kept.astype(np.int64))

    return wrong


@fault(*ROTARY, "Sinusoidal")
def positions_in_float16(fn):
    return lambda *args: fn(*args[:-1], np.minimum(args[-1], 2048) + (args[-1] > 2048) * 4)


@fault(*ROTARY, "Sinusoidal")
def positions_wrap_at_int16(fn):
    return lambda *args: fn(*args[:-1], np.asarray(args[-1]).astype(np.int16).astype(np.int64))


@fault(*ROTARY, "Sinusoidal")
def a_table_of_4096_rows_clamps(fn):
    return lambda *args: fn(*args[:-1], np.clip(args[-1], None, 4095))


@fault(*ROTARY, "Sinusoidal")
def the_second_chunk_starts_anew(fn):
    def wrong(*args):
        *x, p = args
        p, n = np.array(p), np.shape(p)[-1]
        p[..., (n + 1) // 2 :] -= (n + 1) // 2 * (n > 1)
        return fn(*x, p)

    return wrong


@fault(*ROTARY)
def results_in_half_precision(fn):
    return lambda *args: np.asarray(fn(*args)).astype(np.float16).astype(np.float32)


@fault(*EVERY)
def results_a_little_too_large(fn):
    """As where a constant is held in half precision."""

    def wrong(*args):
        y = fn(*args)
        if isinstance(y, tuple):
            return tuple(np.asarray(t) * np.float32(1 + 2.0**-14) for t in y)
        return np.asarray(y) * np.float32(1 + 2.0**-14)

    return wrong


@fault(*EVERY)
def the_first_result_is_kept(fn):
    kept = {}

    def wrong(*args):
        shape = tuple(np.shape(a) if np.ndim(a) else "n" for a in args)
        return kept.setdefault(shape, fn(*args))

    return wrong


@fault(*ROTARY[:3])
def the_second_row_of_a_batch_has_the_first_ones_positions(fn):
    def wrong(x, p):
        p = np.asarray(p)
        return fn(x, np.broadcast_to(p[:1], p.shape) if p.ndim == 2 else p)

    return wrong


@fault(*ROTARY)
def heads_share_one_row(fn):
    def wrong(x, p):
        y = np.array(fn(x, p))
        y[:, 1:2] = y[:, :1]
        return y

    return wrong


@fault(*EVERY)
def not_a_number_at_the_end(fn):
    def wrong(*args):
        y = fn(*args)
        y = tuple(np.array(t) for t in y) if isinstance(y, tuple) else np.array(y)
        for t in y if isinstance(y, tuple) else (y,):
            if t.size > 64:
                t[(-1,) * t.ndim] = np.nan
        return y

    return wrong


@fault("ALiBi", "T5Bias")
def queries_count_from_zero(fn):
    return lambda q_len, k_len: np.asarray(fn(k_len, k_len))[:, :q_len]


@fault("ALiBi")  # T5's are all in the last bucket there
def distances_in_bytes(fn):
    def wrong(q_len, k_len):
        whole, far = np.asarray(fn(q_len, k_len)), np.asarray(fn(1, 128))[:, 0]
        r = np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]
        return np.where(r < -127, far[:, :1, None], whole) if k_len > 128 else whole

    return wrong


@fault("ALiBi", "T5Bias")
def the_second_chunk_of_keys_is_the_first(fn):
    def wrong(q_len, k_len):
        y = np.array(fn(q_len, k_len))
        if k_len > 1:
            n = k_len // 2
            y[..., -n:] = y[..., :n]
        return y

    return wrong


#: The first label of every fault; a pull request tries this one, the nightly run all labels.
FIRST = dict(reversed(FAULTS))
#: Their causes are among the dearest to find.
DEAR = {
    "queries_count_from_zero",
    "the_second_chunk_of_keys_is_the_first",
    "positions_wrap_at_int16",
    "positions_in_bfloat16",
    "the_second_chunk_starts_anew",
}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        pytest.param(
            name,
            label,
            id=f"{name}-{label}".replace(" ", "-"),
            marks=[] if FIRST[name] == label and name not in DEAR else pytest.mark.nightly,
        )
        for name, label in FAULTS
    ],
)
def test_a_seeded_fault_is_caught(name, label):
    own = OWN[label]
    report = check_reduced(FAULTS[name, label](own.fn), own.encoding, own.surface)
    assert report.verdict == "deviates", report


@pytest.mark.parametrize("label", EVERY)
def test_right_ones_pass_in_fewer_calls(label):
    own = OWN[label]
    calls = []

    def counted(*args):
        calls.append(args)
        return own.fn(*args)

    assert check_reduced(counted, own.encoding, own.surface).passed
    few = len(calls)
    assert check(counted, own.encoding, own.surface).passed
    assert few < len(calls) - few


@pytest.mark.nightly
@pytest.mark.parametrize("library", ["dask", "jax"])
def test_a_wrong_library_is_caught_by_verify(monkeypatch, library):
    """In its arrays the last position is the one before it."""
    pytest.importorskip(library, reason="one of the libraries that are asked for less")

    def planted(found, *rest):
        (sines,) = (own for own in own_surfaces(found, *rest) if own.label == "Sinusoidal")

        def table(p):
            at = np.array(found.asnumpy(p))
            at[-1:] -= at.size > 3
            return sines.fn(found.asarray(at, "int64", None))

        return [dataclasses.replace(sines, fn=table)]

    monkeypatch.setattr(verify, "own_surfaces", planted)
    found = verify.verify(Options(only=f"{library} sinusoidal float32"))
    (outcome,) = (o for o in found.outcomes if o.label == "Sinusoidal")
    assert outcome.verdict == "deviates"
    assert found.exit_code == 1
