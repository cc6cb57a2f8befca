"""The named tables of sines and cosines, each against the code that it is named for."""

import dataclasses
import math

import numpy as np
import pytest

from posenc_ref import Sinusoidal, preset, presets
from posenc_ref.accuracy import budget
from posenc_ref.conformance import check

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models

DIM, ROWS = 32, 600
NAMES = [name for name in presets() if name.startswith(("sinusoidal-", "timesteps-"))]


def embedding(module, name, **more):
    """``get_embedding`` of the fairseq family, from the row of the first token on."""
    cls = getattr(module, name)

    def make(positions):
        table = cls.get_embedding(ROWS + 2, DIM, padding_idx=1, **more)
        return table[np.asarray(positions) + 2]

    return make


def created(module, name):
    """Marian and its kin write a weight."""
    return lambda p: getattr(module, name)(ROWS, DIM).create_weight()[p]


def buffer(module, name):
    return lambda p: getattr(module, name)(ROWS + 1, DIM).positional_embedding[p]


def xlm(p):
    return models.xlm.modeling_xlm.create_sinusoidal_embeddings(ROWS, DIM, torch.empty(ROWS, DIM))[
        p
    ]


def musicgen(p):
    cls = models.musicgen.modeling_musicgen.MusicgenSinusoidalPositionalEmbedding
    return cls.get_embedding(ROWS, DIM)[p]


def ctrl(p):
    return models.ctrl.modeling_ctrl.positional_encoding(ROWS, DIM, torch.float32)[p]


def xlnet(p):
    inv_freq = 1 / torch.pow(10000, torch.arange(0, DIM, 2.0) / DIM)
    cls = models.xlnet.modeling_xlnet.XLNetModel
    return cls.positional_embedding(torch.as_tensor(p).float(), inv_freq)[:, 0]


def wav2vec2_bert(p):
    """The buffer starts at the largest distance."""
    config = models.wav2vec2_bert.Wav2Vec2BertConfig(hidden_size=DIM, max_source_positions=ROWS)
    cls = models.wav2vec2_bert.modeling_wav2vec2_bert.Wav2Vec2BertRelPositionalEmbedding
    return cls(config).pe[0][ROWS - 1 - np.asarray(p)]


def pegasus_x(p):
    cls = models.pegasus_x.modeling_pegasus_x.PegasusXSinusoidalPositionalEmbedding
    return cls(DIM)(torch.zeros(1, ROWS, DIM))[0][p]


def fun_asr(p):
    cls = models.fun_asr_nano.modeling_fun_asr_nano.FunAsrNanoPositionEmbedding
    return cls(ROWS + 1, DIM)(torch.zeros(1, ROWS, DIM))[p]


def canary(p):
    cls = models.canary.modeling_canary.CanaryPositionalEmbedding
    return cls(ROWS, DIM)(torch.as_tensor(p))


def speecht5(p):
    cls = models.speecht5.modeling_speecht5.SpeechT5ScaledPositionalEncoding
    with torch.no_grad():
        return cls(0.0, DIM)(torch.zeros(1, ROWS, DIM))[0][p]


def timesfm(p):
    config = models.timesfm.TimesFmConfig(hidden_size=DIM)
    cls = models.timesfm.modeling_timesfm.TimesFmPositionalEmbedding
    return cls(config)(position=torch.as_tensor(p)[None].float())[0]


def gemma_3n(p):
    config = models.gemma3n.Gemma3nAudioConfig(hidden_size=DIM, conf_num_attention_heads=4)
    module = models.gemma3n.modeling_gemma3n.Gemma3nAudioRelativePositionEmbedding(config)
    return module._get_timing_signal_1d_pos(torch.as_tensor(p)[None], torch.float32)[0]


def x_transformers(p):
    from x_transformers.x_transformers import ScaledSinusoidalEmbedding

    with torch.no_grad():
        return ScaledSinusoidalEmbedding(DIM)(torch.zeros(1, len(p), DIM), pos=torch.as_tensor(p))


def vibevoice(p):
    module = models.vibevoice.modeling_vibevoice
    config = models.vibevoice.VibeVoiceDiffusionHeadConfig(frequency_embedding_size=DIM)
    return module.VibeVoiceDiffusionHeadSinusoidalEmbedding(config)(torch.as_tensor(p))


def qwen_steps(p):
    cls = models.qwen2_5_omni.modeling_qwen2_5_omni.SinusPositionEmbedding
    return cls(DIM)(torch.as_tensor(p).float())


def pi0(p):
    module, config = models.pi0.modeling_pi0, models.pi0.PI0Config()
    config.dit_config.hidden_size = DIM
    return module.PI0TimestepEmbeddings(config)(torch.as_tensor(p).float())


def diffusers(**settings):
    def make(p):
        embeddings = pytest.importorskip(
            "diffusers.models.embeddings", reason="diffusers is what is compared with"
        )
        return embeddings.get_timestep_embedding(torch.as_tensor(p), DIM, **settings)

    return make


def mlx(p):
    nn = pytest.importorskip("mlx.nn", reason="MLX is what is compared with")
    core = pytest.importorskip("mlx.core", reason="MLX is what is compared with")
    return np.array(nn.SinusoidalPositionalEncoding(DIM)(core.array(np.asarray(p))))


PEERS = {
    "sinusoidal-mlx": mlx,
    "sinusoidal-xlm": xlm,
    "sinusoidal-videomae": lambda p: models.videomae.modeling_videomae.get_sinusoid_encoding_table(
        ROWS, DIM
    )[0][p],
    "sinusoidal-speecht5": speecht5,
    "sinusoidal-wav2vec2-bert": wav2vec2_bert,
    "sinusoidal-marian": created(
        models.marian.modeling_marian, "MarianSinusoidalPositionalEmbedding"
    ),
    "sinusoidal-pegasus": created(
        models.pegasus.modeling_pegasus, "PegasusSinusoidalPositionalEmbedding"
    ),
    "sinusoidal-informer": created(
        models.informer.modeling_informer, "InformerSinusoidalPositionalEmbedding"
    ),
    "sinusoidal-ctrl": ctrl,
    "sinusoidal-xlnet": xlnet,
    "sinusoidal-fairseq": embedding(
        models.m2m_100.modeling_m2m_100, "M2M100SinusoidalPositionalEmbedding"
    ),
    "sinusoidal-fsmt": embedding(models.fsmt.modeling_fsmt, "SinusoidalPositionalEmbedding"),
    "sinusoidal-xglm": embedding(models.xglm.modeling_xglm, "XGLMSinusoidalPositionalEmbedding"),
    "sinusoidal-whisper": lambda p: models.whisper.modeling_whisper.sinusoids(ROWS, DIM)[p],
    "sinusoidal-pegasus-x": pegasus_x,
    "sinusoidal-qwen-omni-audio": buffer(
        models.qwen2_5_omni.modeling_qwen2_5_omni, "SinusoidsPositionEmbedding"
    ),
    "sinusoidal-fun-asr-nano": fun_asr,
    "sinusoidal-musicgen": musicgen,
    "sinusoidal-timesfm": timesfm,
    "sinusoidal-gemma-3n-audio": gemma_3n,
    "sinusoidal-canary": canary,
    "sinusoidal-x-transformers": x_transformers,
    "timesteps-vibevoice": vibevoice,
    "timesteps-qwen-omni": qwen_steps,
    "timesteps-pi0": pi0,
}
STEPS = {
    "timesteps-ddpm": diffusers(),
    "timesteps-stable-diffusion": diffusers(flip_sin_to_cos=True, downscale_freq_shift=0),
}
#: Read in the source named, where the library is not among those that the tests have.
READ = {
    "sinusoidal-paper", "sinusoidal-espnet", "sinusoidal-transformer-xl",
    "sinusoidal-tensor2tensor",
}  # fmt: skip
#: Scores here, in units (budget 128): 0.5 where the table is made in float64, 8.7 at worst.
POSITIONS = np.array([0, 1, 2, 3, 37, 101, 255, 511, 597])


def score(encoding, table, positions=POSITIONS):
    return encoding.truth(positions).score(np.asarray(table)).max()


@pytest.mark.parametrize("name", [*PEERS, *STEPS])
def test_a_preset_agrees_with_the_code_of_its_name(name):
    encoding, peer = preset(name, dim=DIM).only, {**PEERS, **STEPS}[name]
    table = peer(POSITIONS)
    assert tuple(table.shape) == (len(POSITIONS), DIM)
    assert score(encoding, table) <= budget("float32")
    for wrong in (
        {"first": "cos" if encoding.first == "sin" else "sin"},
        {"layout": "concat" if encoding.layout == "interleaved" else "interleaved"},
        {"denominator": "half-1" if encoding.denominator == "dim" else "dim"},
        {"offset": encoding.offset + 1},
        {"scale": 1.01 * encoding.scale},
        {"position_scale": 1.01 * encoding.position_scale},
    ):
        assert score(encoding.replace(**wrong), table) > budget("float32"), wrong


def test_every_named_table_has_a_peer_or_was_read():
    assert set(NAMES) == {*PEERS, *STEPS} | READ


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_passes_its_own_check(name):
    encoding = preset(name, dim=16).only
    assert check(lambda p: encoding.table(p, dtype=np.float32), encoding, "table").passed


def tensor2tensor(positions, dim):
    """get_timing_signal_1d, written once more from its formula: float64, not its code."""
    n = dim // 2
    step = math.log(10000.0) / (n - 1)
    rows = [[p * math.exp(-step * k) for k in range(n)] for p in positions]
    return np.concatenate([np.sin(rows), np.cos(rows)], axis=1)


def test_tensor2tensor_is_not_the_paper():
    """Two encodings, not two orders of one: the slowest columns differ by nearly 2."""
    t2t, paper = preset("sinusoidal-tensor2tensor", dim=DIM).only, Sinusoidal(DIM, layout="concat")
    assert score(t2t, tensor2tensor(POSITIONS, DIM)) <= budget("float64")
    rows = np.arange(20000)
    gap = np.abs(t2t.table(rows) - paper.table(rows)).max()
    assert gap > 1.99
    assert dataclasses.replace(t2t, denominator="dim", odd="raise") == paper


def test_scales_that_go_by_the_width():
    for dim in (32, 64):
        canary, mlx = (preset(f"sinusoidal-{n}", dim=dim).only for n in ("canary", "mlx"))
        assert canary.scale == dim**-0.5
        norm = np.sum(mlx.table(range(50)) ** 2, axis=-1)
        assert np.rint(norm * 2**40).tolist() == [2**40] * 50  # rows of length 1
    with pytest.raises(TypeError, match="dim must be an integer"):
        preset("sinusoidal-canary", dim="wide")
