"""compare: rotary modules of transformers, and classes as serving and vision libraries have them.

The classes repeat the calling conventions of vLLM and timm; their arithmetic is written here.
"""

import json

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch", reason="the modules are torch's")
transformers = pytest.importorskip("transformers", reason="its modules are compared")

from transformers.models.cohere.modeling_cohere import CohereRotaryEmbedding  # noqa: E402
from transformers.models.gptj import modeling_gptj  # noqa: E402
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding  # noqa: E402

from posenc_ref.conformance import Implementation, cli, compare  # noqa: E402
from posenc_ref.conformance.adapters import from_transformers  # noqa: E402
from tests.night import by_day  # noqa: E402

DIM = 64
SIZES = {"hidden_size": 4 * DIM, "num_attention_heads": 4}
NEAR = {"max_position": 2**11}


def llama(**changes):
    config = transformers.LlamaConfig(**SIZES, **changes)
    return from_transformers(LlamaRotaryEmbedding(config))


def cohere(base=10000.0):
    parameters = {"rope_type": "default", "rope_theta": base}
    config = transformers.CohereConfig(**SIZES, rope_parameters=parameters)
    return from_transformers(CohereRotaryEmbedding(config))


def gptj():
    """GPT-J's functions: interleaved tables (sin, cos), tensors (B, S, H, D)."""
    table = modeling_gptj.create_sinusoidal_positions(2**12, DIM)

    def call(x, positions):
        rows = table[positions]
        rows = rows[None] if rows.ndim == 2 else rows
        sin, cos = torch.split(rows, DIM // 2, dim=-1)
        return modeling_gptj.apply_rotary_pos_emb(x, sin, cos)

    return Implementation(call, "apply", "GPT-J", backend="torch", tensor_layout="bshd")


class ServingRotary:
    """forward(positions, query, key) on flat tensors (tokens, heads * head_size), as in vLLM."""

    def __init__(self, head_size, rotary_dim, max_position, base, is_neox_style):
        inv_freq = 1.0 / base ** (torch.arange(0, rotary_dim, 2, dtype=torch.float) / rotary_dim)
        angle = torch.outer(torch.arange(max_position, dtype=torch.float), inv_freq)
        self.cache = torch.cat((angle.cos(), angle.sin()), dim=-1)
        self.head_size, self.rotary_dim, self.neox = head_size, rotary_dim, is_neox_style

    def _turn(self, x, cos, sin):
        cos, sin = cos[:, None], sin[:, None]
        if self.neox:
            x1, x2 = x.chunk(2, dim=-1)
            return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)
        x1, x2 = x[..., ::2], x[..., 1::2]
        return torch.stack((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1).flatten(-2)

    def forward(self, positions, query, key):
        cos, sin = self.cache[positions.flatten()].chunk(2, dim=-1)
        turned = []
        for x in (query, key):
            heads = x.view(positions.numel(), -1, self.head_size)
            part, rest = heads[..., : self.rotary_dim], heads[..., self.rotary_dim :]
            turned.append(torch.cat((self._turn(part, cos, sin), rest), dim=-1).view(x.shape))
        return turned[0], turned[1]


def serving(base=10000.0, neox=True, rotary_dim=DIM):
    rope = ServingRotary(DIM, rotary_dim, 2**12, base, neox)

    def call(x, positions):
        query, _ = rope.forward(positions, x.flatten(1), x.flatten(1))
        return query.view(x.shape)

    return Implementation(call, "apply", "serving", backend="torch", tensor_layout="thd")


class GridRotary:
    """A table [sin, cos] for the rows and columns of a grid, applied side by side, as in timm."""

    def __init__(self, dim, temperature=10000.0, swapped=False):
        self.bands = 1.0 / temperature ** (torch.arange(dim // 4, dtype=torch.float) / (dim // 4))
        self.swapped = swapped

    def table(self, positions):  # (2, B, S): rows and columns
        grid = positions.flip(0) if self.swapped else positions
        angle = torch.cat([at[..., None] * self.bands for at in grid.float()], dim=-1)
        return torch.cat([angle.sin(), angle.cos()], dim=-1).repeat_interleave(2, dim=-1)

    @staticmethod
    def apply(x, table):
        sin, cos = table.tensor_split(2, -1)
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return x * cos + turned * sin


def grid(**changes):
    rope = GridRotary(DIM, **changes)

    def call(x, positions):
        return rope.apply(x, rope.table(positions)[:, None])

    return Implementation(call, "apply", "grid", backend="torch", axes=2, head_dim=DIM)


LLAMA, BOTH = "layout: half, declared interleaved", "layout: interleaved, declared half"
PAIRS = {
    "Llama and itself": (llama, llama, [], []),
    "Llama and GPT-J": (llama, gptj, ["layout"], [LLAMA]),
    "GPT-J and Llama": (gptj, llama, ["layout"], [BOTH]),
    "Cohere and GPT-J": (cohere, gptj, [], []),
    "Cohere and Llama": (
        lambda: cohere(75000.0), llama, ["layout", "base"],
        [BOTH, "base: 75000.0, declared 10000.0"],
    ),
    "serving and Llama": (serving, llama, [], []),
    "serving, not NeoX, and Llama": (lambda: serving(neox=False), llama, ["layout"], [BOTH]),
    "serving, not NeoX, and GPT-J": (lambda: serving(neox=False), gptj, [], []),
    "serving, part of the head": (
        lambda: serving(rotary_dim=32), serving, ["rotary-dim"], ["rotary_dim: 32, declared 64"],
    ),
    "grids": (grid, grid, [], []),
    "temperature": (
        lambda: grid(temperature=500.0), grid, ["base"],
        ["base: 500.0, declared 10000.0"],
    ),
}  # fmt: skip


DAY = ("Llama and GPT-J",)


@pytest.mark.parametrize("name", by_day(PAIRS, DAY))
def test_modules_against_each_other(name):
    a, b, codes, differs = PAIRS[name]
    found = compare(a(), b(), head_dim=DIM, **NEAR)
    assert found.codes == codes, str(found)
    assert [text for text in differs if text not in found.differs] == []
    assert (found.agreement == "tensors agree") == (not codes)


@pytest.mark.nightly
def test_logits_of_grids_need_other_positions_than_text():
    """With equal positions on both axes, exchanged axes give the same logits."""
    swapped = compare(grid(swapped=True), grid(), max_position=2**12)
    assert swapped.difference.errors == {2**12: 0.0}
    assert swapped.difference.logits is False
    assert swapped.codes == ["axis-order"]


HF, OLD = "tests/ports/hugging_face.py", "tests/ports/hugging_face_2023.py"
META, FLASH = "tests/ports/meta_llama.py", "tests/ports/flash.py"
SERVING = ("--init", "base=10000", "--init", "is_neox_style=false")
#: Functions as people write them: A, B, options, and the codes.
FILES = {
    "tables and complex numbers": (
        f"{HF}:apply_rotary_pos_emb", f"{META}:apply_rotary_emb", (), ["layout"],
    ),
    "one tensor and two": (
        f"{FLASH}:apply_rotary_emb", f"{OLD}:apply_rotary_pos_emb", (), [],
    ),
    "one position late": (
        f"{OLD}:one_position_late", f"{OLD}:apply_rotary_pos_emb", (), ["decode-offset"],
    ),
    "a class and a function": (
        "tests/ports/serving.py:RotaryEmbedding", f"{META}:apply_rotary_emb", SERVING, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(FILES, ("one tensor and two",)))
def test_files_are_compared_without_glue(name):
    a, b, options, codes = FILES[name]
    got = CliRunner().invoke(
        cli.app, ["compare", a, b, *options, "--max-position", "512", "--json"]
    )
    data = json.loads(got.stdout)
    assert [f["code"] for f in data["findings"] if f["severity"] == "error"] == codes
    assert got.exit_code == bool(codes)
    assert "A: " in data["called"]
    assert "B: " in data["called"]


def test_an_argument_that_neither_function_takes_is_refused():
    port = "tests/ports/numpy_ports.py:rope"
    got = CliRunner().invoke(
        cli.app, ["compare", port, port, "--init", "thta=1", "--head-dim", "8"]
    )
    assert got.exit_code == 2
    assert "--init: neither A nor B takes thta" in got.output


@pytest.mark.nightly
def test_queries_and_keys_of_a_serving_class():
    def both(base):
        rope = ServingRotary(DIM, DIM, 2**12, base, True)

        def call(q, k, q_at, k_at):
            (query, _), (_, key) = (
                rope.forward(at, x.flatten(1), x.flatten(1)) for x, at in ((q, q_at), (k, k_at))
            )
            return query.view(q.shape), key.view(k.shape)

        return Implementation(call, "apply_qk", "serving", backend="torch", tensor_layout="thd")

    assert compare(both(10000.0), both(10000.0), head_dim=DIM, **NEAR).agreement == "tensors agree"
    assert compare(both(500000.0), both(10000.0), head_dim=DIM, **NEAR).codes == ["base"]


@pytest.mark.nightly
def test_arrays_of_two_libraries():
    from tests.conformance.handwritten import rope

    found = compare(rope(), llama(), backend=("numpy", None), names=("NumPy", None), **NEAR)
    assert found.passed, str(found)
