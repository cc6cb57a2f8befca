"""What biases and scores declare holds, and what they do not declare does not."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.registry import entries

EVERY = {
    f"{entry.name}-{name}": encoding
    for entry in entries()
    for name, encoding in entry.examples.items()
    if entry.encoding.family in ("bias", "score")
}
#: Values for which an undeclared property fails, where the examples happen to have it.
OTHERS = {
    pr.FIRE: lambda e: e.replace(output=-np.asarray(e.output)),
}
LENGTH = 24


def same(actual, want, size):
    """Equal to a few roundings of numbers of this size."""
    truth = Truth(want, np.full((), float(size)), np.zeros(()))
    return bool(truth.score(actual, dtype="float64").max() <= budget("float64"))


def bias_of(encoding):
    at = np.arange(getattr(encoding, "tokens", LENGTH))
    return np.asarray(encoding.bias(at, at), dtype=np.float64)


def translation(b):
    return same(b[:, 1:, 1:], b[:, :-1, :-1], np.abs(b).max())


def symmetric(b):
    return same(b.swapaxes(1, 2), b, np.abs(b).max())


def zero_at_own(b):
    own = np.diagonal(b, axis1=1, axis2=2)
    return same(own, np.zeros_like(own), np.abs(b).max())


def decay(b):
    rows = (b[:, i, : i + 1] for i in range(b.shape[1]))
    return all((np.diff(row, axis=1) >= 0).all() for row in rows)


CHECKS = {
    "translation": translation,
    "symmetric": symmetric,
    "zero-at-own": zero_at_own,
    "decay": decay,
}
#: What a form is that has it.
IS = {
    "translation": "a function of key - query",
    "symmetric": "symmetric",
    "zero-at-own": "zero at the query's own position",
    "decay": "decaying",
}


def assert_declared(encoding, name):
    """What it declares holds."""
    b = bias_of(encoding)
    false = sorted(p for p in encoding.properties if not CHECKS[p](b))
    assert false == [], f"{name} declares what does not hold: {', '.join(false)}"


def assert_no_other(form, check, examples):
    """Where some do not declare a property, one of those does not have it."""
    without = [e for e in examples if check not in e.properties]
    without += [OTHERS[type(e)](e) for e in without if type(e) in OTHERS]
    forgotten = without and all(CHECKS[check](bias_of(e)) for e in without)
    assert not forgotten, (
        f"{form} is {IS[check]} in every example but does not declare it: put {check!r} into its "
        "holds (translation: relative = True), or give an example that is not"
    )


BIASES = {name: e for name, e in EVERY.items() if e.family == "bias"}
SCORES = {name: e for name, e in EVERY.items() if e.family == "score"}


@pytest.mark.parametrize("name", BIASES)
def test_a_declared_property_of_a_bias_holds(name):
    encoding = BIASES[name]
    assert encoding.properties <= CHECKS.keys()
    assert_declared(encoding, name)


@pytest.mark.parametrize("form", sorted({type(e).__name__ for e in BIASES.values()}))
@pytest.mark.parametrize("check", CHECKS)
def test_an_undeclared_property_of_a_bias_fails_somewhere(form, check):
    assert_no_other(form, check, [e for e in BIASES.values() if type(e).__name__ == form])


class Hump(pr.bias.Bias, abstract=True):
    """A bump around the query, which forgets to say that both sides of it are the same."""

    num_heads = 1
    holds = frozenset()

    def _of_offset(self, offset):
        return np.exp(-(np.expand_dims(offset / 4, axis=-3) ** 2))


def test_an_undeclared_property_is_named():
    said = "Hump is symmetric in every example but does not declare it"
    with pytest.raises(AssertionError, match=said):
        assert_no_other("Hump", "symmetric", [Hump()])
    assert_no_other("Hump", "zero-at-own", [Hump()])


def test_a_wrongly_declared_property_is_named(monkeypatch):
    monkeypatch.setattr(Hump, "holds", frozenset({"symmetric", "zero-at-own"}))
    with pytest.raises(AssertionError, match="hump declares what does not hold: zero-at-own"):
        assert_declared(Hump(), "hump")


def moved(encoding):
    """Logits at positions 0, 1, ... and at those moved on by one."""
    count = min(encoding.rows or 9, 9) - 1
    shape = (1, encoding.heads or 2, count, encoding.head_dim)
    q, k = np.random.default_rng(8).standard_normal((2, *shape))
    at = np.arange(count)
    scale = np.abs(q).sum(axis=-1).max() * np.abs(k).max() * encoding.head_dim
    one, two = (np.asarray(encoding.scores(q, k, p, p)) for p in (at, at + 1))
    return one, two, scale + np.abs(one).max()


def continued(encoding):
    """Logits of some tokens, and the same of more tokens cut to these."""
    count = min(encoding.rows or 9, 9)
    shape = (1, encoding.heads or 2, count, encoding.head_dim)
    q, k = np.random.default_rng(9).standard_normal((2, *shape))
    n, at = count - 2, np.arange(count)
    scale = np.abs(q).sum(axis=-1).max() * np.abs(k).max() * encoding.head_dim
    one = np.asarray(encoding.scores(q[:, :, :n], k[:, :, :n], at[:n], at[:n]))
    two = np.asarray(encoding.scores(q, k, at, at))[..., :n, :n]
    seen = np.tril(np.ones((n, n))) if not encoding.sees_future else 1.0
    return one * seen, two * seen, scale + np.abs(one).max()


LOGITS = {"translation": moved, "prefix": continued}


@pytest.mark.parametrize("check", LOGITS)
@pytest.mark.parametrize("name", SCORES)
def test_properties_of_logits_both_ways(name, check):
    assert SCORES[name].properties <= LOGITS.keys()
    one, two, size = LOGITS[check](SCORES[name])
    holds, declared = same(two, one, size), check in SCORES[name].properties
    said = "declares" if declared else "does not declare"
    assert holds is declared, f"{name} {said} {check}, which holds: {holds}"


def test_nothing_falls_with_the_distance_but_what_says_so():
    """Sandwich is the Gram matrix of a sinusoid, which rises again."""
    sandwich = pr.Sandwich(4, 128)
    row = np.asarray(sandwich.bias(range(40), range(40)))[0, -1]
    assert "decay" not in sandwich.properties
    assert not decay(np.asarray(sandwich.bias(range(40), range(40))))
    assert int(np.argmax(np.diff(row[::-1]) > 0)) + 1 == 14
