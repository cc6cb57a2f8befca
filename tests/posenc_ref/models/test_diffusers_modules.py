"""Configurations of diffusers, against the modules of diffusers that rotate, or make the tables."""

import importlib

import numpy as np
import pytest
import torch

from posenc_ref import from_config
from posenc_ref.accuracy import BUDGET
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.models.config_facts import table

diffusers = pytest.importorskip("diffusers", reason="diffusers is what is compared with")
MODELS = table("diffusers_models")["models"]


def of(name, **entries):
    return from_config({"_class_name": name, **entries})


def module(name, attribute):
    """An attribute of the file of a class."""
    file = importlib.import_module(f"diffusers.models.transformers.{MODELS[name]['file']}")
    return getattr(file, attribute)


def embeddings():
    return importlib.import_module("diffusers.models.embeddings")


def grid(*sizes):
    """The positions of a grid: (axes, points)."""
    return torch.stack(torch.meshgrid(*map(torch.arange, sizes), indexing="ij")).flatten(1)


def agrees(encoding, turned, positions, x):
    """Whether what the library made of x is what the encoding says, within the budget."""
    at = np.asarray(positions)
    truth = apply_truth(encoding, x.numpy(), at if at.ndim == 1 else at[:, None])
    return truth.score(turned.float().numpy()).max() <= BUDGET["float32"]


def drawn(encoding, count):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(1, 1, count, encoding.head_dim, generator=generator)


def interleaved(x, tables):
    return embeddings().apply_rotary_emb(x, tables)


def halves(x, tables):
    return embeddings().apply_rotary_emb(x, tables, use_real_unbind_dim=-2)


def as_complex(x, freqs):
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * freqs[None, None]
    return torch.view_as_real(turned).flatten(3)


def matrices(x, rope):
    """Kandinsky, HiDream and PRX: a matrix of 2 x 2 for each pair."""
    rope = rope.reshape(-1, x.shape[-1] // 2, 2, 2)
    return (rope * x.reshape(*x.shape[:-1], -1, 1, 2)).sum(-1).flatten(3)


def wan(cls, head_dim):
    """The tables of Wan, whose rows have an axis for the heads."""
    return [t[:, :, 0] for t in cls(head_dim, (1, 2, 2), 1024)(VIDEO2)]


IDS = grid(3, 5, 7)
VIDEO = torch.zeros(1, 1, 3, 5, 7)
VIDEO2 = torch.zeros(1, 1, 3, 10, 14)  # patches of 2 x 2
IMAGE2 = torch.zeros(1, 1, 10, 14)
# For each class: what its module makes for a grid, how it is applied, and the positions.
CASES = {
    "FluxTransformer2DModel": ("FluxPosEmbed", lambda c: c(10000, (16, 56, 56))(IDS.T),
                               interleaved, IDS),
    "OvisImageTransformer2DModel": ("OvisImagePosEmbed", lambda c: c(10000, (16, 56, 56))(IDS.T),
                                    interleaved, IDS),
    "LongCatImageTransformer2DModel": ("LongCatImagePosEmbed",
                                       lambda c: c(10000, (16, 56, 56))(IDS.T), interleaved, IDS),
    "BriaTransformer2DModel": ("BriaEmbedND", lambda c: c(10000, (16, 56, 56))(IDS.T),
                               interleaved, IDS),
    "Flux2Transformer2DModel": ("Flux2PosEmbed", lambda c: c(2000, (32,) * 4)(grid(2, 3, 2, 5).T),
                                interleaved, grid(2, 3, 2, 5)),
    "Flux3Transformer2DModel": ("Flux3PosEmbed", lambda c: c(10000, (32,) * 4)(grid(2, 3, 2, 5).T),
                                interleaved, grid(2, 3, 2, 5)),
    "Krea2Transformer2DModel": ("Krea2RotaryPosEmbed", lambda c: c(1000, (32, 48, 48))(IDS.T),
                                interleaved, IDS),
    "WanTransformer3DModel": ("WanRotaryPosEmbed",
                              lambda c: wan(c, 128),
                              lambda x, t: interleaved(x, [a[0] for a in t]), IDS),
    "SkyReelsV2Transformer3DModel": ("SkyReelsV2RotaryPosEmbed",
                                     lambda c: wan(c, 128),
                                     lambda x, t: interleaved(x, [a[0] for a in t]), IDS),
    "ChronoEditTransformer3DModel": ("ChronoEditRotaryPosEmbed",
                                     lambda c: wan(c, 128),
                                     lambda x, t: interleaved(x, [a[0] for a in t]), IDS),
    "SanaVideoTransformer3DModel": ("WanRotaryPosEmbed",
                                    lambda c: wan(c, 112),
                                    lambda x, t: interleaved(x, [a[0] for a in t]), IDS),
    "HunyuanVideoTransformer3DModel": ("HunyuanVideoRotaryPosEmbed",
                                       lambda c: c(2, 1, (16, 56, 56), 256.0)(VIDEO2),
                                       interleaved, IDS),
    "HunyuanVideo15Transformer3DModel": ("HunyuanVideo15RotaryPosEmbed",
                                         lambda c: c(1, 1, (16, 56, 56), 256.0)(VIDEO),
                                         interleaved, IDS),
    "HunyuanVideoFramepackTransformer3DModel": (
        "HunyuanVideoFramepackRotaryPosEmbed",
        lambda c: c(2, 1, (16, 56, 56), 256.0)(torch.arange(3), 10, 14, "cpu"), interleaved, IDS),
    "MotifVideoTransformer3DModel": ("MotifVideoRotaryPosEmbed",
                                     lambda c: c(2, 1, (16, 56, 56), 256.0)(VIDEO2),
                                     interleaved, IDS),
    "HunyuanImageTransformer2DModel": ("HunyuanImageRotaryPosEmbed",
                                       lambda c: c((1, 1), (64, 64), 256.0)(VIDEO[:, :, 0]),
                                       interleaved, grid(5, 7)),
    "CogView4Transformer2DModel": ("CogView4RotaryPosEmbed",
                                   lambda c: c(40, 2, (256, 256))(torch.zeros(1, 1, 16, 8)),
                                   halves, grid(8, 4) * torch.tensor([[32], [64]])),
    "GlmImageTransformer2DModel": ("GlmImageRotaryPosEmbed", lambda c: c(40, 2)(IMAGE2),
                                   halves, grid(5, 7)),
    "CosmosTransformer3DModel": ("CosmosRotaryPosEmbed", lambda c: c(128)(VIDEO2), halves, IDS),
    "QwenImageTransformer2DModel": (
        "QwenEmbedRope",
        lambda c: c(10000, (16, 56, 56), True)([(3, 5, 7)], torch.device("cpu"), 1)[0], as_complex,
        IDS - torch.tensor([[0], [3], [4]])),
    "NucleusMoEImageTransformer2DModel": (
        "NucleusMoEEmbedRope",
        lambda c: c(10000, (16, 56, 56), True)([(3, 5, 7)], device="cpu", max_txt_seq_len=1)[0],
        as_complex, IDS - torch.tensor([[0], [3], [4]])),
    "ZImageTransformer2DModel": ("RopeEmbedder",
                                 lambda c: c(256.0, (32, 48, 48), (1024, 512, 512))(IDS.T),
                                 as_complex, IDS),
    "BriaFibo2Transformer2DModel": ("RopeEmbedder", lambda c: c(256.0, (32, 48, 48),
                                    axes_lens=(2048, 512, 512))(IDS.T), as_complex, IDS),
    "Lumina2Transformer2DModel": ("Lumina2RotaryPosEmbed", lambda c: c(
        10000, (32, 32, 32), (300, 512, 512))._get_freqs_cis(IDS.T[None])[0], as_complex, IDS),
    "Kandinsky5Transformer3DModel": ("Kandinsky5RoPE3D", lambda c: c((16, 24, 24))(
        (1, 3, 5, 7), [torch.arange(n) for n in (3, 5, 7)]), matrices, IDS),
    "Kandinsky6SRTransformer3DModel": ("Kandinsky6SRRoPE3D", lambda c: c((16, 24, 24))(
        [torch.arange(n) for n in (3, 5, 7)]), matrices, IDS),
    "HeliosTransformer3DModel": ("HeliosRotaryPosEmbed", lambda c: c((44, 42, 42), 10000.0)(
        torch.arange(3)[None], 5, 7, "cpu")[0].flatten(1).T.chunk(2, dim=-1), interleaved, IDS),
    "Ideogram4Transformer2DModel": ("Ideogram4MRoPE", lambda c: [
        t[0] for t in c(256, 5000000, (24, 20, 20))(IDS.T[None])], halves, IDS),
    "Cosmos3OmniTransformer": ("Cosmos3VLTextRotaryEmbedding", lambda c: [
        t[0] for t in c(128, 5000000.0, (24, 20, 20))(IDS[:, None], "cpu", torch.float32)],
        halves, IDS),
    "PRXTransformer2DModel": ("PRXEmbedND", lambda c: c(64, 10000, (32, 32))(
        grid(5, 7).T[None].float()), matrices, grid(5, 7)),
}  # fmt: skip
BY_DAY = ("FluxTransformer2DModel", "WanTransformer3DModel", "CosmosTransformer3DModel",
          "Lumina2Transformer2DModel", "Ideogram4Transformer2DModel")  # fmt: skip


def by_day(names, day):
    return [pytest.param(n, marks=() if n in day else pytest.mark.nightly) for n in names]


@pytest.mark.parametrize("name", by_day(CASES, BY_DAY))
def test_rotations_are_those_of_the_modules(name):
    attribute, make, apply, positions = CASES[name]
    encoding = of(name).encodings["attention"]
    x = drawn(encoding, positions.shape[1])
    with torch.no_grad():
        turned = apply(x, make(module(name, attribute)))
    assert agrees(encoding, turned, positions, x)


def cogvideo(x):
    made = embeddings().get_3d_rotary_pos_embed(64, ((0, 0), (5, 7)), (5, 7), 3)
    return interleaved(x, made)


def hunyuan_dit(x):
    made = embeddings().get_2d_rotary_pos_embed(88, ((0, 0), (5, 7)), (5, 7), output_type="pt")
    return interleaved(x, made)


def lumina(x):
    made = embeddings().get_2d_rotary_pos_embed_lumina(72, 5, 7)
    return as_complex(x, made.flatten(0, 1))


def allegro(x):
    t, h, w, *_ = embeddings().get_3d_rotary_pos_embed_allegro(
        96, ((0, 0), (5, 7)), (5, 7), 3, interpolation_scale=(2.2, 2.0, 2.0)
    )
    return embeddings().apply_rotary_emb_allegro(x, (t, h, w), list(IDS[:, None]))


def minimax_h3(x):
    made = module("MiniMaxH3Transformer3DModel", "MiniMaxH3RotaryPosEmbed")()(IDS.T)
    x, rest = x[..., :96], x[..., 96:]
    return torch.cat([halves(x, made), rest], dim=-1)


PIPELINES = {
    "cogvideox": (cogvideo, "CogVideoXTransformer3DModel",
                  {"use_rotary_positional_embeddings": True}, IDS),
    "easyanimate": (cogvideo, "EasyAnimateTransformer3DModel", {}, IDS),
    "lumina next": (lumina, "LuminaNextDiT2DModel", {}, grid(5, 7)),
    "allegro": (allegro, "AllegroTransformer3DModel", {}, IDS),
    "minimax h3": (minimax_h3, "MiniMaxH3Transformer3DModel", {}, IDS),
    # Columns come first: the trap of the variable names in the code of MAE.
    "hunyuan dit": (hunyuan_dit, "HunyuanDiT2DModel", {}, grid(5, 7).flip(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(PIPELINES, ("cogvideox", "hunyuan dit")))
def test_rotations_that_the_pipelines_make(name):
    turn, cls, entries, positions = PIPELINES[name]
    encoding = of(cls, **entries).encodings["attention"]
    x = drawn(encoding, positions.shape[1])
    assert agrees(encoding, turn(x), positions, x)


def ace_step(x, n):
    make = module("AceStepTransformer1DModel", "_ace_step_rotary_freqs")
    return halves(x, make(n, 128, 1000000.0, "cpu", torch.float32))


def stable_audio(x, n):
    cos, sin = embeddings().get_1d_rotary_pos_embed(
        32, n, use_real=True, repeat_interleave_real=False
    )
    return torch.cat([halves(x[..., :32], (cos, sin)), x[..., 32:]], dim=-1)


def stable_audio_3(x, n):
    name = "StableAudio3DiTModel"
    freqs = module(name, "StableAudio3RotaryEmbedding")(32)(n, torch.device("cpu"))
    turned = module(name, "_apply_rotary_partial")(x.transpose(1, 2), freqs)
    return turned.transpose(1, 2)


def longcat_audio(x, n):
    made = module("LongCatAudioDiTTransformer", "AudioDiTRotaryEmbedding")(64, 2048, base=1e5)
    return halves(x, made(x[0], n))


def minimax_music(x, n):
    name = "MiniMaxMusic3Transformer1DModel"
    tables = module(name, "MiniMaxMusic3RotaryEmbedding")(32)(n, torch.device("cpu"))
    return module(name, "_apply_partial_rotary_emb")(x.transpose(1, 2), tables).transpose(1, 2)


FACTORS = {"short_factor": [1.0 + i / 48 for i in range(48)],
           "long_factor": [2.0 + i for i in range(48)]}  # fmt: skip


def omnigen(x, n):
    made = module("OmniGenTransformer2DModel", "OmniGenSuScaledRotaryEmbedding")(
        96, rope_scaling=FACTORS
    )
    return halves(x, made(x, torch.arange(n)[None]))


ONE_AXIS = {
    "AceStepTransformer1DModel": (ace_step, {}),
    "StableAudioDiTModel": (stable_audio, {}),
    "StableAudio3DiTModel": (stable_audio_3, {}),
    "LongCatAudioDiTTransformer": (longcat_audio, {}),
    "MiniMaxMusic3Transformer1DModel": (minimax_music, {}),
    "OmniGenTransformer2DModel": (omnigen, {"rope_scaling": FACTORS}),
}


@pytest.mark.parametrize("name", by_day(ONE_AXIS, ("OmniGenTransformer2DModel",)))
def test_rotations_of_one_axis(name):
    turn, entries = ONE_AXIS[name]
    encoding = of(name, **entries).only
    x = drawn(encoding, 9)
    assert agrees(encoding, turn(x, 9), torch.arange(9), x)


def patches(shape, size, **settings):
    """The table that PatchEmbed adds to an image of this many patches of 2 x 2."""
    height, width = shape
    made = embeddings().PatchEmbed(size, size, 2, in_channels=1, embed_dim=16, **settings)
    with torch.no_grad():
        made.proj.weight.zero_()
        made.proj.bias.zero_()
        return made(torch.zeros(1, 1, 2 * height, 2 * width))[0].numpy()


SMALL = {"num_attention_heads": 2, "attention_head_dim": 8, "sample_size": 32, "patch_size": 2}


@pytest.mark.parametrize(("name", "entries", "settings"), [
    ("DiTTransformer2DModel", {}, {}),
    ("PixArtTransformer2DModel", {"sample_size": 128}, {"interpolation_scale": 2}),
    ("PixArtTransformer2DModel", {"interpolation_scale": 0.5}, {"interpolation_scale": 0.5}),
    ("Transformer2DModel", {"sample_size": 64}, {"interpolation_scale": 1}),
    ("SanaTransformer2DModel", {"interpolation_scale": 4}, {"interpolation_scale": 4}),
    ("LatteTransformer3DModel", {"sample_size": 128}, {"interpolation_scale": 2}),
])  # fmt: skip
def test_tables_of_patches(name, entries, settings):
    size = entries.get("sample_size", 32)
    encoding = of(name, **{**SMALL, **entries}).only
    for h, w in ((16, 16), (6, 6)):
        truth = encoding.truth(encoding.grid_positions(h, w))
        theirs = patches((h, w), size, **settings)
        assert truth.score(theirs).max() <= BUDGET["float32"]


def test_sd3_takes_the_centre_of_its_table():
    encoding = of("SD3Transformer2DModel", **SMALL, pos_embed_max_size=24).only
    theirs = patches((6, 4), 32, pos_embed_max_size=24)
    rows, columns = np.meshgrid(np.arange(6) + 9, np.arange(4) + 10, indexing="ij")
    truth = encoding.truth(np.stack([rows.ravel(), columns.ravel()]))
    assert truth.score(theirs).max() <= BUDGET["float32"]


def test_neighbours_of_ernie_image_have_one_angle():
    """The reason why ERNIE-Image has no encoding: its table and its rotation pair differently."""
    made = module("ErnieImageTransformer2DModel", "ErnieImageEmbedND3")(128, 256, (32, 48, 48))
    angles = made(IDS.T[None])[0, :, 0]
    assert torch.equal(angles[:, 0::2], angles[:, 1::2])  # neighbours
    # The halves that it pairs have other angles, apart from those of position 0.
    assert (angles[1:, :64] != angles[1:, 64:]).any(dim=-1).all()
