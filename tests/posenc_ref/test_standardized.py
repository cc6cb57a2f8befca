"""PatchTST's sinusoids: 50 digits, PatchTST and PatchTSMixer themselves, and their mistakes."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import Sinusoidal, StandardizedSinusoidal, from_dict
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp


def sines(p, dim, base):
    angles = [p / mp.mpf(base) ** (mp.mpf(2 * k) / dim) for k in range(dim // 2)]
    return [f(a) for a in angles for f in (mp.sin, mp.cos)]


@given(
    pairs=st.integers(1, 4),
    length=st.integers(2, 20),
    divisor=st.sampled_from([10.0, 1.0, 0.3]),
    base=st.sampled_from([10000.0, 33.5]),
    far=st.integers(-5, 10**6),
)
def test_every_field(pairs, length, divisor, base, far):
    dim = 2 * pairs
    encoding = StandardizedSinusoidal(dim, length, divisor=divisor, base=base)
    at = np.array([0, 1, length - 1, far])
    truth = encoding.truth(at)
    with mp.workdps(DIGITS):
        every = [v for p in range(length) for v in sines(p, dim, base)]
        mean = mp.fsum(every) / len(every)
        std = mp.sqrt(mp.fsum((v - mean) ** 2 for v in every) / (len(every) - 1))
        scale = mp.mpf(divisor) * std
        exact = [[(v - mean) / scale for v in sines(int(p), dim, base)] for p in at]
        around = mp.fsum(map(abs, every)) / len(every)
        size = [[(abs(v) + around) / scale for v in sines(int(p), dim, base)] for p in at]
        want = np.array(exact, dtype=np.float64)
        told = Truth(np.array(size, dtype=np.float64), truth.terms, truth.angle)
    assert Truth(want, truth.terms, truth.angle).score(encoding.table(at)).max() <= budget(
        "float64"
    )
    assert told.score(truth.terms).max() <= budget("float64")


# --- transformers --------------------------------------------------------------------------------


def patchtst(patches, dim=32, cls=False):
    models = pytest.importorskip(
        "transformers", reason="transformers is what is compared with"
    ).models
    config = models.patchtst.PatchTSTConfig(
        d_model=dim, positional_encoding_type="sincos", use_cls_token=cls
    )
    module = models.patchtst.modeling_patchtst.PatchTSTPositionalEncoding(config, patches)
    return module.position_enc.detach().numpy()


def patchtsmixer(patches, dim=32):
    models = pytest.importorskip(
        "transformers", reason="transformers is what is compared with"
    ).models
    config = models.patchtsmixer.PatchTSMixerConfig(
        d_model=dim, use_positional_encoding=True, positional_encoding_type="sincos",
        context_length=4 * patches, patch_length=4, patch_stride=4,
    )  # fmt: skip
    module = models.patchtsmixer.modeling_patchtsmixer.PatchTSMixerPositionalEncoding(config)
    return module.position_enc.detach().numpy()


PEERS = {
    "PatchTST": (partial(patchtst, 42), 42),
    "PatchTST with [CLS]": (partial(patchtst, 42, cls=True), 43),
    "PatchTSMixer": (partial(patchtsmixer, 42), 42),
}


def score(encoding, table):
    return encoding.truth(range(len(table))).score(table).max()


@pytest.mark.parametrize("name", PEERS)
def test_libraries(name):
    """Measured: 0.8 units at most."""
    peer, rows = PEERS[name]
    table, encoding = peer(), StandardizedSinusoidal(32, rows)
    assert table.shape == (rows, 32)
    assert score(encoding, table) <= budget("float32")
    for wrong in (
        encoding.replace(length=rows - 1),
        encoding.replace(divisor=1.0),
        Sinusoidal(32),
        Sinusoidal(32, scale=1 / (10 * 0.5**0.5)),
    ):
        assert score(wrong, table) > budget("float32"), wrong


def test_another_length_is_another_table():
    short, long = patchtst(42), patchtst(43)
    assert score(StandardizedSinusoidal(32, 42), long[:42]) > budget("float32")
    assert score(StandardizedSinusoidal(32, 43), long) <= budget("float32")
    assert (short != long[:42]).all()


# --- the suite -----------------------------------------------------------------------------------


def table(positions, rows=43, ddof=1, centred=True, by=10):
    """In float32, as PatchTST has it, wrong on demand."""
    w = 10000.0 ** (-np.arange(8) / 8)

    def plain(p):
        angle = np.asarray(p, np.float32)[:, None] * w.astype(np.float32)
        return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(p), 16)

    whole = plain(np.arange(rows))
    mean = whole.mean() if centred else np.float32(0)
    return (plain(positions) - mean) / (by * whole.std(ddof=ddof))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, None),
        ({"rows": 42}, "mean and deviation are computed over 42 rows, declared 43"),
        ({"ddof": 0}, "the deviation has 688 in its denominator, declared 687"),
        ({"centred": False}, "the mean is not subtracted"),
        ({"by": 1}, "rows are divided by 1 deviations, declared 10"),
    ],
)
def test_the_suite_names_what_is_wrong(wrong, said):
    report = check(partial(table, **wrong), StandardizedSinusoidal(16, 43), "table")
    assert report.passed == (wrong == {})
    assert report.codes == ([] if said is None else ["amplitude"])
    assert [f.message for f in report.findings if f.code == "amplitude"] == ([said] if said else [])


def test_values_and_refusals():
    encoding = StandardizedSinusoidal(8, 12, divisor=2.0)
    assert from_dict(encoding.to_dict()) == encoding
    assert eval(repr(encoding), {"StandardizedSinusoidal": StandardizedSinusoidal}) == encoding
    x = np.ones((2, 12, 8), np.float32)
    assert (encoding.add(x, range(12))[1] == (1 + encoding.table(range(12))).astype("f4")).all()
    for make, text in (
        (lambda: StandardizedSinusoidal(7, 12), "dim must be even"),
        (lambda: StandardizedSinusoidal(8, 0), "length must be at least 1"),
        (lambda: StandardizedSinusoidal(8, 12, divisor=0), "divisor must be greater than 0"),
    ):
        with pytest.raises(ValueError, match=text):
            make()
