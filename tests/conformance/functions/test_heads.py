"""``apply`` where heads differ: correct functions conform, and every known mistake is named."""

import numpy as np
import pytest

from posenc_ref import FoPE, MixedRoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.functions.function import PlainCall
from posenc_ref.conformance.functions.heads import BY_HEAD
from tests.night import by_day

RNG = np.random.default_rng(11)
COS, SIN = np.eye(5) + 0.3 * RNG.standard_normal((2, 3, 5, 5))
MIXED = MixedRoPE(16, 0.4 * RNG.standard_normal((4, 3, 7)), layout="interleaved")
DECLARED = [
    FoPE(16, COS, SIN, dropped_sin=1),
    FoPE(16, COS[..., :4], SIN[..., :4], dropped_sin=0, base=500000.0),
    FoPE(12, COS[:1], SIN[:1], dropped_sin=0),
    MIXED,
    MixedRoPE(16, MIXED.weight[:3, :, :], layout="half"),
    MixedRoPE(16, MIXED.weight[:, :1], layout="half"),
]
IDS = [f"{type(e).__name__}-{n}" for n, e in enumerate(DECLARED)]


@pytest.mark.parametrize("encoding", DECLARED, ids=IDS)
def test_our_own_apply_conforms(encoding):
    for layout in ("bhsd", "bshd"):

        def apply(x, positions, layout=layout):
            x = x if layout == "bhsd" else x.swapaxes(1, 2)
            y = encoding.apply(x, positions)
            return y if layout == "bhsd" else y.swapaxes(1, 2)

        report = check(apply, encoding, "apply", tensor_layout=layout)
        assert report.passed, str(report)
        assert not report.limits
        assert len(report.controls) == 2


@pytest.mark.parametrize("encoding", by_day(DECLARED, DECLARED[1:2]), ids=repr)
def test_every_known_mistake_is_named(encoding):
    wrong = set()
    for mistake in BY_HEAD.mistakes(encoding):

        def fn(x, at, mistake=mistake):
            call = PlainCall(BY_HEAD, encoding, (x.astype(np.float64), at))
            return mistake.predict(call).value.astype(x.dtype)

        report = check(fn, encoding, "apply")
        if not report.passed:  # else no mistake with this declaration
            assert report.codes == [mistake.code], (mistake.message, str(report))
            assert "no known mistake" not in str(report), mistake.message
            wrong.add(mistake.message)
    assert len(wrong) >= 6


def test_a_head_is_an_encoding_of_its_own(rng):
    """The numbers of each head are those of its encoding, which the registry proves."""
    x, at = rng.standard_normal((2, 4, 5, 16)), rng.integers(0, 99, (3, 2, 5))
    cos, sin = MIXED.cos_sin(at)
    assert cos.shape == (2, 4, 5, 7)
    for h in range(4):
        one = MIXED.head(h)
        assert one == MIXED.replace(weight=MIXED.weight[h])
        assert np.array_equal(MIXED.apply(x, at)[:, h], one.apply(x[:, h], at))
        assert np.array_equal(MIXED.inverse(x, at)[:, h], one.inverse(x[:, h], at))
        assert np.array_equal(MIXED.shift(x, at)[:, h], one.shift(x[:, h], at))
        assert np.array_equal(cos[:, h], one.cos_sin(at)[0])
        assert np.array_equal(sin[:, h], one.cos_sin(at)[1])
        assert np.array_equal(MIXED.matrix([1.0, 2.0, 3.0])[h], one.matrix([1.0, 2.0, 3.0]))
        assert one.head(0) is one


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: MIXED.frequencies(), r"differ between the 4 heads: ask head\(h\)"),
        (lambda: MIXED.head(4), "index must be below the number of heads, 4, got 4"),
        (lambda: MIXED.apply(np.zeros((1, 3, 5, 16)), range(5)), "with H = 4, the heads of weight"),
        (
            lambda: check(MIXED.apply, MIXED, "decode"),
            "got MixedRoPE with a map for each head; judge it",
        ),
        (lambda: check(MIXED.apply, MIXED, "scores"), "surface 'scores' is for"),
    ],
)
def test_errors(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:In CPU autocast")
def test_mochi_of_diffusers(rng):
    """``MochiRoPE`` makes the tables of all heads from fractional positions."""
    torch = pytest.importorskip("torch", reason="PyTorch runs what is judged")
    pytest.importorskip("diffusers", reason="diffusers is what is judged")
    from diffusers.models.transformers.transformer_mochi import MochiRoPE

    frequencies = torch.tensor(0.3 * rng.standard_normal((3, 4, 8)), dtype=torch.float32)
    module = MochiRoPE()

    def apply(x, positions):
        rows = []
        for row, at in zip(x, positions.unbind(1), strict=True):
            cos, sin = (t.swapaxes(0, 1) for t in module._create_rope(frequencies, at.T))
            even, odd = row[..., 0::2], row[..., 1::2]  # as in MochiAttnProcessor2_0
            both = even * cos - odd * sin, even * sin + odd * cos
            rows.append(torch.stack(both, dim=-1).flatten(-2))
        return torch.stack(rows)

    declared = MixedRoPE(16, frequencies.numpy().swapaxes(0, 1), layout="interleaved")
    report = check(apply, declared, "apply", backend="torch", angles="float32")
    assert report.passed, str(report)
    other = declared.replace(weight=declared.weight[::-1])
    assert check(apply, other, "apply", backend="torch").codes == ["head-order"]
    at = module._get_positions(
        2, 4, 6, dtype=torch.float32
    )  # frames, and centres of patches around 0
    assert at.T[0].unique().tolist() == [0.0, 1.0]
    scale = (192 * 192 / (4 * 6)) ** 0.5
    assert np.array_equal(
        at.T[1].unique().numpy(), np.float32(scale) * np.array([-1.5, -0.5, 0.5, 1.5], "f4")
    )


def turned(x, cos, sin):
    one, two = np.split(x, 2, axis=-1)
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)


def plain_rope(x, at):
    """An engine that does not read the coefficients."""
    angle = np.asarray(at)[..., None] * 500000.0 ** (-np.arange(8) / 8)
    angle = angle if angle.ndim == 2 else angle[:, None]
    return turned(x.astype(float), np.cos(angle), np.sin(angle)).astype(x.dtype)


def padded_in_front(x, at):
    """C = 1 and S = 0 of the first four pairs, not of the last four."""
    angle = np.asarray(at)[..., None] * 500000.0 ** (-np.arange(5) / 8)
    cos, sin = (np.einsum("...sk,hkd->...hsd", wave(angle), c[..., :4])
                for wave, c in ((np.cos, COS), (np.sin, SIN)))  # fmt: skip
    groups = x.shape[1] // 3
    cos, sin = (np.repeat(c, groups, axis=-3) for c in (cos, sin))
    rest = np.zeros(cos.shape)
    tables = np.concatenate([rest + 1, cos], axis=-1), np.concatenate([rest, sin], axis=-1)
    return turned(x.astype(float), *tables).astype(x.dtype)


@pytest.mark.parametrize(
    ("fn", "code", "text"),
    [
        (plain_rope, "coefficients", "this is plain RoPE"),
        (padded_in_front, "dropped-pairs", "the dropped pairs are the first, not the last"),
    ],
)
def test_fope_read_as_rope_or_padded_in_front(fn, code, text):
    report = check(fn, DECLARED[1], "apply")
    assert report.codes == [code]
    assert text in report.findings[0].message
