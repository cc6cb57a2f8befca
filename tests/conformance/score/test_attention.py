"""Surface ``attention``: our own functions conform, mistakes are named, arguments are explained."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref import Attention, RoPE
from posenc_ref.conformance import SURFACES, check
from posenc_ref.conformance.attention.judge import ROW
from posenc_ref.conformance.attention.mistakes import attention_mistakes, rarer_mistakes
from posenc_ref.conformance.functions.function import PlainCall
from posenc_ref.conformance.oracle.attention import whole_tokens
from posenc_ref.conformance.registry import entries
from tests.night import by_day

TAIL = RoPE(16, layout="interleaved", rotary_dim=8, rotary_start=8)
YARN = RoPE(16, layout="half", scaling=pr.YaRN(8.0, 512))
DECLARED = {
    "deepseek-v4": Attention(TAIL, values="shared", sinks=True),
    "rope": RoPE(16, layout="half"),
    "yarn": Attention(YARN, values="rotated"),
    "dynamic": Attention(YARN.replace(scaling=pr.DynamicNTK(4.0, 512)), values="rotated"),
    "not-causal": Attention(RoPE(16, layout="half"), causal=False, softmax_scale=0.3),
    "axes": Attention(pr.MultiAxisRoPE(16, sections=(4, 4), layout="half"), values="rotated"),
    "alibi": pr.ALiBi(6),
    "xpos": pr.XPos(16, layout="interleaved"),
    "cope": pr.CoPE(np.random.default_rng(1).standard_normal((16, 5))),
    "nope": Attention(None, sinks=True),
    "model": pr.preset("llama-3.1-8b"),
}


def own(name, dtype="float32"):
    """posenc_ref's own function."""
    return SURFACES["attention"].own(DECLARED[name], dtype)


@pytest.mark.parametrize("name", DECLARED)
def test_our_own_functions_conform(name):
    report = check(own(name), DECLARED[name], "attention")
    assert report.passed, report
    assert report.accuracy.worst < 4
    assert len(report.controls) == 2


EXAMPLES = [e for entry in entries() for e in entry.examples.values() if e.family != "table"]


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", EXAMPLES, ids=lambda e: type(e).__name__)
def test_every_encoding_has_an_attention(encoding):
    """Except ConViT's, which blends two softmaxes, and PRoPE, which changes values and output."""
    if isinstance(encoding, pr.ConViTBias):
        with pytest.raises(TypeError, match="blends two softmaxes"):
            Attention(encoding)
        return
    if isinstance(encoding, pr.PRoPE):
        with pytest.raises(ValueError, match="does not judge PRoPE"):
            check(lambda *arguments: arguments[0], encoding, "attention")
        return
    of = encoding
    if whole_tokens(encoding) is not None:
        of = Attention(encoding, causal=False)
    report = check(SURFACES["attention"].own(of, "float32"), of, "attention")
    assert report.passed, report
    assert report.executed["values"] >= 4


@pytest.mark.parametrize("name", ["deepseek-v4", "alibi"])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_our_own_functions_conform_on_torch(name, dtype):
    pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    report = check(own(name, dtype), DECLARED[name], "attention", backend="torch", dtype=dtype)
    assert report.passed, report


def every_mistake(name):
    return [*attention_mistakes(DECLARED[name]), *rarer_mistakes(DECLARED[name])]


def mistakes(name):
    """Pairs of a declaration and the number of a mistake; the first of them by day."""
    cases = [(name, n) for n in range(len(every_mistake(name)))]
    return by_day(cases, cases[:1])


@pytest.mark.parametrize(
    "case", [*mistakes("deepseek-v4"), *mistakes("alibi"), *mistakes("not-causal")]
)
def test_every_known_mistake_is_named(case):
    """Messages may differ where two mistakes give the same numbers."""
    name, number = case
    of = DECLARED[name]
    mistake = every_mistake(name)[number]
    right = own(name)

    def fn(*arguments):
        truth = mistake.predict(PlainCall(ROW, of, arguments))
        expected = np.asarray(right(*arguments))
        return expected if truth is None else truth.value.astype(np.float32)

    report = check(fn, of, "attention")
    assert report.codes == [mistake.code], (mistake.message, str(report))
    assert "no known mistake explains" not in str(report)


@pytest.mark.parametrize("scale", [1e-3, 3e-2])
def test_a_small_error_without_a_known_cause_is_found(scale):
    def fn(*arguments):
        out = own("deepseek-v4")(*arguments)
        out[..., -1, 3] *= 1 + scale
        return out

    report = check(fn, DECLARED["deepseek-v4"], "attention")
    assert report.codes == ["inaccurate"]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (pr.Sinusoidal(16), "surface 'attention' is for"),
        (pr.SwinBias(np.zeros((9, 2)), window=(2, 2)), r"Attention\(SwinBias\(...\), causal=False"),
        (pr.preset("deepseek-v4-flash"), "layer_type must be one of 'main', 'compress'"),
        (pr.MRoPEPositions(), "surface 'attention' is for"),
    ],
)
def test_declarations_without_an_attention_are_refused(declared, words):
    with pytest.raises((TypeError, ValueError), match=words):
        check(lambda *arguments: None, declared, "attention")


def test_an_attention_is_for_its_own_surface():
    with pytest.raises(ValueError, match="surface 'scores' is for"):
        check(lambda q, k: None, DECLARED["yarn"], "scores")


ROPE = RoPE(16, layout="half")
AXES = pr.MultiAxisRoPE(16, sections=(4, 4), layout="half")
HEADS = pr.MixedRoPE(8, 0.3 * np.random.default_rng(3).standard_normal((2, 2, 4)), layout="half")


def by(change, of, **kwargs):
    """The declared function after ``change`` of the call (q, k, v, q_at, k_at)."""
    return lambda *call: of.output(*change(*call), **kwargs)


def places(change):
    return lambda q, k, v, a, b: (q, k, v, change(a), change(b))


def unshifted(of):
    """Softmax without the largest logit subtracted."""

    def fn(q, k, v, a, b):
        n, n_k = q.shape[2], k.shape[2]
        logits = np.where(np.tri(n, n_k, n_k - n, dtype=bool), of.scores(q, k, a, b), -np.inf)
        with np.errstate(all="ignore"):
            e = np.exp(logits)
            out = e / e.sum(-1, keepdims=True) @ np.repeat(v, q.shape[1] // k.shape[1], 1)
        return out.astype(q.dtype)

    return fn


def clipped_sinks(q, k, v, a, b, sinks):
    of = Attention(ROPE, sinks=True)
    return of.output(q, k, v, a, b, sinks=np.clip(sinks, -5, 5))


def first(of, change):
    """The declared output, with ``change`` of it in place."""

    def fn(*call):
        out = of.output(*call)
        change(out)
        return out

    return fn


A = Attention(ROPE)
WRONG = {
    "no gaps": (by(places(lambda p: p[-1] + np.arange(len(p)) - len(p) + 1), A), A),
    "int16": (by(places(lambda p: p.astype(np.int16)), A), A),
    "uint16": (by(places(lambda p: p.astype(np.uint16)), A), A),
    "a table of 600000 rows": (by(places(lambda p: np.minimum(p, 600000)), A), A),
    "queries among keys": (
        by(lambda q, k, v, a, b: (q, k, v, b[-len(a) :], b), A.replace(causal=False)),
        A.replace(causal=False),
    ),
    "no maximum": (unshifted(A), A),
    "clipped sinks": (clipped_sinks, A.replace(sinks=True)),
    "8 heads": (first(A, lambda out: out[:, 8:].fill(0)), A),
    "3 rows": (first(A, lambda out: out[3:].fill(0)), A),
    "33 queries": (first(A, lambda out: out[:, :, 33:].fill(0)), A),
    "axis 0": (by(places(lambda p: p[[0, 0]]), Attention(AXES)), Attention(AXES)),
    "axes reversed": (by(places(lambda p: p[::-1]), Attention(AXES)), Attention(AXES)),
    "row 0": (
        by(places(lambda p: np.broadcast_to(p[:, :1], p.shape)), Attention(AXES, values="rotated")),
        Attention(AXES, values="rotated"),
    ),
    "axes of heads": (by(places(lambda p: p[::-1]), Attention(HEADS)), Attention(HEADS)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_shorter_or_nearer_calls_do_not_show(name):
    fn, declared = WRONG[name]
    assert check(fn, declared, "attention").verdict == "deviates"


@pytest.mark.parametrize("values", ["plain", "rotated"])
def test_heads_with_frequencies_of_their_own_conform(values):
    of = Attention(HEADS, values=values)
    assert check(of.output, of, "attention").passed


def test_values_may_have_another_number_of_channels():
    def fn(q, k, v, *at):
        if v.shape[-1] != q.shape[-1]:
            raise ValueError("d_v must be d")
        return A.output(q, k, v, *at)

    report = check(fn, A, "attention")
    assert any("more channels of values: refused" in limit for limit in report.limits)


def test_no_position_above_the_largest_allowed_is_sent():
    seen = []
    report = check(
        lambda *call: [A.output(*call), seen.append(call[4].max())][0],
        A, "attention", max_position=2047,
    )  # fmt: skip
    assert report.passed
    assert 1000 < max(seen) <= 2047
