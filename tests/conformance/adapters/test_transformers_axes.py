"""`from_transformers` on modules of several axes, and on those that are told an image."""

import importlib

import numpy as np
import pytest

from posenc_ref import accuracy

torch = pytest.importorskip("torch", reason="PyTorch runs the modules that are judged")
pytest.importorskip("transformers", reason="transformers is what is judged")

from posenc_ref.conformance.adapters import rotary_table  # noqa: E402
from posenc_ref.conformance.adapters.transformers import from_transformers  # noqa: E402

S = 9
ROWS = np.array([[0, 1, 2, 3, 5, 8, 13, 21, 34], [9, 9, 2, 0, 7, 1, 1, 100, 3]])
COLUMNS = ROWS[::-1] + 4


def make(model, name, config, **settings):
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    configuration = importlib.import_module(f"transformers.models.{model}.configuration_{model}")
    # In training, DINOv3 moves its coordinates at random.
    return getattr(modeling, name)(getattr(configuration, config)(**settings)).eval()


def vectors(batch, heads, width):
    return torch.randn(batch, heads, S, width, generator=torch.Generator().manual_seed(0))


def powers(n, base):
    return base ** (-np.arange(n) / n)


def require_rotated(y, x, angle, one, two, size=None):
    """`y` is `x` (B, H, S, D) with channels (one, two) turned by `angle` (B, S, pairs)."""
    size = abs(angle if size is None else size)[:, None]
    x, angle = x.double().numpy(), angle[:, None]
    value, terms, moved = x.copy(), np.zeros_like(x), np.zeros_like(x)
    a, b, cos, sin = x[..., one], x[..., two], np.cos(angle), np.sin(angle)
    value[..., one], value[..., two] = a * cos - b * sin, a * sin + b * cos
    terms[..., one] = abs(a * cos) + abs(b * sin)
    terms[..., two] = abs(a * sin) + abs(b * cos)
    moved[..., one] = moved[..., two] = size * np.hypot(a, b)
    score = accuracy.Truth(value, terms, moved).score(y.double().numpy(), dtype="float32")
    assert score.max() <= accuracy.budget("float32")


def half(d):
    return np.arange(d // 2), np.arange(d // 2) + d // 2


def interleaved(d):
    return np.arange(0, d, 2), np.arange(1, d, 2)


SMALL = {"hidden_size": 64, "num_attention_heads": 4}


def streams(count):
    """Positions (A, 2, S) that differ on every axis."""
    return np.stack([ROWS * (a + 1) + 3 * a for a in range(count)])


def test_text_streams_in_chunks():
    sections = [2, 3, 3]
    parameters = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections}
    module = make(
        "qwen2_vl",
        "Qwen2VLRotaryEmbedding",
        "Qwen2VLTextConfig",
        rope_parameters=parameters,
        **SMALL,
    )
    implementation = from_transformers(module)
    assert (implementation.axes, implementation.head_dim) == (3, 16)
    positions, x = streams(3), vectors(2, 3, 16)
    y = implementation(x, torch.from_numpy(positions))
    angle = positions[np.repeat(np.arange(3), sections)].transpose(1, 2, 0) * powers(8, 10000.0)
    require_rotated(y, x, angle, *half(16))


def test_text_streams_by_turns():
    parameters = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
    module = make(
        "qwen3_vl",
        "Qwen3VLTextRotaryEmbedding",
        "Qwen3VLTextConfig",
        rope_parameters=parameters,
        head_dim=16,
        **SMALL,
    )
    implementation = from_transformers(module)
    assert implementation.axes == 3
    positions, x = streams(3), vectors(2, 3, 16)
    y = implementation(x, torch.from_numpy(positions))
    axes = [0, 1, 2, 0, 1, 2, 0, 0]
    require_rotated(y, x, positions[axes].transpose(1, 2, 0) * powers(8, 10000.0), *half(16))


def test_one_stream_stays_one():
    module = make("llama", "LlamaRotaryEmbedding", "LlamaConfig", **SMALL)
    assert from_transformers(module).axes == 1


def test_patch_centres_of_an_image():
    """DINOv3 is told an image: rows and columns become centres of patches between -1 and 1."""
    module = make("dinov3_vit", "DINOv3ViTRopePositionEmbedding", "DINOv3ViTConfig", **SMALL)
    implementation = from_transformers(module)
    assert (implementation.axes, implementation.head_dim) == (2, 16)
    x = vectors(2, 3, 16)
    y = implementation(x, torch.from_numpy(np.stack([ROWS, COLUMNS])))
    centres = 2 * (np.stack([ROWS, COLUMNS]) + 0.5) / rotary_table.SIDE - 1
    angle = np.concatenate([2 * np.pi * c[..., None] * powers(4, 100.0) for c in centres], -1)
    require_rotated(y, x, angle, *half(16))


def test_a_fixed_image():
    """Llama 4 keeps the table of one image: columns first, both from 1, the class token last."""
    settings = SMALL | {"image_size": 8 * 110, "patch_size": 8}
    module = make("llama4", "Llama4VisionRotaryEmbedding", "Llama4VisionConfig", **settings)
    implementation = from_transformers(module)
    assert (implementation.axes, implementation.tensor_layout) == (2, "bshd")
    x = vectors(2, 3, 16)
    positions = np.stack([ROWS, COLUMNS])
    y = implementation(x.transpose(1, 2), torch.from_numpy(positions)).transpose(1, 2)
    angle = np.concatenate([(p[..., None] + 1) * powers(4, 10000.0) for p in positions[::-1]], -1)
    require_rotated(y, x, angle, *interleaved(16))
    with pytest.raises(ValueError, match="positions must be below 110"):
        implementation(x.transpose(1, 2), torch.from_numpy(positions + 100))


@pytest.mark.nightly
def test_a_feature_map():
    """EfficientLoFTR is told features, and turns pairs by row and by column, both from 1."""
    module = make("efficientloftr", "EfficientLoFTRRotaryEmbedding", "EfficientLoFTRConfig")
    implementation = from_transformers(module)
    assert (implementation.axes, implementation.head_dim) == (2, 256)
    x = vectors(2, 1, 256)
    positions = np.stack([ROWS, COLUMNS])
    y = implementation(x, torch.from_numpy(positions))
    angle = np.empty((2, S, 128))
    for axis in range(2):
        angle[..., axis::2] = (positions[axis][..., None] + 1) * powers(64, 10000.0)
    require_rotated(y, x, angle, *interleaved(256))


def test_a_grid_has_no_negative_rows():
    module = make("dinov3_vit", "DINOv3ViTRopePositionEmbedding", "DINOv3ViTConfig", **SMALL)
    implementation = from_transformers(module)
    with pytest.raises(ValueError, match="positions must be integers from 0"):
        implementation(vectors(2, 3, 16), torch.from_numpy(np.stack([ROWS - 1, COLUMNS])))


def test_points_in_space():
    """Three coordinates and the number of what they belong to: each axis has its own base."""
    module = make("esmfold2", "EsmFold2RotaryEmbedding", "EsmFold2AtomEncoderConfig")
    implementation = from_transformers(module)
    assert (implementation.axes, implementation.head_dim) == (4, 32)
    positions, x = streams(4), vectors(2, 3, 32)
    y = implementation(x, torch.from_numpy(positions))
    bases = [(2, 20.0)] * 3 + [(10, 10000.0)]
    angle = np.concatenate(
        [p[..., None] * powers(n, b) for p, (n, b) in zip(positions, bases, strict=True)], -1
    )
    require_rotated(y, x, angle, *half(32))


def test_learned_angles():
    """LightGlue's angles are a linear map of a point; the weights are those of the module."""
    module = make("lightglue", "LightGluePositionalEncoder", "LightGlueConfig")
    with torch.no_grad():
        module.projector.weight.normal_(generator=torch.Generator().manual_seed(1))
    box = torch.nn.Module()
    box.config = importlib.import_module("transformers").LightGlueConfig()
    box.inside = module
    implementation = from_transformers(box)
    assert (implementation.axes, implementation.head_dim) == (2, 64)
    positions, x = streams(2), vectors(2, 3, 64)
    y = implementation(x, torch.from_numpy(positions))
    weight = module.projector.weight.detach().double().numpy()
    angle = np.einsum("abs,pa->bsp", positions, weight)
    size = np.einsum("abs,pa->bsp", abs(positions), abs(weight))  # of the sum's two terms
    require_rotated(y, x, angle, *interleaved(64), size)


def test_attention_that_rotates_by_itself():
    """V-JEPA 2, as it is: cosines of one pair beside sines of another."""
    module = importlib.import_module("transformers.models.vjepa2.modeling_vjepa2")
    configuration = importlib.import_module("transformers.models.vjepa2.configuration_vjepa2")
    attention = module.VJEPA2RopeAttention(configuration.VJEPA2Config())
    implementation = from_transformers(attention)
    assert (implementation.axes, implementation.head_dim) == (3, 64)
    x = vectors(1, 2, 64)
    positions = streams(3)[:, :1]
    y = implementation(x, torch.from_numpy(positions)).double().numpy()
    exact, value = x.double().numpy(), x.double().numpy().copy()
    terms, moved = np.zeros_like(value), np.zeros_like(value)
    for axis in range(3):
        block = slice(20 * axis, 20 * axis + 20)
        angle = np.tile(positions[axis][..., None] * powers(10, 10000.0), 2)[:, None]
        part = exact[..., block]
        crossed = np.stack([-part[..., 1::2], part[..., ::2]], -1).reshape(part.shape)
        value[..., block] = part * np.cos(angle) + crossed * np.sin(angle)
        terms[..., block] = abs(part * np.cos(angle)) + abs(crossed * np.sin(angle))
        moved[..., block] = abs(angle) * np.hypot(part, crossed)
    score = accuracy.Truth(value, terms, moved).score(y, dtype="float32")
    assert score.max() <= accuracy.budget("float32")


@pytest.mark.parametrize("heads", [1, 4, 6])
def test_an_attention_method_gets_as_many_heads_as_it_knows(heads):
    module = make(
        "wav2vec2_conformer",
        "Wav2Vec2ConformerEncoder",
        "Wav2Vec2ConformerConfig",
        **SMALL,
        position_embeddings_type="rotary",
        num_hidden_layers=1,
        intermediate_size=8,
    )
    implementation = from_transformers(module)
    x = vectors(2, heads, 16)
    flat = x.transpose(1, 2).reshape(2, S, heads * 16)
    y = implementation(flat, torch.arange(S)).reshape(2, S, heads, 16).transpose(1, 2)
    angle = np.broadcast_to(np.arange(S)[:, None] * powers(8, 10000.0), (2, S, 8))
    require_rotated(y, x, angle, *half(16))


def test_attention_may_move_channels_first():
    """Qwen2.5-Omni's DiT pairs neighbours, puts them half a head apart, and turns them there."""
    module = make("qwen2_5_omni", "Qwen2_5OmniDiTRotaryEmbedding", "Qwen2_5OmniDiTConfig")
    implementation = from_transformers(module)
    d = implementation.head_dim
    x = vectors(2, 3, d)
    y = implementation(x, torch.arange(S))
    moved = torch.cat([x[..., ::2], x[..., 1::2]], -1)
    angle = np.broadcast_to(np.arange(S)[:, None] * powers(d // 2, 10000.0), (2, S, d // 2))
    require_rotated(y, moved, angle, *half(d))


def test_a_table_of_one_row():
    module = make("clvp", "ClvpRotaryPositionalEmbedding", "ClvpEncoderConfig")
    box = torch.nn.Module()
    box.config = importlib.import_module("transformers").ClvpEncoderConfig()
    box.inside = module
    implementation = from_transformers(box)
    x = torch.ones(1, 2, 1, implementation.head_dim)
    assert torch.equal(implementation(x, torch.tensor([0])), x)
