"""Plain functions: our own conform in every library, every known mistake is named, and no other."""

from types import SimpleNamespace

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import SURFACES, check
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.functions.function import PlainCall
from posenc_ref.conformance.functions.in_steps import step_mistakes
from posenc_ref.conformance.functions.judge import ROWS
from posenc_ref.conformance.functions.positions import POSITION_ROWS
from posenc_ref.conformance.harness.floor import LEAST_POSITION, LEAST_TOKENS

ROPE = pr.RoPE(16, layout="half", rotary_dim=8)
YARN = pr.YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
WEIGHT = np.random.default_rng(3).standard_normal((40, 6)).astype(np.float32)
MODEL = pr.ModelEncoding(
    "m",
    encodings={
        "full": pr.RoPE(16, layout="interleaved", scaling=YARN),
        "nope": None,
    },
    layer_types=("full", "full", "full", "nope") * 2 + ("full", "full"),
    softmax_scale=0.09,
)


def numbers(*shape):
    return np.random.default_rng(4).standard_normal(shape).astype(np.float32)


DECLARED = {
    "convolve": [
        pr.ConvPositions((numbers(12, 4, 6),), (numbers(12),), (numbers(6),), groups=3),
        pr.ConvPositions(
            (numbers(6, 3, 3), numbers(6, 3, 3)),
            (numbers(6), numbers(6)),
            groups=2,
            layer_norm=True,
        ),
    ],
    "convolve_grid": [
        pr.ConvPositions(
            (numbers(6, 1, 3, 3),), (numbers(6),), groups=6, activation="none", residual=True
        )
    ],
    "permute_weights": [None, pr.RoPE(16, layout="half"), ROPE],
    "normed_apply": [
        ROPE,
        pr.RoPE(16, layout="interleaved", scaling=pr.YaRN(8.0, 512), sign=-1),
        pr.MultiAxisRoPE(16, sections=(4, 4), layout="half"),
    ],
    "evict_keys": [ROPE],
    "rows": [pr.Sinusoidal(6), pr.Sinusoidal(6, offset=2), pr.Learned(WEIGHT, offset=2)],
    "ids_from_tokens": [
        pr.Learned(WEIGHT, padding_idx=1),
        pr.Learned(WEIGHT, offset=2, padding_idx=0),
    ],
    "layers": [MODEL],
    "mrope_position_ids": [pr.mrope_rule("qwen2_vl")],
    "mrope_packed": [pr.mrope_rule("qwen2_5_vl")],
    "softmax_scale": [MODEL],
    "rank_slopes": [pr.ALiBi(12), pr.ALiBi(8, max_bias=16.0)],
}
#: test_mrope.py and test_evicted.py have the mistakes of these.
ELSEWHERE = ("mrope_position_ids", "evict_keys")
EVERY = [(name, encoding) for name in ROWS for encoding in DECLARED.get(name, [None])]


def own(name, encoding):
    """Return posenc_ref's own function of that surface."""
    return SURFACES[name].own(encoding, "float32")


@pytest.mark.parametrize(("name", "encoding"), EVERY, ids=lambda v: str(v)[:40])
def test_our_own_functions_conform(name, encoding):
    report = check(own(name, encoding), encoding, name)
    assert report.passed, report
    assert report.executed["state"] >= 2
    assert len(report.controls) == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_on_torch(dtype):
    pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    host = {"position_ids", "packed", "decode_positions", "shard_positions", "relative_index"}
    host |= {"mrope_position_ids", "mrope_packed"}
    for name, encoding in EVERY:
        if name in ("rows", "layers", "softmax_scale") or (name in host and dtype != "float32"):
            continue
        report = check(own(name, encoding), encoding, name, backend="torch", dtype=dtype)
        assert report.passed, report


def dear(name, encoding):
    """Whether the mistakes are many, and each check of this declaration is long."""
    return name == "convolve" or (name == "normed_apply" and encoding.layout != "half")


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        pytest.param(*one, marks=pytest.mark.nightly if dear(*one) else ())
        for one in EVERY
        if one[0] not in ELSEWHERE
    ],
    ids=lambda v: str(v)[:40],
)
def test_every_known_mistake_is_named(name, encoding):
    row = ROWS[name]
    right = SURFACES[name].own(encoding, "float32")
    wrong = 0
    for mistake in (*row.mistakes(encoding), *_steps(row, name, encoding)):

        def fn(*arguments, mistake=mistake):
            expected = np.asarray(right(*arguments))
            truth = mistake.predict(PlainCall(row, encoding, arguments))
            if truth is None or truth.value.shape != expected.shape:
                return expected
            return truth.value.astype(expected.dtype if row.integers else np.float32)

        report = check(fn, encoding, name)
        if report.passed:  # no mistake with this declaration
            continue
        wrong += 1
        assert report.codes == [mistake.code], (mistake.message, str(report))
        assert "no known mistake explains them" not in str(report), mistake.message
    assert wrong >= 3


def _steps(row, name, encoding):
    """Return the changed steps of a convolution; those of other formulas have their own tests."""
    if not name.startswith("convolve"):
        return
    run = SimpleNamespace(report=SimpleNamespace(surface=name), encoding=encoding)
    first = next(iter(row.probes(encoding, 0, "float32"))).arguments
    call = JudgedCall("", np.zeros(0), None, PlainCall(row, encoding, first))
    yield from step_mistakes(run, [call])


def _subtracted(lengths):
    first = np.where(np.arange(lengths.size) > 0, lengths, 0)
    return np.arange(lengths.sum()) - np.repeat(first, lengths)


def _late(lengths):
    return np.r_[0, pr.packed(lengths)[:-1] + 1] if lengths.size else lengths


def _exchanged(w, n):
    return w.reshape(n, 2, -1)[:, ::-1].reshape(w.shape)


@pytest.mark.parametrize(
    ("fn", "name", "encoding", "words"),
    [
        (_exchanged, "permute_weights", None, "the two halves of each head are exchanged"),
        (lambda n: (np.arange(n) + 1) % 5 != 0, "layers", MODEL, "every 5th layer is one of"),
        (
            lambda: 0.09 / (0.1 * np.log(40) + 1) ** 2, "softmax_scale", MODEL,
            "the declared scale is divided by the square of YaRN's factor 1.36889",
        ),
        (_late, "packed", None, "documents restart one token late"),
        (_subtracted, "packed", None, "the length of the document is subtracted, not its start"),
    ],
)  # fmt: skip
def test_a_mistake_made_here_is_named(fn, name, encoding, words):
    (finding,) = check(fn, encoding, name).findings
    assert words in finding.message


def test_rows_of_a_learned_table_are_equal_to_the_bit():
    right = own("rows", encoding := pr.Learned(WEIGHT))
    wrong = check(lambda n: np.nextafter(right(n), np.float32(9)), encoding, "rows")
    assert wrong.verdict == "deviates"


def test_an_unknown_mistake_has_the_code_of_its_row():
    report = check(lambda lengths: pr.packed(lengths) ** 3 % 7, None, "packed")
    assert report.codes == ["packing"]
    assert "no known mistake explains them" in str(report)


def test_a_rule_explains_wrong_integers():
    report = check(lambda lengths: pr.packed(lengths) * 3, None, "packed")
    assert report.codes == ["packing"]
    assert report.findings[0].message == "the result is 3 times the declared value"


def test_only_what_has_a_meaning_is_compared():
    assert check(lambda w: pr.relative_index(w) * 7 - 100, None, "relative_index").passed
    assert not check(lambda w: pr.relative_index(w) // 2, None, "relative_index").passed

    def future_is_noise(x):
        y = np.array(pr.relative_shift(x))
        q, k = x.shape
        y[np.arange(k) > k - q + np.arange(q)[:, None]] = np.nan
        return y

    assert check(future_is_noise, None, "relative_shift").passed

    def padding_is_noise(mask):
        return np.where(mask == 1, pr.position_ids(mask), 99)

    assert check(padding_is_noise, None, "position_ids").passed


def test_what_may_be_refused_and_what_may_not():
    def plain(lengths):
        if (np.asarray(lengths) == 0).any() or not len(lengths):
            raise ValueError("no empty documents")
        return pr.packed(lengths)

    report = check(plain, None, "packed")
    assert report.passed
    assert sum("no empty documents" in limit for limit in report.limits) == 3

    def one(lengths):
        if len(lengths) > 1:
            raise ValueError("one document")
        return pr.packed(lengths)

    assert check(one, None, "packed").codes == ["raises"]


def test_shapes_dtypes_and_inputs_written_over():
    assert check(lambda n: pr.packed(n)[:-1], None, "packed").codes == ["shape"]
    assert check(lambda n: pr.packed(n).astype(float), None, "packed").codes == ["dtype"]

    def in_place(mask):
        mask[...] = pr.position_ids(mask)
        return mask.copy()

    report = check(in_place, None, "position_ids")
    assert report.codes == ["mutates-input"]
    assert "attention_mask" in str(report)


def test_state_is_told_from_a_mistake():
    class Growing:
        def __init__(self):
            self.seen = 0

        def __call__(self, lengths):
            self.seen += 1
            return pr.packed(lengths) + (self.seen > 2)

    report = check(Growing(), None, "packed", factory=Growing)
    assert report.codes == ["state"]


@pytest.mark.parametrize(
    ("encoding", "surface", "message"),
    [
        (pr.ALiBi(4), "packed", "'packed' is for functions without an encoding, got ALiBi"),
        (pr.ALiBi(4), "layers", "'layers' is for whole models .* got ALiBi"),
        (MODEL, "apply", r"model.only or model.encodings.name. for name in \['full', 'nope'\]"),
        (pr.Learned(WEIGHT), "ids_from_tokens", "is for Learned tables with padding_idx, got"),
        (pr.XPos(8, layout="half"), "normed_apply", "but XPos scales them differently"),
        (None, "rows", "encoding must be given"),
        (
            pr.ModelEncoding("m", encodings={"a": None}),
            "layers",
            "'layers' is for models with layer_types, the type of each layer; m has none",
        ),
        (
            pr.preset("smollm3-3b", base=2e6),
            "layers",
            r"it states the types \(full_attention, full_attention_nope\), not which layer has "
            "which.* num_hidden_layers and, if layers differ, layer_types or no_rope_layers",
        ),
    ],
)
def test_errors(encoding, surface, message):
    with pytest.raises(ValueError, match=message):
        check(lambda *a: a, encoding, surface)


@pytest.mark.parametrize("rows", range(3, 10))
def test_tables_of_a_few_rows(rows):
    table = pr.Learned(np.ones((rows, 4), np.float32), padding_idx=1)

    def fn(ids, start):
        real = ids != 1
        at = np.cumsum(real, axis=-1) * real + start
        if at.max(initial=0) >= rows:
            raise IndexError(f"the table has {rows} rows")
        return at

    report = check(lambda ids: fn(ids, 1), table, "ids_from_tokens")
    assert report.verdict == "conforms", report
    assert not report.limits
    assert check(lambda ids: fn(ids, 0), table, "ids_from_tokens").verdict == "deviates"


@pytest.mark.parametrize("name", POSITION_ROWS)
def test_required_calls_reach_the_least_position_and_length(name):
    """So a function that refuses every other call has met the rule of harness/floor.py."""
    encoding = DECLARED.get(name, [None])[0]
    calls = [p for p in POSITION_ROWS[name].probes(encoding, 0, "float32") if p.required]
    results = [np.asarray(own(name, encoding)(*one.arguments)) for one in calls]
    assert max(r.max(initial=0) for r in results) >= LEAST_POSITION
    assert max(r.shape[-1] for r in results) >= LEAST_TOKENS


def test_the_size_of_a_head_is_not_that_of_columns():
    def permute(w, n_heads):
        rows, hidden = np.shape(w) if np.ndim(w) == 2 else (np.shape(w)[0], 0)
        d, other = rows // n_heads, hidden // n_heads
        if other and other % 2 == 0 and hidden % n_heads == 0 and rows % other == 0:
            d = other  # hidden / n_heads, where heads need not fill the hidden size
        return np.asarray(w)[np.arange(rows).reshape(-1, 2, d // 2).swapaxes(1, 2).ravel()]

    assert check(permute, None, "permute_weights").codes == ["permutation"]


def test_a_remedy_of_two_mistakes_is_said_once():
    def by_the_row(x):
        q, k = x.shape
        return x[np.arange(q)[:, None], (np.arange(q)[:, None] + np.arange(k)) % k]

    (finding,) = check(by_the_row, None, "relative_shift").findings
    assert "; and " in finding.message
    sentences = finding.remedy.split(". ")
    assert len(sentences) == len({s.rstrip(".") for s in sentences}), finding.remedy
