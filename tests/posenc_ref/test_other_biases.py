"""KERPLE, Sandwich, FIRE and the biases of windows against 50-digit arithmetic."""

import numpy as np
import pytest

from posenc_ref import (
    FIRE,
    ALiBi,
    BEiTBias,
    Kerple,
    LeViTBias,
    LogCPB,
    Sandwich,
    SwinBias,
    from_dict,
    relative_index,
)
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp
RNG = np.random.default_rng(17)


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


R1, R2 = (0.01, 1.5, 0.3), (0.7, 0.02, 1.9)
MLP = numbers(RNG, 5, 1), numbers(RNG, 5), numbers(RNG, 3, 5), numbers(RNG, 3)
NINE = numbers(RNG, 9, 2)
CPB = numbers(RNG, 6, 2), numbers(RNG, 6), numbers(RNG, 3, 6)
NEAR = [0, 3, 9, 40, 500]
FAR = [*NEAR, 70000, 2**20 + 1]


def network(x, w1, b1, w2, b2=None):
    """One hidden layer, in 50 digits."""
    hidden = []
    for row, b in zip(w1.tolist(), b1.tolist(), strict=True):
        y = mp.fsum(mp.mpf(w) * v for w, v in zip(row, x, strict=True)) + mp.mpf(b)
        hidden.append(max(y, mp.mpf(0)))
    last = [mp.mpf(0)] * len(w2) if b2 is None else [mp.mpf(b) for b in b2.tolist()]
    return [mp.fsum(mp.mpf(w) * y for w, y in zip(row, hidden, strict=True)) + b
            for row, b in zip(w2.tolist(), last, strict=True)]  # fmt: skip


def log(h, i, j):
    return -mp.mpf(R1[h]) * mp.log(1 + mp.mpf(R2[h]) * abs(i - j))


def power(h, i, j):
    return -mp.mpf(R1[h]) * mp.mpf(abs(i - j)) ** mp.mpf(R2[h])


def sandwich(h, i, j):
    waves = [mp.mpf(10000) ** (-mp.mpf(2 * k) / 10) for k in range(1, 6)]
    return (mp.fsum(mp.cos((i - j) * w) for w in waves) - 5) / (mp.mpf(8 * (h + 1)) / 3)


def fire(h, i, j):
    psi = lambda x: mp.log(1 + mp.mpf(0.1) * x)  # noqa: E731
    return network([psi(max(i - j, 0)) / (psi(max(i, 64)) + mp.mpf(1e-6))], *MLP)[h]


def log_cpb(h, i, j):
    def side(d, n):
        x = mp.mpf(abs(d)) / (n - 1)
        return int(np.sign(d)) * mp.log(1 + 8 * x, 2) / 3

    x = [side(i // 3 - j // 3, 5), side(i % 3 - j % 3, 7)]
    return 16 / (1 + mp.exp(-network(x, *CPB)[h]))


CASES = {
    "Kerple log": (Kerple(R1, R2, causal=False), log, FAR),
    "Kerple power": (Kerple(R1, R2, form="power", causal=False), power, FAR),
    "Sandwich": (Sandwich(3, 10, causal=False), sandwich, FAR),
    "FIRE": (FIRE(*MLP, length=64.0), fire, FAR),
    "LogCPB": (LogCPB(*CPB, window=(4, 3), pretrained_window=(5, 7)), log_cpb, range(12)),
}


@pytest.mark.parametrize("name", CASES)
def test_bias_against_50_digits(name):
    encoding, exact, at = CASES[name]
    q_at, k_at = np.array(list(at)), np.array(list(at))[::-1].copy()
    truth = encoding.truth(q_at, k_at)
    want = np.zeros(truth.value.shape)
    with mp.workdps(DIGITS):
        for h, i, j in np.ndindex(want.shape):
            want[h, i, j] = exact(h, int(q_at[i]), int(k_at[j]))
    assert np.isfinite(truth.terms).all()
    assert (truth.terms >= 0).all()
    exactly = Truth(want, truth.terms, truth.angle)
    assert exactly.score(encoding.bias(q_at, k_at)).max() <= budget("float64")
    assert exactly.score(truth.value).max() <= budget("float64")
    assert exactly.score(want * (1 + 2.0**-30)).max() > budget("float64")
    assert from_dict(encoding.to_dict()) == encoding


@pytest.mark.parametrize("name", ["Kerple log", "Kerple power", "Sandwich"])
def test_toeplitz_holds_the_whole_bias(name):
    encoding = CASES[name][0]
    t = encoding.toeplitz(3, 7)
    bias = encoding.bias(range(4, 7), range(7))
    for h, i, j in np.ndindex(bias.shape):
        assert bias[h, i, j] == t[h, j - i + 2]


def test_a_power_of_one_is_alibi():
    slopes = ALiBi(8).slopes()
    kerple = Kerple(slopes, [1.0] * 8, form="power")
    at = np.arange(40)
    truth = ALiBi(8).truth(at, at)
    assert truth.score(kerple.bias(at, at)).max() <= budget("float64")


def test_fire_is_relative_only_up_to_its_length():
    encoding = CASES["FIRE"][0]
    near, far = encoding.bias([10, 60], [5, 55]), encoding.bias([100, 900], [95, 895])
    assert (near[:, 0, 0] == near[:, 1, 1]).all()
    assert (far[:, 0, 0] != far[:, 1, 1]).all()
    with pytest.raises(ValueError, match="FIRE does not depend on key - query"):
        encoding.toeplitz(3, 3)


def test_sandwich_does_not_fall_all_the_way():
    """First rise at a distance of 14 where dim is 128."""
    t = Sandwich(1, 128).bias([0], np.arange(40))[0, 0]
    assert int(np.argmax(np.diff(t) > 0)) + 1 == 14


# --- windows -------------------------------------------------------------------------------------


def test_swin_is_the_table_by_the_papers_index(rng):
    table = numbers(rng, 5 * 7, 2)
    encoding = SwinBias(table, window=(3, 4))
    bias = encoding.bias(range(12), range(12))
    assert bias.dtype == np.float32
    assert (bias == np.moveaxis(table[relative_index((3, 4))], -1, 0)).all()
    some = encoding.bias([3, 7], [0, 11, 5])
    assert (some == bias[:, [3, 7]][:, :, [0, 11, 5]]).all()
    batch = encoding.bias([[3], [7]], [[0, 11], [5, 2]])
    assert batch.shape == (2, 2, 1, 2)
    assert (batch[1, :, 0] == bias[:, 7, [5, 2]]).all()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Kerple([1.0], [1.0, 2.0]), ValueError, "one number for each head, got 1 and 2"),
        (lambda: Kerple([0.0], [1.0]), ValueError, r"r1\[0\] must be greater than 0"),
        (lambda: Kerple([1.0], [2.5], form="power"), ValueError, "r2 must be at most 2"),
        (lambda: Sandwich(4, 7), ValueError, "dim must be even, got 7"),
        (lambda: FIRE(*MLP, c=0), ValueError, "c must be greater than 0"),
        (lambda: FIRE(MLP[0], MLP[1], MLP[2].T), ValueError, r"output must have shape \(H, 5\)"),
        (
            lambda: SwinBias(NINE, window=(3, 2)),
            ValueError,
            r"table must have shape \(15,",
        ),
        (
            lambda: BEiTBias(NINE, window=(2, 2)),
            ValueError,
            r"table must have shape \(12,",
        ),
        (lambda: LeViTBias(NINE, window=(2, 2)), ValueError, r"shape \(4, H\)"),
        (lambda: LogCPB(*CPB, window=4), TypeError, r"window must be \(height, width\)"),
        (
            lambda: SwinBias(NINE, window=(2, 2)).bias([0], [4]),
            ValueError,
            r"k_positions must be tokens of the window, 0 \.\. 3, got 4",
        ),
        (
            lambda: SwinBias(NINE, window=(2, 2)).bias([0.5], [1]),
            TypeError,
            "q_positions must be integers",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
