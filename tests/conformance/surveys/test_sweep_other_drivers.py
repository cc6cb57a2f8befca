"""Every driver of the sweep over other encodings notices a module that was broken on purpose."""

import functools
import importlib

import pytest

from posenc_ref.conformance.surveys.expected import expected
from posenc_ref.conformance.surveys.transformers_other.census import places
from posenc_ref.conformance.surveys.transformers_other.resized import Resized
from posenc_ref.conformance.surveys.transformers_other.sweep import (
    EXPECTED,
    PlaceCase,
    judge_place,
    outcomes,
    subjects,
)
from posenc_ref.conformance.surveys.worker import outcomes_here

torch = pytest.importorskip("torch", reason="PyTorch runs the modules that are judged")
pytest.importorskip("transformers", reason="transformers is what is judged")
pytestmark = pytest.mark.nightly  # the drivers are bound to one release, and not in the wheel


def lines_of(name):
    """The lines of the one place that is called so."""
    (place,) = [p for p in places([name]) if p.name == name]
    return place, list(outcomes_here(judge_place, PlaceCase(place)))


def rolled(tensor):
    """The rows of a table one further down; of a single row, the columns."""
    by = tensor.shape[-1] if tensor.numel() > tensor.shape[-1] else 1
    return torch.roll(tensor, by)


def broken(monkeypatch, place, owner, path, method):
    """While ``method`` of a class runs, one of its tensors is rolled."""
    cls = getattr(importlib.import_module(place.file), owner)
    original = getattr(cls, method)

    @functools.wraps(original)
    def wrong(self, *args, **more):
        tensor = functools.reduce(getattr, path.split("."), self)
        kept = tensor.data
        tensor.data = rolled(kept.clone())
        try:
            return original(self, *args, **more)
        finally:
            tensor.data = kept

    monkeypatch.setattr(cls, method, wrong)


#: A place, and what is rolled: the class that has it (that of the place), the tensor, the method.
BROKEN = [
    ("voxtral.VoxtralEncoder.embed_positions", "", "embed_positions.weight", "forward"),
    ("moonshine_streaming.MoonshineStreamingDecoder.pos_emb", "", "pos_emb.weight", "forward"),
    ("timesformer.TimesformerEmbeddings.time_embeddings", "", "", "forward"),
    ("vivit.VivitEmbeddings.position_embeddings", "", "", "forward"),
    ("sam3_lite_text.Sam3LiteTextTextPositionEmbedding.position_embedding", "", "", "forward"),
    ("patchtsmixer.PatchTSMixerPositionalEncoding.position_enc", "", "", "forward"),
    ("reformer.AxialPositionEmbeddings", "", "weights.0", "forward"),
    ("phi4_multimodal.Phi4MultimodalAudioRelativeAttentionBias.bias_values", "",
     "bias_values.weight", "forward"),
    ("detr.DetrModel.position_embedding", "DetrLearnedPositionEmbedding",
     "row_embeddings.weight", "forward"),
    ("tvp.TvpVisualInputEmbedding.col_position_embeddings", "",
     "col_position_embeddings.weight", "forward"),
    ("molmo2.Molmo2VisionModel.positional_embedding", "", "", "forward"),
    ("mllama.MllamaVisionModel.pre_tile_positional_embedding",
     "MllamaPrecomputedAspectRatioEmbedding", "embedding.weight", "forward"),
    ("hiera.HieraEmbeddings.position_embeddings", "", "", "forward"),
    ("sam2.Sam2HieraDetModel.pos_embed_window", "", "", "forward"),
    ("radio.RadioPatchEmbeddings.position_embedding", "", "", "forward"),
    ("seggpt.SegGptEmbeddings.position_embeddings", "", "", "forward"),
    ("inkling2.Inkling2VisionEmbeddings.position_embedding", "", "position_embedding.weight",
     "forward"),
    ("vilt.ViltEmbeddings.position_embeddings", "", "", "visual_embed"),
    ("pvt.PvtPatchEmbeddings.position_embeddings", "", "", "forward"),
    ("vit_mae.ViTMAEDecoder.decoder_pos_embed", "", "", "forward"),
    ("yolos.InterpolateMidPositionEmbeddings.mid_position_embeddings", "", "", "forward"),
    ("granite_speech.GraniteSpeechConformerAttention.rel_pos_emb", "", "rel_pos_emb.weight",
     "forward"),
    ("inkling.InklingAttention.rel_logits_proj", "", "rel_logits_proj.proj", "forward"),
    ("vits.VitsAttention.emb_rel_k", "", "", "forward"),
    ("esm.EsmFoldRelativePosition", "", "embedding.weight", "forward"),
    ("esmfold2.EsmFold2RelativePositionEncoding", "", "embed.weight", "forward"),
    ("gemma4.Gemma4AudioRelPositionalEncoding", "", "inv_timescales", "forward"),
    ("parakeet.ParakeetEncoderRelPositionalEncoding", "", "inv_freq", "forward"),
    ("funnel.FunnelAttentionStructure", "FunnelRelMultiheadAttention", "r_r_bias", "forward"),
    ("xlnet.XLNetRelativeAttention.r_w_bias", "", "r_r_bias", "forward"),
    ("levit.LevitAttentionSubsample.attention_biases", "", "", "forward"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "owner", "path", "method"), BROKEN, ids=[name for name, *_ in BROKEN]
)
def test_a_broken_module_deviates_and_the_real_one_does_not(name, owner, path, method, monkeypatch):
    place, real = lines_of(name)
    known = expected(EXPECTED)
    for line in real:
        assert line.verdict in ("conforms", "deviates"), (line.name, line.reason)
        assert line.verdict == "conforms" or any(entry.explains(line) for entry in known), line.name
    broken(monkeypatch, place, owner or place.owner, path or place.attribute, method)
    _, wrong = lines_of(name)
    for before, after in zip(real, wrong, strict=True):
        if before.verdict == "conforms":
            assert (after.verdict, after.name) == ("deviates", before.name)


def test_positions_of_tapas_that_do_not_restart_are_noticed(monkeypatch):
    """Its own positions start again in every cell of a table."""
    name = "tapas.TapasEmbeddings.position_embeddings"
    place, real = lines_of(name)
    assert [(line.part, line.verdict) for line in real] == [
        ("table", "conforms"),
        ("packed", "conforms"),
    ]
    cls = importlib.import_module(place.file).TapasEmbeddings
    original = cls.forward

    @functools.wraps(original)
    def whole(self, *args, **more):
        self.config.reset_position_index_per_cell = False
        return original(self, *args, **more)

    monkeypatch.setattr(cls, "forward", whole)
    _, (_, packed) = lines_of(name)
    assert (packed.verdict, packed.codes) == ("deviates", ("packing",))


def test_a_mask_that_clvp_does_not_get_is_noticed(monkeypatch):
    """Its class puts a token before and one after those it is given, and counts over the mask."""
    name = "clvp.ClvpConditioningEncoder.text_position_embedding"
    place, (real,) = lines_of(name)
    assert (real.part, real.verdict) == ("position_ids", "conforms")
    cls = importlib.import_module(place.file).ClvpConditioningEncoder
    original = cls.forward

    @functools.wraps(original)
    def unmasked(self, *args, attention_mask, **more):
        return original(self, *args, attention_mask=torch.ones_like(attention_mask), **more)

    monkeypatch.setattr(cls, "forward", unmasked)
    _, (wrong,) = lines_of(name)
    assert (wrong.verdict, wrong.codes) == ("deviates", ("padding",))


def test_a_frame_that_is_one_too_few_ago_is_noticed(monkeypatch):
    """SAM 2's rows are asked of a method that is told how many frames ago."""
    name = "sam2_video.Sam2VideoModel.memory_temporal_positional_encoding"
    place, (real,) = lines_of(name)
    assert real.verdict == "conforms"
    cls = importlib.import_module(place.file).Sam2VideoModel
    original = cls._build_memory_attention_inputs

    def nearer(self, asked, device):
        return original(self, [(ago - 1, data) for ago, data in asked], device)

    monkeypatch.setattr(cls, "_build_memory_attention_inputs", nearer)
    _, (wrong,) = lines_of(name)
    assert (wrong.verdict, wrong.codes) == ("deviates", ("wrong-row",))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("funnel.FunnelAttentionStructure",  # positions of the first block
         lambda e: e.replace(sinusoid=e.sinusoid.replace(position_scale=1.0))),
        ("vits.VitsAttention.emb_rel_k",  # the last row for all that are further away
         lambda e: e.replace(keys=e.keys[1:-1].copy(), before=e.before - 1)),
        ("radio.RadioPatchEmbeddings.position_embedding",  # the sides apart
         lambda e: Resized(e.weight, e.own, mode=e.mode)),
    ],
    ids=["funnel", "vits", "radio"],
)  # fmt: skip
def test_the_nearest_other_declaration_is_not_met(name, wrong):
    (place,) = [p for p in places([name]) if p.name == name]
    blank = PlaceCase(place).blank()
    for implementation, encoding in subjects(place):
        (line,) = outcomes(blank, lambda i=implementation, e=encoding: [(i, wrong(e))])
        assert line.verdict == "deviates", line.name
