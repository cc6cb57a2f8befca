"""Models as torch exports them: the written-out rotations of PyTorch code are found and judged."""

import contextlib
import io
import warnings

import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.graphs.load import load_onnx
from tests.night import by_day

torch = pytest.importorskip("torch", reason="torch writes the models")
D = 32
HALF = RoPE(D, layout="half")
INTERLEAVED = RoPE(D, layout="interleaved")


class Rotation(torch.nn.Module):
    """Tables, and a rotation of x (B, H, S, D), or (B, S, H, D) if ``first`` is "tokens"."""

    first = "heads"

    def __init__(self, base=10000.0):
        super().__init__()
        self.frequencies = base ** (-torch.arange(0, D, 2).double() / D)
        angle = torch.outer(torch.arange(2048).double(), self.frequencies)
        self.register_buffer("cos", angle.cos().float())
        self.register_buffer("sin", angle.sin().float())

    def tables(self, ids):
        axis = 1 if self.first == "heads" else 2
        return self.cos[ids].unsqueeze(axis), self.sin[ids].unsqueeze(axis)


class RotateHalf(Rotation):
    """As in transformers, with angles that are computed in the model."""

    def forward(self, x, ids):
        half = ids[..., None].float() * self.frequencies.float()
        angle = torch.cat([half, half], dim=-1)[:, None]
        first, second = x.chunk(2, dim=-1)
        return x * angle.cos() + torch.cat([-second, first], dim=-1) * angle.sin()


class Halves(Rotation):
    def forward(self, x, ids):
        cos, sin = self.tables(ids)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Evens(Rotation):
    def forward(self, x, ids):
        cos, sin = self.tables(ids)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)


class Pairs(Rotation):
    """As in torchtune: pairs on an axis of their own, tokens before heads."""

    first = "tokens"

    def forward(self, x, ids):
        cos, sin = self.tables(ids)
        pair = x.float().reshape(*x.shape[:-1], -1, 2)
        real = pair[..., 0] * cos - pair[..., 1] * sin
        imaginary = pair[..., 1] * cos + pair[..., 0] * sin
        return torch.stack([real, imaginary], dim=-1).flatten(3).type_as(x)


class Backwards(Halves):
    """A mistake: positions are counted backwards."""

    def forward(self, x, ids):
        return super().forward(x, ids.flip(1))


class Network(torch.nn.Module):
    """An embedding and a projection before the rotation, an attention after it."""

    def __init__(self, rotation):
        super().__init__()
        self.rotation = rotation
        self.embed, self.project = torch.nn.Embedding(10, 64), torch.nn.Linear(64, 4 * D)

    def forward(self, input_ids, position_ids):
        q = self.project(self.embed(input_ids)).view(*input_ids.shape, 4, D)
        if self.rotation.first == "heads":
            q = q.transpose(1, 2)
        q = self.rotation(q, position_ids)
        return (q @ q.transpose(-1, -2)).softmax(-1)


def exported(module, path, dynamo):
    """Write the network with free batch and length, by the exporter of graphs or of scripts."""
    ids = torch.zeros(2, 7, dtype=torch.long)
    positions = torch.arange(7).repeat(2, 1)
    names = ["input_ids", "position_ids"]
    free = {0: "batch", 1: "tokens"}
    axes = (
        {"dynamic_shapes": (free, free)} if dynamo else {"dynamic_axes": dict.fromkeys(names, free)}
    )
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Network(module).eval(), (ids, positions), path, input_names=names, dynamo=dynamo, **axes
        )


CASES = {
    "rotate half": (RotateHalf, HALF, ""),
    "halves": (Halves, HALF, ""),
    "evens": (Evens, INTERLEAVED, ""),
    "pairs": (Pairs, INTERLEAVED, ""),
    "pairs, another layout": (Pairs, HALF, "layout"),
    "rotate half, another base": (lambda: RotateHalf(500.0), HALF, "base"),
}


@pytest.mark.parametrize("name", by_day(CASES, ("rotate half", "pairs, another layout")))
@pytest.mark.parametrize("dynamo", by_day((False, True), (False,)), ids=str)
def test_a_rotation_in_an_exported_network_is_judged(name, dynamo, tmp_path):
    if dynamo:
        pytest.importorskip("onnxscript", reason="torch's exporter of graphs uses it")
    make, encoding, code = CASES[name]
    exported(make(), tmp_path / "model.onnx", dynamo)
    found = load_onnx(tmp_path / "model.onnx", head_dim=D)
    assert not found.problems
    (site,) = found.sites
    report = check(site.implementation(name), encoding, max_position=1023)
    assert report.codes[:1] == ([code] if code else []), report
    assert report.verdict == ("deviates" if code else "conforms"), report


def test_positions_that_are_turned_around_are_found(tmp_path):
    exported(Backwards(), tmp_path / "model.onnx", dynamo=False)
    (site,) = load_onnx(tmp_path / "model.onnx", head_dim=D).sites
    report = check(site.implementation("backwards"), HALF, max_position=1023)
    assert report.verdict == "deviates", report
