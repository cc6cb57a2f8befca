"""identify of functions that refuse, remember, bend or are no encoding: said, never guessed."""

import numpy as np
import pytest

from posenc_ref import LongRoPE, MultiAxisRoPE, RoPE
from posenc_ref.conformance import Card, NoConvention, identify
from posenc_ref.conformance.cli import app
from tests.conformance.handwritten import only, rope, short, sinusoid

PLAIN = RoPE(8, layout="half")


def said(card, words):
    return any(words in text for text in (*card.unknown, *card.limits))


REFUSING = {
    "a short table": (short(300, rope()), "past 299 are refused"),
    "from 0 on only": (only(lambda p: np.ndim(p) == 1 and p[0] == 0, rope()), "do not start at 0"),
    "one after the other": (
        only(lambda p: p.ndim == 1 and (np.diff(p) == 1).all() and (p >= 0).all(), rope()),
        "are not consecutive",
    ),
    "one position, or from 0": (
        only(lambda p: p.ndim == 1 and (p.size == 1 or p[0] == 0), rope()),
        "are not consecutive",
    ),
    "integers only": (only(lambda p: p.dtype.kind == "i" and (p >= 0).all(), rope()), "refused"),
}


@pytest.mark.parametrize(("fn", "limit"), REFUSING.values(), ids=list(REFUSING))
def test_what_is_refused_is_a_limit_and_the_rest_is_identified(fn, limit):
    card = identify(fn, head_dim=8, max_position=2048)
    assert card.encoding == PLAIN, str(card)
    assert card.exact, str(card)
    assert said(card, limit), str(card)


def test_a_short_table_of_sinusoids_is_no_list_of_rows():
    card = identify(short(64, sinusoid()), "table")
    assert type(card.encoding).__name__ == "Sinusoidal", str(card)


@pytest.mark.parametrize("layout", ["bshd", "sbhd", "thd", "bs(hd)"])
def test_tensor_layouts(layout):
    moved = {
        "bshd": lambda x, p: rope()(x.transpose(0, 2, 1, 3), p).transpose(0, 2, 1, 3),
        "sbhd": lambda x, p: rope()(x.transpose(1, 2, 0, 3), p).transpose(2, 0, 1, 3),
        "thd": lambda x, p: rope()(x[:, None], p[:, None])[:, 0],
        "bs(hd)": lambda x, p: (
            rope()(x.reshape(*x.shape[:2], -1, 8).transpose(0, 2, 1, 3), p)
            .transpose(0, 2, 1, 3)
            .reshape(x.shape)
        ),
    }
    card = identify(moved[layout], head_dim=8, tensor_layout=layout, max_position=1024)
    assert card.encoding == PLAIN, str(card)
    assert card.exact, str(card)


def turned(x, p):
    """A matrix that mixes more than two channels."""
    full = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0].astype(x.dtype)
    return rope()(x, p) @ full


def noise():
    random = np.random.default_rng(0)
    return lambda x, p: random.normal(size=x.shape).astype(x.dtype)


NONE = {
    "noise": (noise(), "repeated call returns other values"),
    "as it came": (lambda x, p: x, "does not depend on positions"),
    "zeros": (lambda x, p: 0 * x, "the output is 0 for every input"),
    "something added": (lambda x, p: x + sinusoid()(p), "fn(0, positions) is not 0"),
    "channels scaled": (
        lambda x, p: x * (1 + p[:, None] / 64).astype(x.dtype),
        "channels are only scaled",
    ),
    "all channels mixed": (turned, "no two channels are rotated into each other"),
    "a fixed matrix": (lambda x, p: x[..., ::-1] @ np.ones((8, 8), x.dtype), "make no difference"),
    "bent": (lambda x, p: np.tanh(rope()(x, p)), "it is not linear in x"),
    "not a number": (lambda x, p: x * np.nan, "a required call fails"),
    "another shape": (lambda x, p: x[..., :4], "expected shape"),
}


@pytest.mark.parametrize(("fn", "words"), NONE.values(), ids=list(NONE))
def test_what_is_no_rotation_is_none_and_says_why(fn, words):
    card = identify(fn, head_dim=8, max_position=1024)
    assert card.encoding is None, str(card)
    assert not card.exact
    assert said(card, words), str(card)
    assert "no known encoding" in str(card)
    assert not said(card, "the keys")  # they were not asked for


BENT = {
    "a later origin": (rope(positions=lambda p: p + 1), "position-origin"),
    "clamped": (rope(positions=lambda p: np.minimum(p, 512)), "position-range"),
    "wrapped": (rope(positions=lambda p: p % 512), "position-range"),
    "half-precision angles": (
        rope(positions=lambda p: np.asarray(p, np.float16)),
        "position-precision",
    ),
    "a size that depends on the position": (
        rope(block=lambda c, s, p: (c, -s, s, c * (1 + (p > 300) / 8))),
        "not-a-rotation",
    ),
}


@pytest.mark.parametrize(("fn", "code"), BENT.values(), ids=list(BENT))
def test_what_is_nearly_an_encoding_deviates(fn, code):
    card = identify(fn, head_dim=8, max_position=4096)
    assert card.encoding == PLAIN, str(card)
    assert not card.exact
    assert code in [f.code for f in card.deviations], str(card)


class Latched:
    """The base grows once a call was longer than 1024, and stays."""

    def __init__(self):
        self.longest = 0

    def __call__(self, x, p):
        self.longest = max(self.longest, int(p.max(initial=0)) + 1)
        return rope(base=10000.0 if self.longest <= 1024 else 40000.0)(x, p)


def test_state_is_a_deviation_of_what_it_was_at_first():
    card = identify(Latched(), head_dim=8, max_position=4096)
    assert card.encoding == PLAIN, str(card)
    assert [f.code for f in card.deviations] == ["state"]
    assert said(card, "pass factory=")
    assert "changes later results" in card.facts["length"]


@pytest.mark.nightly
def test_state_with_fresh_instances_shows_what_longer_calls_get():
    card = identify(Latched(), head_dim=8, max_position=4096, factory=Latched)
    assert "state" in [f.code for f in card.deviations], str(card)
    later = np.array(list(card.by_length.values()))
    assert later.size
    told = RoPE(8, layout="half", base=40000.0).frequencies()
    assert np.array_equal(later.astype(np.float16), np.tile(told, (len(later), 1)).astype("f2"))


@pytest.mark.nightly
def test_a_missing_head_dim_is_found():
    assert identify(RoPE(128, layout="half").apply).encoding == RoPE(128, layout="half")
    assert identify(rope()).encoding == RoPE(64, layout="half")  # it takes every size


@pytest.mark.nightly
def test_missing_axes_are_counted():
    inner = MultiAxisRoPE(12, sections=(2, 2, 2), layout="half").apply
    three = only(lambda p: p.ndim == 3 and p.shape[0] == 3, inner)
    card = identify(three, head_dim=12)
    assert said(card, "pass axes=3, or --axes 3"), str(card)
    assert identify(three, head_dim=12, axes=3, max_position=1024).exact


def torch_only():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")

    def apply(x, positions):
        angle = positions[..., None].to(torch.float32) * (10000.0 ** -torch.arange(0, 1, 0.25))
        x1, x2 = torch.chunk(x, 2, dim=-1)
        cos, sin = torch.cos(angle), torch.sin(angle)
        return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)

    return apply


@pytest.mark.nightly
def test_the_library_is_found():
    fn = torch_only()
    assert identify(fn, head_dim=8, max_position=1024).backend == "torch"
    card = identify(fn, "apply", head_dim=8, max_position=1024)
    assert said(card, "pass backend='torch', or --backend torch"), str(card)
    card = identify(fn, head_dim=8, backend="torch", max_position=1024)
    assert card.encoding == PLAIN, str(card)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda x, cos, sin: x, "name one with --table"),
        (lambda p: p, "the nearest convention is 'x-positions'"),
    ],
    ids=["more", "fewer"],
)
def test_arguments_that_fit_no_convention_are_refused(fn, words):
    with pytest.raises(NoConvention, match=words):
        identify(fn, head_dim=8)


def test_the_refusal_says_which_calls_were_tried():
    """The search was repeated for each surface and each number of tokens, for half a minute."""
    calls = []

    def other(embed_dim, grid):
        calls.append(grid)
        return grid[1, 0]

    with pytest.raises(ValueError, match="no call with positions, a length, a grid"):
        identify(other)
    assert len(calls) < 700


def test_a_wrong_surface_is_refused_with_the_right_ones():
    with pytest.raises(ValueError, match="surface must be one of apply, apply_qk, apply_vjp"):
        identify(PLAIN.apply, "rotate", head_dim=8)


def test_the_command_says_what_is_missing(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("from posenc_ref import RoPE\napply = RoPE(24, layout='half').apply\n")
    with pytest.raises(SystemExit) as ended:
        app(["identify", f"{path}:apply", "--surface", "rotate"])
    assert ended.value.code == 2
    assert "surface must be one of apply, apply_qk" in capsys.readouterr().err


@pytest.mark.nightly
def test_the_command_ends_with_what_was_found(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(
        "from posenc_ref import GivenFrequencies as G, RoPE\n"
        "right = RoPE(4, layout='half').apply\n"
        "unruly = RoPE(8, layout='half', scaling=G((0.9, 0.8, 0.03, 0.02))).apply\n"
        "def shifted(x, p): return right(x, p + 1)\n"
        "def other(x, p): return x\n"
    )
    ends = {}
    for name, dim in (("right", 4), ("unruly", 8), ("shifted", 4), ("other", 4)):
        with pytest.raises(SystemExit) as ended:
            app(["identify", f"{path}:{name}", "--head-dim", str(dim), "--max-position", "1024"])
        ends[name] = ended.value.code
    assert ends == {"right": 0, "unruly": 3, "shifted": 1, "other": 3}
    assert "no known rule; nearest is base=" in capsys.readouterr().out


def test_a_card_as_json_has_what_the_text_has():
    card = identify(rope(positions=lambda p: p + 1), head_dim=8, max_position=1024)
    assert isinstance(card, Card)
    text = card.to_json()
    for word in ('"position-origin"', '"RoPE"', '"rule": true', '"exact": false'):
        assert word in text


@pytest.mark.parametrize("axes", [1, 2])
def test_a_factor_that_no_encoding_may_have(axes):
    one = PLAIN if axes == 1 else MultiAxisRoPE(8, sections=(2, 2), layout="half")
    card = identify(lambda x, p: 1e6 * one.apply(x, p), "apply", head_dim=8, axes=axes)
    assert card.encoding is None
    assert card.unknown == [
        "cos and sin are multiplied by 1000000; the attention_factor of an encoding is at most "
        "32768"
    ]


@pytest.mark.nightly
def test_a_factor_of_long_calls_that_no_encoding_may_have():
    lists = LongRoPE((1.0,) * 4, (1.0, 1.5, 2.0, 3.0), 1024, attention_factor=(1.0, 1e4))
    scaled = RoPE(8, layout="half", scaling=lists)
    card = identify(
        lambda x, p: scaled.apply(x, p) * (100.0 if p.max(initial=0) >= 1024 else 1.0),
        "apply",
        head_dim=8,
    )
    assert card.encoding == PLAIN
    assert card.unknown == ["no known rule gives the frequencies of longer calls"]
