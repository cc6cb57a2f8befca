"""The same encodings in transformers, whose code knows nothing of ours."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Learned, RoPE, Sinusoidal, T5Bias
from posenc_ref.accuracy import Truth, budget

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models


def sinusoid_truth(encoding, positions):
    table = encoding.table(positions)
    sin_at, cos_at = encoding.columns()
    angle = np.zeros(table.shape)
    waves = (np.asarray(positions) + encoding.offset)[:, None] * encoding.frequencies()
    angle[:, sin_at], angle[:, cos_at] = waves, waves[:, : cos_at.size]
    return Truth(table, np.abs(table), np.abs(angle))


def whisper(n, dim):
    return models.whisper.modeling_whisper.sinusoids(n, dim)


def m2m(n, dim):
    cls = models.m2m_100.modeling_m2m_100.M2M100SinusoidalPositionalEmbedding
    return cls.get_embedding(n, dim)


def marian(n, dim):
    cls = models.marian.modeling_marian.MarianSinusoidalPositionalEmbedding
    return cls(n, dim).create_weight()


def musicgen(n, dim):
    cls = models.musicgen.modeling_musicgen.MusicgenSinusoidalPositionalEmbedding
    return cls.get_embedding(n, dim)


def xlm(n, dim):
    out = torch.empty(n, dim)
    return models.xlm.modeling_xlm.create_sinusoidal_embeddings(n, dim, out)


T2T = {"layout": "concat", "denominator": "half-1"}


@pytest.mark.parametrize(
    ("peer", "fields"),
    [
        (whisper, T2T),
        (m2m, T2T),
        (m2m, {**T2T, "odd": "zero-pad"}),
        (marian, {"layout": "concat"}),
        (musicgen, {**T2T, "first": "cos"}),
        (xlm, {}),
    ],
)
def test_sinusoids_of_transformers(peer, fields):
    dim = 33 if "odd" in fields else 32
    table = peer(500, dim).detach().numpy()
    truth = sinusoid_truth(Sinusoidal(dim, **fields), np.arange(500))
    assert truth.score(table).max() <= budget("float32")
    other = {**fields, "base": 9990.0}
    wrong = sinusoid_truth(Sinusoidal(dim, **other), np.arange(500))
    assert wrong.score(table).max() > budget("float32")


@pytest.mark.parametrize(
    "config",
    [(32, 128, True), (32, 128, False), (320, 800, True), (64, 256, True), (512, 2048, True)],
)
def test_buckets_of_t5(config):
    buckets, distance, both = config
    peer = models.t5.modeling_t5.T5Attention._relative_position_bucket
    r = np.arange(-3000, 3001)
    want = peer(torch.tensor(r), bidirectional=both, num_buckets=buckets, max_distance=distance)
    encoding = T5Bias(
        np.zeros((buckets, 1)), num_buckets=buckets, max_distance=distance, bidirectional=both
    )
    assert (encoding.bucket(r) == want.numpy()).all()
    assert (encoding.bucket(torch.tensor(r)) == want).all()


@pytest.mark.parametrize("heads", [1, 8, 12, 71])
def test_bloom_adds_alibi_up_to_a_constant_per_row(heads):
    build = models.bloom.modeling_bloom.build_alibi_tensor
    peer = build(torch.ones(1, 30), heads, torch.float32).numpy()  # (H, 1, K): slope * key
    bias = ALiBi(heads).bias([29], range(30))
    constant = ALiBi(heads).slopes()[:, None, None] * 29
    truth = Truth(bias + constant, np.abs(bias) + constant, np.zeros(()))
    assert truth.score(peer).max() <= budget("float32")


def test_position_ids_of_roberta():
    peer = models.roberta.modeling_roberta.RobertaEmbeddings.create_position_ids_from_input_ids
    tokens = np.random.default_rng(0).integers(0, 4, (5, 9))
    encoding = Learned(np.zeros((12, 1)), padding_idx=1)
    ids = encoding.ids_from_tokens(tokens)
    assert (ids == peer(torch.tensor(tokens), 1).numpy()).all()
    assert (encoding.ids_from_tokens(torch.tensor(tokens)).numpy() == ids).all()


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotations_of_llama_and_gptj(layout):
    rng = np.random.default_rng(0)
    x, p = rng.standard_normal((1, 2, 50, 16)).astype(np.float32), torch.arange(50)[None]
    if layout == "half":
        module = models.llama.modeling_llama
        config = models.llama.LlamaConfig(hidden_size=32, num_attention_heads=2)
        cos, sin = module.LlamaRotaryEmbedding(config)(torch.tensor(x), p)
        y, _ = module.apply_rotary_pos_emb(torch.tensor(x), torch.tensor(x), cos, sin)
    else:
        module = models.gptj.modeling_gptj
        table = module.create_sinusoidal_positions(50, 16)[None]
        sin, cos = table.chunk(2, dim=-1)
        # GPT-J wants (B, S, H, D).
        y = module.apply_rotary_pos_emb(torch.tensor(x).transpose(1, 2), sin, cos).transpose(1, 2)
    rope = RoPE(16, layout=layout)
    first, second = rope.pairs()
    size, angle = np.zeros(x.shape), np.zeros((50, 16))
    size[..., first] = size[..., second] = np.hypot(x[..., first], x[..., second])
    angle[:, first] = angle[:, second] = np.arange(50)[:, None] * rope.frequencies()
    truth = Truth(rope.apply(x.astype(np.float64), range(50)), 2 * size, angle * size)
    assert truth.score(y.numpy()).max() <= budget("float32")
    other = RoPE(16, layout={"half": "interleaved", "interleaved": "half"}[layout])
    wrong = Truth(other.apply(x.astype(np.float64), range(50)), 2 * size, angle * size)
    assert wrong.score(y.numpy()).max() > budget("float32")
