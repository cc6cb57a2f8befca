"""Rules planted into a right ``apply``: where they hold, a token gets the next position."""

from importlib import import_module

import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance.harness.located.record import Call, Record

ENCODING = RoPE(16, layout="half")
_CHECK = import_module("posenc_ref.conformance.check")


class Facts:
    """The facts of one call that a planted rule may use, each broadcastable to (B, H, S)."""

    def __init__(self, shape, positions, contiguous, number):
        self.B, self.H, self.S = shape
        self.b, self.h, self.t = np.ix_(*map(np.arange, shape))
        self.end = self.S - 1 - self.t
        self.own = positions.ndim == 2
        self.p = np.asarray(positions)[:, None, :] if self.own else np.asarray(positions)
        self.contiguous, self.number = contiguous, number


#: Conditions: words, and a function that draws a number and returns the condition.
ATOMS = {
    "h >= {}": (lambda r: int(r.choice([1, 2, 8, 16])), lambda f, n: f.h >= n),
    "h == {}": (lambda r: int(r.choice([0, 1, 2])), lambda f, n: f.h == n),
    "h % 2 == {}": (lambda r: int(r.integers(2)), lambda f, n: f.h % 2 == n),
    "b >= {}": (lambda r: int(r.choice([1, 2, 3])), lambda f, n: f.b >= n),
    "b == {}": (lambda r: int(r.integers(2)), lambda f, n: f.b == n),
    "t >= {}": (lambda r: int(r.choice([1, 4, 8, 32, 64, 128])), lambda f, n: f.t >= n),
    "t == {}": (lambda r: int(r.integers(2)), lambda f, n: f.t == n),
    "end == {}": (lambda r: 0, lambda f, n: f.end == n),
    "last S % {}": (
        lambda r: int(r.choice([4, 8, 16, 32, 64, 128])), lambda f, n: f.t >= f.S - f.S % n,
    ),
    "t % {} == 1": (lambda r: int(r.choice([2, 4])), lambda f, n: f.t % n == 1),
    "p >= {}": (lambda r: int(r.choice([1, 8, 64, 128, 1000])), lambda f, n: f.p >= n),
    "p % {} == 0": (lambda r: int(r.choice([2, 4])), lambda f, n: f.p % n == 0),
    "S == {}": (lambda r: int(r.choice([1, 2, 8, 64])), lambda f, n: np.array(n == f.S)),
    "S >= {}": (lambda r: int(r.choice([2, 8, 16, 64, 128])), lambda f, n: np.array(n <= f.S)),
    "S % {} == 0": (lambda r: int(r.choice([4, 8, 64])), lambda f, n: np.array(f.S % n == 0)),
    "B >= {}": (lambda r: int(r.choice([2, 5])), lambda f, n: np.array(n <= f.B)),
    "B == {}": (lambda r: 1, lambda f, n: np.array(n == f.B)),
    "H >= {}": (lambda r: int(r.choice([2, 8, 9])), lambda f, n: np.array(n <= f.H)),
    "own rows": (lambda r: 0, lambda f, n: np.array(f.own)),
    "not contiguous": (lambda r: 0, lambda f, n: np.array(not f.contiguous)),
    "call >= {}": (lambda r: int(r.choice([4, 20, 60])), lambda f, n: np.array(f.number >= n)),
}  # fmt: skip


def draw(rng):
    """Return the words of a random rule of one or two conditions, and the rule."""
    names = rng.choice(list(ATOMS), size=int(rng.choice([1, 1, 2])), replace=False)
    parts = [(name, ATOMS[name][0](rng), ATOMS[name][1]) for name in names]
    words = " and ".join(name.format(n) for name, n, _ in parts)

    def rule(facts):
        holds = np.ones((facts.B, facts.H, facts.S), bool)
        for _, n, condition in parts:
            holds &= condition(facts, n)
        return holds

    return words, rule


class Planted:
    """A right function but for the tokens of a rule."""

    def __init__(self, rule):
        self.rule, self.calls = rule, 0

    def __call__(self, x, positions):
        self.calls += 1
        facts = Facts(x.shape[:3], positions, x.flags.c_contiguous, self.calls)
        y, off = ENCODING.apply(x, positions), ENCODING.apply(x, positions + 1)
        return np.where(self.rule(facts)[..., None], off, y).astype(x.dtype)


def judged(rule):
    """Return the complete report, and the run, on a function with a planted rule."""
    run = _CHECK.make_run(Planted(rule), ENCODING, "apply")
    return _CHECK.complete(run), run


def said_of(place, record):
    """Return the elements that a place says to be wrong."""
    return np.any([rule.predicts(record) for rule in place.rules], axis=0)


def agree(rule, place, records):
    """Return whether a place says of these results what the planted rule says."""
    for record in records:
        if not record.whole or record.call is None or record.call.sizes is None:
            continue
        at = record.call.positions
        facts = Facts(record.shape, at, record.call.memory == "contiguous", record.call.number)
        live = np.ones(record.shape, bool) if record.live is None else record.live
        if not np.array_equal((said_of(place, record) & live), rule(facts) & live):
            return False
    return True


def others(rng, number, count=60):
    """Return records of calls that were not made, of sizes between those of the suite."""
    found = []
    for _ in range(count):
        sizes = tuple(
            int(n) for n in (rng.integers(1, 6), rng.integers(1, 18), rng.integers(1, 140))
        )
        at = np.arange(sizes[2]) + int(rng.choice([0, 0, 5, 700]))
        at = at + 9 * np.arange(sizes[0])[:, None] if rng.random() < 0.4 and sizes[0] > 1 else at
        memory = str(rng.choice(["contiguous", "contiguous", "sliced"]))
        call = Call(number + 1, memory, sizes=sizes, positions=at)
        axes = ("batch row", "head", "token")
        found.append(Record("", axes, np.zeros(sizes, bool), call=call, positions=at))
    return found


def made(rule, wanted, number):
    """Return the record of a call whose tokens are wrong where the rule holds."""
    at, b = wanted.positions, wanted.sizes
    facts = Facts(b, at, wanted.memory == "contiguous", number)
    wrong = np.array(np.broadcast_to(rule(facts), b), bool)
    call = Call(number, wanted.memory, sizes=b, positions=at)
    return Record(f"call {number}", ("batch row", "head", "token"), wrong, call=call, positions=at)
