"""The surfaces that rotate otherwise than by `apply`: what only their own calls show, and more."""

import numpy as np
import pytest

from posenc_ref import (
    DynamicNTK,
    LinearScaling,
    MixedRoPE,
    MultiAxisRoPE,
    RoPE,
    Sinusoidal,
    XPos,
    YaRN,
)
from posenc_ref.conformance import check
from posenc_ref.conformance.rotary.as_apply import Inexpressible
from tests.conformance.handwritten import rope

D = 16
HALF = RoPE(D, layout="half")
ROTARY = [
    RoPE(
        D,
        layout="interleaved",
        rotary_dim=8,
        rotary_start=8,
        output_layout="half",
        scaling=YaRN(8.0, 512),
    ),
    RoPE(D, layout="half", scaling=DynamicNTK(2.0, 64)),
    MultiAxisRoPE(D, sections=(3, 3, 2), layout="half", arrangement="interleaved"),
    MultiAxisRoPE(D, sections=(4, 4), layout="interleaved", spacing="strided", offset=1.0),
    MixedRoPE(D, np.linspace(0.1, 0.9, 8).reshape(2, 4), layout="half"),
]


def text(encoding, x, positions, seq_len=None):
    """Positions (S,) or (B, S), the same on every axis."""
    p = np.asarray(positions)
    if encoding.num_axes > 1 and p.ndim == 2:
        p = np.broadcast_to(p, (encoding.num_axes, *p.shape))
    return encoding.apply(x, p, seq_len=seq_len)


def own(surface, encoding):
    """Our own encoding in the shape of a surface."""

    def chunked(x, chunks, whole):
        outputs, start = [], 0
        for n in chunks:
            length = x.shape[2] if whole else start + n
            p = np.arange(start, start + n)
            outputs.append(text(encoding, x[:, :, p], p, max(length, 1)))
            start += n
        return np.concatenate(outputs, axis=2)

    return {
        "apply_qk": lambda q, k, at, k_at: (encoding.apply(q, at), encoding.apply(k, k_at)),
        "apply_offset": lambda x, offset: text(
            encoding, x, offset[:, None] + np.arange(x.shape[2])
        ),
        "decode": lambda x, chunks: chunked(x, chunks, False),
        "key_cache": lambda k, chunks: chunked(k, chunks, True),
        "apply_vjp": lambda x, at, dy: encoding.adjoint(dy, at),
        "calls": lambda calls: [text(encoding, x, o + np.arange(x.shape[2])) for x, o in calls],
        "shift_keys": lambda k, delta: encoding.shift(k, delta),
    }[surface]


SURFACES = (
    "apply_qk", "apply_vjp", "apply_offset", "calls", "decode", "key_cache", "shift_keys"
)  # fmt: skip


@pytest.mark.parametrize(
    ("surface", "encoding"),
    [  # by day the first encoding on every surface, every encoding, and every refusal
        pytest.param(
            surface,
            encoding,
            id=f"{surface}-{type(encoding).__name__}-{n}",
            marks=()
            if n == 0 or m == n or (surface == "shift_keys" and encoding.depends_on_length)
            else pytest.mark.nightly,
        )
        for m, surface in enumerate(SURFACES)
        for n, encoding in enumerate(ROTARY)
    ],
)
def test_our_own_encodings_conform(surface, encoding):
    if surface == "shift_keys" and encoding.depends_on_length:
        with pytest.raises(ValueError, match="frequencies that do not depend on the length"):
            check(own(surface, encoding), encoding, surface)
        return
    report = check(own(surface, encoding), encoding, surface)
    assert report.passed, report
    assert not any(Inexpressible.__name__ in limit for limit in report.limits)
    assert report.accuracy.worst < report.accuracy.budget
    assert len(report.controls) > 2
    assert all(report.controls.values())


def test_xpos_is_judged_with_queries_and_keys():
    xpos = XPos(D, layout="half")
    fn = lambda q, k, at, k_at: (xpos.apply_queries(q, at), xpos.apply_keys(k, k_at))  # noqa: E731
    assert check(fn, xpos, "apply_qk").passed
    for surface in ("apply", *SURFACES[1:]):
        with pytest.raises(ValueError, match=r"XPos scales them differently; .* 'apply_qk'"):
            check(fn, xpos, surface)


def test_only_own_calls_see_rows_mixed_up():
    def offset(x, offset):
        return text(HALF, x, np.sort(offset)[:, None] + np.arange(x.shape[2]))

    report = check(offset, HALF, "apply_offset")
    assert report.codes == ["row-offset"]


def test_only_the_apply_inside_sees_late_positions():
    fn = rope(positions=lambda p: np.minimum(p, 90000))
    encoding = RoPE(8, layout="half")
    report = check(
        lambda x, offset: fn(x, offset[:, None] + np.arange(x.shape[2])), encoding, "apply_offset"
    )
    assert report.codes == ["position-range"], report
    report = check(lambda q, k, a, b: (fn(q, a), fn(k, b)), encoding, "apply_qk")
    assert report.codes == ["position-range"], report


def test_a_refusal_is_a_limit():
    def first_sequence_only(x, chunks):
        if len(chunks) > 1 and chunks[1] > 1:
            raise NotImplementedError("one token at a time after the prompt")
        return own("decode", HALF)(x, chunks)

    report = check(first_sequence_only, HALF, "decode", max_position=200)
    assert report.verdict == "conforms", report
    assert "chunks of one token after the first" in report.limits[0]
    fn = own("decode", HALF)

    def no_empty(x, chunks):
        if 0 in chunks:
            raise ValueError("an empty chunk")
        return fn(x, chunks)

    report = check(no_empty, HALF, "decode")
    assert report.passed
    assert any("an empty chunk" in limit for limit in report.limits)


def test_queries_that_are_placed_at_the_end_of_the_keys():
    def fn(q, k, at, k_at):
        return HALF.apply(q, k_at[..., -q.shape[2] :]), HALF.apply(k, k_at)

    [finding] = check(fn, HALF, "apply_qk").findings
    assert finding.message.startswith("queries get the positions of the last keys")


def test_a_wrong_shape_and_a_missing_part():
    report = check(lambda q, k, a, b: HALF.apply(q, a), HALF, "apply_qk")
    assert report.codes == ["shape"]
    report = check(lambda x, offset: x[:, :, :1], HALF, "apply_offset")
    assert report.codes == ["shape"]
    report = check(lambda x, chunks: x[:, :, : chunks[-1]], HALF, "key_cache")
    assert report.codes == ["shape"]
    for results in (lambda calls: [x for x, _ in calls][:-1], lambda calls: {0: calls[0][0]}):
        report = check(results, HALF, "calls")
        assert report.codes == ["shape"]
        assert "expected a list of" in report.findings[0].message


def test_a_short_result_of_one_call_and_an_x_that_is_changed_in_place():
    def short(calls):
        return [y[:, :, :-1] for y in own("calls", HALF)(calls)]

    report = check(short, HALF, "calls")
    assert report.codes == ["shape"], report
    assert "expected shape (2, 3, 5, 16), as x has, got (2, 3, 4, 16)" in str(report)

    def changed(calls):
        outputs = own("calls", HALF)(calls)
        calls[-1][0][...] = 0
        return outputs

    report = check(changed, HALF, "calls")
    assert "mutates-input" in report.codes, report


def test_the_first_call_is_named_if_its_repetition_differs():
    class Second:
        """The second call that equals the very first one, in x and offset, is wrong."""

        def __init__(self, surface):
            self.surface, self.seen = surface, 0

        def __call__(self, *args):
            y = own(self.surface, HALF)(*args)
            x, only = (args[0][0][0], y[0]) if self.surface == "calls" else (args[0], y)
            if x.shape == (2, 3, 5, D) and (self.surface != "calls" or len(args[0]) == 1):
                self.seen += 1
                only[...] += self.seen > 1
            return y

    report = check(Second("calls"), HALF, "calls")
    assert "call 1 of 1, B, H, S = (2, 3, 5) at offset 0, replayed" in str(report), report


def test_an_offset_that_is_advanced_in_place():
    def advancing(x, offset):
        y = text(HALF, x, offset[:, None] + np.arange(x.shape[2]))
        offset += x.shape[2]
        return y

    report = check(advancing, HALF, "apply_offset")
    assert report.codes == ["mutates-input"]


@pytest.mark.nightly
def test_harmless_only_if_every_logit_agrees():
    deinterleave = np.r_[0:D:2, 1:D:2]

    def both(q, k, at, k_at):
        return HALF.apply(q, at)[..., deinterleave], HALF.apply(k, k_at)[..., deinterleave]

    report = check(both, HALF, "apply_qk")
    assert report.passed
    assert [f.code for f in report.findings] == ["harmless-convention"]
    assert report.executed["logits"] > 5

    def one(q, k, at, k_at):
        return HALF.apply(q, at)[..., deinterleave], HALF.apply(k, k_at)

    assert check(one, HALF, "apply_qk").codes == ["output-layout"]

    def later(q, k, at, k_at):  # right differences while both sides are moved by the same
        return HALF.apply(q, at + (at > 100)), HALF.apply(k, k_at)

    assert check(later, HALF, "apply_qk").verdict == "deviates"


@pytest.mark.nightly
def test_a_missing_scaling_shows_through_every_surface():
    declared = RoPE(D, layout="half", scaling=LinearScaling(4.0))
    for surface in SURFACES:
        report = check(own(surface, HALF), declared, surface)
        assert report.codes == ["scaling-missing"], report


@pytest.mark.nightly
def test_other_libraries_and_dtypes():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")

    def offset(x, start):
        return HALF.apply(x, start[:, None] + torch.arange(x.shape[2]))

    def decode(x, chunks):
        return HALF.apply(x, torch.arange(sum(chunks)))

    def calls(every):
        return [HALF.apply(x, o + torch.arange(x.shape[2])) for x, o in every]

    for dtype in ("float32", "bfloat16"):
        assert check(calls, HALF, "calls", backend="torch", dtype=dtype).passed
        for surface in ("apply_vjp", "shift_keys"):
            assert check(own(surface, HALF), HALF, surface, backend="torch", dtype=dtype).passed
        assert check(offset, HALF, "apply_offset", backend="torch", dtype=dtype).passed
        assert check(decode, HALF, "decode", backend="torch", dtype=dtype).passed
        qk = own("apply_qk", HALF)
        assert check(qk, HALF, "apply_qk", backend="torch", dtype=dtype).passed


@pytest.mark.parametrize("layout", ["bshd", "sbhd"])
def test_queries_and_keys_in_other_tensor_layouts(layout):
    order = {"bshd": (0, 2, 1, 3), "sbhd": (1, 2, 0, 3)}[layout]
    back = np.argsort(order)
    qk = own("apply_qk", HALF)

    def moved(q, k, at, k_at):
        y = qk(q.transpose(order), k.transpose(order), at, k_at)
        return tuple(t.transpose(back) for t in y)

    assert check(moved, HALF, "apply_qk", tensor_layout=layout).passed
    assert not check(qk, HALF, "apply_qk", tensor_layout=layout).passed


def test_tables_are_refused():
    with pytest.raises(ValueError, match="is for rotary encodings"):
        check(lambda x, chunks: x, Sinusoidal(8), "decode")


@pytest.mark.nightly
def test_the_lines_that_reproduce_a_failure_call_the_surface():
    other = HALF.replace(base=500.0)
    expected = {
        "apply_qk": "fn(x, x, p, p)[0]",
        "apply_vjp": "fn(x, p, x)",
        "apply_offset": "fn(x, np.full(len(x), p[0]))",
        "calls": "fn([(x, int(p[0]))])[0]",
        "decode": "fn(x, [len(p)])",
        "shift_keys": "fn(x, int(p[0]))",
    }
    for surface, call in expected.items():
        fn = own(surface, other)
        report = check(fn, HALF, surface)
        lines = next(f.reproduce for f in report.findings if f.reproduce)
        assert call in lines
        names = {"fn": fn}
        exec(lines.replace("print(", "shown = ("), names)
        got, right = names["shown"]
        assert got != right


def test_a_gradient_is_the_adjoint_whatever_autograd_says():
    pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    yarn = RoPE(D, layout="half", scaling=YaRN(8.0, 512))

    def vjp(x, positions, dy):
        x = x.clone().requires_grad_()
        yarn.apply(x, positions).backward(dy)
        return x.grad

    assert check(vjp, yarn, "apply_vjp", backend="torch").passed
    report = check(lambda x, at, dy: yarn.inverse(dy, at), yarn, "apply_vjp", backend="torch")
    assert report.codes == ["attention-factor"]


def test_state_across_calls_is_told_from_wrong_offsets():
    class Latching:
        """Everything after a call past 4096 is one position late."""

        def __call__(self, calls):
            late, outputs = 0, []
            for x, offset in calls:
                outputs.append(text(HALF, x, late + offset + np.arange(x.shape[2])))
                late = late or int(offset + x.shape[2] > 4096)
            return outputs

    report = check(Latching(), HALF, "calls")
    assert report.codes == ["state"]
    assert "past 4096 and back" in str(report)
    report = check(lambda calls: own("calls", HALF)(calls)[::-1], HALF, "calls")
    assert report.codes[0] in ("shape", "state")


@pytest.mark.nightly
def test_the_remedy_of_wrong_shifts_does_not_end_in_a_place():
    shifts = []

    def stale(keys, delta):
        shifts.append(delta)
        return HALF.apply(keys, np.full(keys.shape[2], shifts[min(len(shifts), 3) - 1]))

    finding = check(stale, HALF, "shift_keys").findings[0]
    assert "; wrong: " in f"{finding.message}; {finding.evidence}"
    assert "wrong: " not in finding.remedy
