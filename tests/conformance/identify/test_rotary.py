"""identify of rotary functions: every convention comes out as itself, not as a neighbour."""

import ml_dtypes  # noqa: F401  (bfloat16 for NumPy)
import numpy as np
import pytest

from posenc_ref import (
    DynamicNTK,
    GivenFrequencies,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    MixedRoPE,
    MultiAxisRoPE,
    NTKByParts,
    NTKScaling,
    Proportional,
    QwenNTK,
    RoPE,
    SuNTK,
    XPos,
    YaRN,
    preset,
)
from posenc_ref.accuracy import Truth
from posenc_ref.conformance import check, identify
from posenc_ref.conformance.identify import names
from tests.conformance.handwritten import rope
from tests.night import by_day

#: Far enough for every rule of length below, and near enough to be quick.
NEAR = 2**13

SHAPES = [
    RoPE(2, layout="half"),
    RoPE(4, layout="interleaved"),
    RoPE(6, layout="half"),
    RoPE(30, layout="half", base=500000.0),
    RoPE(34, layout="interleaved", base=100000.0),
    RoPE(20, layout="half", rotary_dim=10),
    RoPE(24, layout="interleaved", rotary_dim=8, rotary_start=16),
    RoPE(24, layout="half", rotary_dim=12, rotary_start=12),
    RoPE(16, layout="half", sign=-1),
    RoPE(16, layout="half", output_layout="interleaved"),
    RoPE(16, layout="interleaved", output_layout="half"),
]
#: No base, scale or factor here is a neighbour's: 10000 and 10010, 1.1386 and 1.14, 4 and 4.01.
SCHEDULES = [
    RoPE(32, layout="half", base=10010.0),
    RoPE(32, layout="half", base=1234567.0),
    RoPE(32, layout="half", base=9.75),
    RoPE(32, layout="half", scaling=LinearScaling(4.0)),
    RoPE(32, layout="half", scaling=LinearScaling(4.01)),
    RoPE(32, layout="half", base=500000.0, scaling=NTKScaling(8.0)),
    RoPE(32, layout="half", scaling=SuNTK(8.0)),
    RoPE(64, layout="half", scaling=Proportional(0.25)),
    RoPE(64, layout="half", scaling=NTKByParts(8.0, 2048)),
    RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
    RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192)),
    RoPE(64, layout="half", base=1000000.0, scaling=YaRN(4.0, 32768)),
    RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)),
    RoPE(64, layout="half", scaling=YaRN(16.0, 4096, attention_factor=1.0)),
    RoPE(64, layout="half", scaling=YaRN(16.0, 4096, attention_factor=1.14)),
    RoPE(64, layout="half", scaling=YaRN(40.0, 4096, mscale=0.707, mscale_all_dim=1.0)),
    RoPE(64, layout="half", scaling=YaRN(8.0, 131072)),  # no pair is slow enough for the factor
]
BY_LENGTH = [
    RoPE(16, layout="half", scaling=DynamicNTK(2.0, 2048)),
    RoPE(16, layout="half", scaling=DynamicNTK(4.0, 1024)),
    RoPE(16, layout="half", scaling=QwenNTK(2048)),
    RoPE(
        8,
        layout="half",
        scaling=LongRoPE((1.0, 1.1, 1.5, 2.0), (1.0, 2.0, 8.0, 16.0), 4096, factor=16.0),
    ),
]
AXES = [
    MultiAxisRoPE(32, sections=(8, 8), layout="half"),
    MultiAxisRoPE(32, sections=(4, 6, 6), layout="half", base=1000000.0),
    MultiAxisRoPE(32, sections=(6, 5, 5), layout="half", arrangement="interleaved"),
    MultiAxisRoPE(24, sections=(4, 4, 4), layout="interleaved", spacing="restart", base=256.0),
    MultiAxisRoPE(16, sections=(4, 4), layout="blockwise", spacing="restart", base=100.0),
]


def card_of(encoding, dtype="float32", **options):
    return identify(
        encoding.apply, head_dim=encoding.head_dim, axes=encoding.num_axes, dtype=dtype, **options
    )


@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [
        *((e, "float32") for e in SHAPES),
        *(pytest.param(e, "float64", marks=pytest.mark.nightly) for e in SHAPES[::3]),
        *(pytest.param(e, "bfloat16", marks=pytest.mark.nightly) for e in SHAPES[1::2]),
    ],
    ids=str,
)
def test_a_shape_is_itself(encoding, dtype):
    card = card_of(encoding, dtype, max_position=1024)
    assert card.encoding == encoding or encoding in card.aliases, str(card)
    assert card.exact, str(card)
    assert card.rule
    assert card.deviations == []


@pytest.mark.parametrize("encoding", by_day(SCHEDULES, SCHEDULES[::4]), ids=repr)
def test_a_schedule_is_itself(encoding):
    card = card_of(encoding, max_position=2**16)
    assert card.encoding == encoding, str(card)
    assert card.exact, str(card)
    assert card.rule


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("encoding", by_day(SCHEDULES[1::4], SCHEDULES[1:2]), ids=repr)
def test_a_schedule_is_itself_in_other_dtypes(encoding, dtype):
    card = card_of(encoding, dtype)
    assert card.encoding == encoding, str(card)
    assert card.exact, str(card)


@pytest.mark.parametrize("encoding", by_day(BY_LENGTH, BY_LENGTH[:3]), ids=repr)
def test_a_rule_for_the_length_is_itself(encoding):
    card = card_of(encoding, max_position=NEAR)
    assert card.encoding == encoding, str(card)
    assert card.exact, str(card)
    assert len(card.by_length) >= 2  # frequencies of more than one length are shown


@pytest.mark.parametrize("encoding", AXES, ids=repr)
def test_several_axes_are_themselves(encoding):
    card = card_of(encoding, max_position=4096)
    assert card.encoding == encoding, str(card)
    assert card.exact, str(card)
    assert ("origin" in card.facts) is bool(encoding.offset)


def test_axes_that_are_torn_deviate_and_the_suite_does_not_break():
    """An image's tokens are turned by what the call before had: no axis is followed evenly."""
    inner, seen = AXES[0].apply, {}

    def stale(x, p):
        return inner(x, seen.setdefault(p.shape, p))

    card = identify(stale, head_dim=32, axes=2, max_position=256)
    assert not card.exact
    assert not any("please report" in text for text in card.unknown), str(card)


def test_a_wrong_weight_of_mixed_axes_is_judged():
    weight = np.array([[1.0, 0.5, 0.25, 0.1], [0.3, -0.4, 0.75, 0.9]])
    fn = MixedRoPE(8, weight, layout="half").apply
    report = check(fn, MixedRoPE(8, 1.5 * weight, layout="half"), "apply", max_position=256)
    assert report.verdict == "deviates"


def test_pairs_that_follow_two_axes_at_once():
    weight = np.array([[1.0, 0.5, 0.25, 0.1], [0.3, -0.4, 0.75, 0.9]])
    mixed = MixedRoPE(8, weight, layout="half")
    card = card_of(mixed, max_position=4096)
    assert card.encoding == mixed.replace(weight=card.encoding.weight), str(card)
    truth = Truth(weight, np.abs(weight), np.zeros(weight.shape))
    assert truth.score(card.encoding.weight, dtype="float32").max() <= 1
    assert card.exact, str(card)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_several_axes_in_other_dtypes(dtype):
    encoding = AXES[1]
    card = card_of(encoding, dtype, max_position=4096)
    assert card.encoding == encoding, str(card)


@pytest.mark.parametrize(
    ("name", "other"),
    [("pythia-70m", "llama-3.2-1b"), ("llama-3.2-1b", "pythia-70m")],
)
def test_a_preset_names_its_models(name, other):
    encoding = preset(name).only
    card = card_of(encoding, max_position=NEAR)
    assert card.encoding == encoding, str(card)
    assert name in card.used_by
    assert other not in card.used_by


@pytest.mark.parametrize(
    ("encoding", "users", "near"),
    [
        (
            RoPE(64, layout="interleaved", output_layout="half",
                 scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)),
            ["deepseek-r1 (64 of its 192 channels)", "deepseek-v3 (64 of its 192 channels)"],
            "",
        ),
        (
            RoPE(64, layout="half", base=500000.0),
            [],
            "llama-3-70b, llama-3-8b, olmo-2-13b and 2 more, which have head_dim=128",
        ),
        (  # one name each, though both layer types have this encoding
            RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096)),
            [],
            "gpt-oss-120b, gpt-oss-20b, which have scaling=YaRN(32.0, 4096, truncate=False)",
        ),
    ],
    ids=["latent attention", "another head", "one field"],
)  # fmt: skip
def test_models_are_named_whatever_the_size_of_their_heads(encoding, users, near):
    assert names.used_by(encoding) == ()
    assert [*names.slices(encoding)] == users
    assert near in " ".join(names.closest(encoding))


def test_what_shares_no_code_with_the_specification():
    """Float32 angles, in plain NumPy."""
    card = identify(rope(layout="interleaved", base=500000.0), head_dim=24)
    assert card.encoding == RoPE(24, layout="interleaved", base=500000.0)
    assert card.facts["angles"] == "float32 angles"
    assert card.exact


def llama3(w, factor=8.0, low=1.0, high=4.0, length=8192):
    """As the checkpoint's own code: by wavelength, one after the other."""
    out = []
    for f in w:
        wave = 2 * np.pi / f
        if wave < length / high:
            out.append(f)
        elif wave > length / low:
            out.append(f / factor)
        else:
            smooth = (length / wave - low) / (high - low)
            out.append((1 - smooth) * f / factor + smooth * f)
    return np.array(out, np.float32)


def test_a_scaling_that_shares_no_code_with_the_specification():
    w = llama3(1 / 500000.0 ** (np.arange(0, 64, 2) / 64))
    card = identify(rope(frequencies=w), head_dim=64, max_position=2**16)
    told = Llama3Scaling(8.0, 1.0, 4.0, 8192)
    assert card.encoding == RoPE(64, layout="half", base=500000.0, scaling=told)
    (relation,) = card.relations
    assert repr(Llama3Scaling(8.0, 2.0, 8.0, 16384)) in relation  # what may be changed together


def test_a_measured_factor_is_not_rounded_into_a_deviation():
    """A factor with many digits is told with as many as were measured."""
    size = 1.1386294361119891  # 0.1 ln 4 + 1, without YaRN's frequencies
    plain = tuple(RoPE(16, layout="half").frequencies().tolist())
    own = GivenFrequencies(plain, attention_factor=size)
    for dtype in ("float32", "float64", "bfloat16"):
        card = card_of(RoPE(16, layout="half", scaling=own), dtype, max_position=NEAR)
        assert card.exact, str(card)
        assert card.rule  # base 10000, only the factor has no field
        assert card.relations[0].startswith("base=10000, with cos and sin multiplied by 1.13")


def test_a_lone_factor_is_not_taken_for_that_of_yarn():
    near = RoPE(64, layout="half", scaling=YaRN(4.0, 4096, attention_factor=1.13))
    assert card_of(near).encoding == near


def test_frequencies_without_a_rule_name_the_nearest_one():
    w = RoPE(32, layout="half").frequencies()
    w[5:] *= 1.05
    w[3] *= 0.9
    card = card_of(RoPE(32, layout="half", scaling=GivenFrequencies(tuple(w.tolist()))))
    assert not card.rule
    assert card.nearest.startswith("base=")
    first = str(card).splitlines()[1]
    assert first.startswith("is           no known rule; nearest is base=")
    assert not card.closest  # no preset is one field away from a list of numbers


def test_one_wrong_frequency_is_a_defect_of_the_rule():
    w = RoPE(32, layout="half").frequencies()
    w[9] *= 1.05
    card = card_of(RoPE(32, layout="half", scaling=GivenFrequencies(tuple(w.tolist()))))
    assert card.encoding == RoPE(32, layout="half")
    (deviation,) = card.deviations
    assert deviation.message.startswith("1 of 16 frequencies are wrong: pair 9")


def test_frequencies_in_reverse_order():
    w = tuple(RoPE(32, layout="half").frequencies()[::-1].tolist())
    card = card_of(RoPE(32, layout="half", scaling=GivenFrequencies(w)))
    assert not card.rule
    assert "base=10000, with the pairs in reverse order" in card.relations


@pytest.mark.parametrize(("method", "side"), [("apply_queries", "queries"), ("apply_keys", "keys")])
def test_one_side_of_xpos_is_told_apart(method, side):
    xpos = XPos(16, layout="half", scale_base=256)
    card = identify(getattr(xpos, method), head_dim=16, max_position=1024)
    assert [f.code for f in card.deviations] == ["amplitude"]
    assert any(f"scale_base=256, gamma=0.4) for {side}" in text for text in card.unknown), str(card)


def test_ntk_is_another_base_and_both_are_said():
    scaled = RoPE(32, layout="half", scaling=NTKScaling(4.0))
    card = card_of(scaled)
    assert card.encoding == scaled
    (alias,) = [a for a in card.aliases if a.scaling is None]
    assert round(np.log(alias.base / 10000.0) / np.log(4.0), 6) == round(32 / 30, 6)
