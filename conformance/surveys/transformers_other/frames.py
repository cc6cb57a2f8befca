"""Learned tables of whole sequences, of sounds, of video frames: what a model adds to nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from posenc_ref import AxialLearned, Learned, Shaw, Sinusoidal, Table
from posenc_ref.conformance.harness.implementation import Implementation

from .build import build, call, fill
from .census import Place
from .relative import pairs
from .single_table import entering, keep_only

Found = Iterator[tuple[Implementation, Any]]
#: Rows of the tables, patches on a side of a frame, and columns.
ROWS, SIDE, DIM = 150, 14, 16


def whole(
    place: Place, rows: Callable[[], Any], declared: Table, surface: str = "table"
) -> tuple[Implementation, Table]:
    """``rows`` gives every row at once: a model that takes no shorter input."""

    def table(positions: np.ndarray) -> np.ndarray:
        if np.min(positions, initial=0) < 0:
            raise IndexError("rows are counted from 0")
        found = rows()
        return np.asarray(found.reshape(-1, found.shape[-1]).numpy()[positions])

    return Implementation(call=table, surface=surface, name=place.name), declared


def _made(place: Place, settings: Mapping[str, Any]) -> tuple[Any, Any, Any, np.ndarray]:
    """The owner with nothing but its table, its configuration, the table, its rows."""
    module, config = build(place, settings)
    table = getattr(module, place.attribute)
    table = getattr(table, "weight", table)
    keep_only(module, table)
    rows = table.detach().numpy()
    return module, config, table, rows.reshape(-1, rows.shape[-1])


def features(place: Place) -> Found:
    """Encoders of spectrograms: Whisper and its kin, two frames to a row."""
    import torch

    module, config, _, rows = _made(place, {"max_source_positions": ROWS, "d_model": 48})
    mel = torch.zeros(1, config.num_mel_bins, 2 * ROWS)
    given = {"input_features": mel, "input_features_mask": torch.ones(1, 2 * ROWS)}

    def added() -> Any:
        return entering(module, lambda: call(module.forward, given))

    yield whole(place, added, Learned(rows))


def spectrogram(place: Place) -> Found:
    """AST: patches that overlap, after two tokens of its own."""
    import torch

    module, config, _, rows = _made(place, {"max_length": 100})
    sound = torch.zeros(1, config.max_length, config.num_mel_bins)
    yield whole(place, lambda: entering(module, lambda: module(sound)), Learned(rows))


def encoded(place: Place) -> Found:
    """Moonshine Streaming: the decoder adds rows to what the encoder gives."""
    import torch

    file = importlib.import_module(place.file)
    config = file.MoonshineStreamingConfig(
        hidden_size=DIM, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=ROWS
    )
    config.num_key_value_heads = 2
    config.encoder_config.hidden_size = DIM
    module = fill(file.MoonshineStreamingDecoder(config).eval())
    table = module.pos_emb.weight
    states = torch.zeros(1, ROWS, DIM)

    def added() -> Any:
        fresh = states.clone()  # the decoder adds to it in place
        tokens = torch.zeros(1, 1, dtype=torch.int64)
        entering(module, lambda: module(tokens, encoder_hidden_states=fresh))
        return fresh

    yield whole(place, added, Learned(table.detach().numpy()))


def times(place: Place) -> Found:
    """TimeSformer: a row for every frame, added to every patch."""
    import torch

    size = {"image_size": 32, "patch_size": 16, "num_frames": ROWS}
    module, _, _, rows = _made(place, size)
    video = torch.zeros(1, ROWS, 3, 32, 32)

    def first_patch() -> Any:
        return entering(module, lambda: module(video))[:, 1 : 1 + ROWS]

    yield whole(place, first_patch, Learned(rows))


def frames(place: Place) -> Found:
    """VideoPrism and X-CLIP: frames as they are."""
    import torch

    module, _, _, rows = _made(place, {"num_frames": ROWS})
    width = rows.shape[1]
    states = torch.zeros(1, ROWS, width)
    if place.model == "x_clip":
        yield whole(
            place, lambda: entering(module, lambda: module(states), module.encoder), Learned(rows)
        )
        return
    flat = states.transpose(0, 1)
    shape = (1, ROWS, 3, 1, 1)
    yield whole(place, lambda: module(flat, shape).detach(), Learned(rows))


def tubelets(place: Place) -> Found:
    """ViViT: a table for patches of all frames together, after [CLS]."""
    import torch

    size = {"image_size": 32, "tubelet_size": [2, 16, 16], "num_frames": 16}
    module, _, _, rows = _made(place, size)
    video = torch.zeros(1, 16, 3, 32, 32)
    yield whole(place, lambda: entering(module, lambda: module(video)), Learned(rows))
    yield from _larger(place)


def _larger(place: Place) -> Found:
    """The same asked for frames of other sizes, which it says it can."""
    import torch

    from .resized import Resized

    size = {"image_size": SIDE * 16, "tubelet_size": [2, 16, 16]}
    for count, part in ((2, "grid, one tubelet"), (4, "grid, two tubelets, other sizes")):
        module, _, _, rows = _made(place, {**size, "num_frames": count})

        def grid(height: int, width: int, module: Any = module, count: int = count) -> np.ndarray:
            if count > 2 and (height, width) == (SIDE, SIDE):
                raise ValueError("its own size, at which nothing is resized")
            video = torch.zeros(1, count, 3, 16 * height, 16 * width)
            out = entering(module, lambda: module(video, interpolate_pos_encoding=True))
            return np.asarray(out[0, 1:][: height * width].numpy())

        declared = Resized(rows[1 : 1 + SIDE * SIDE], (SIDE, SIDE), mode="bicubic")
        yield Implementation(call=grid, surface=part, name=place.name), declared


def memory(place: Place) -> Found:
    """SAM 2's kin: a row for how many frames ago; the last row is of frames that were prompted."""
    import torch

    file = importlib.import_module(place.file)
    table = torch.randn(ROWS, 1, 1, DIM, generator=torch.Generator().manual_seed(3))
    model = SimpleNamespace(memory_temporal_positional_encoding=table)
    ask = getattr(file, place.owner)._build_memory_attention_inputs
    axes = 4 if place.model == "edgetam_video" else 3
    places = torch.zeros((1,) * (axes - 1) + (DIM,))
    nothing = {"maskmem_features": torch.zeros(1, 1, DIM), "maskmem_pos_enc": places}

    def rows(positions: np.ndarray) -> np.ndarray:
        if np.min(positions, initial=0) < 0 or np.max(positions, initial=0) >= ROWS:
            raise ValueError(f"there are {ROWS} rows, for one frame ago and more")
        asked = [(int(p) + 1, nothing) for p in positions]
        _, found = ask(model, asked, torch.device("cpu"))
        return np.asarray(torch.stack(found).reshape(-1, DIM).numpy())

    made = Implementation(call=rows, surface="table", name=place.name)
    yield made, Learned(table.reshape(ROWS, DIM).numpy())


def clip(place: Place) -> Found:
    """Kimi: a sine for every frame of a clip; an image, a clip of one frame, has none."""
    import torch

    module, _ = build(place, {"pos_emb_time": ROWS, "hidden_size": DIM}, random=False)
    with torch.no_grad():
        module.position_embeddings.zero_()

    def rows(positions: np.ndarray) -> np.ndarray:
        if np.asarray(positions).dtype.kind not in "iu" or np.min(positions, initial=0) < 0:
            raise ValueError("frames are counted from 0")
        count = max(int(np.max(positions, initial=0)) + 1, 2)
        with torch.no_grad():
            found = module(torch.zeros(count, DIM), torch.tensor([[count, 1, 1]]))
        return np.asarray(found.numpy()[positions])

    made = Implementation(call=rows, surface="table", name=place.name)
    yield made, Sinusoidal(DIM, layout="concat")


def speakers(place: Place) -> Found:
    """Nemotron Transcribe: a sine for every speaker, whom an activity of 1 selects."""
    import torch

    cls = getattr(importlib.import_module(place.file), place.owner)
    module = cls(SimpleNamespace(num_speakers=300, hidden_size=DIM))

    def rows(positions: np.ndarray) -> np.ndarray:
        if np.asarray(positions).dtype.kind not in "iu" or np.min(positions, initial=0) < 0:
            raise ValueError("speakers are counted from 0")
        return np.asarray(module(torch.eye(300)[torch.as_tensor(positions)]).numpy())

    yield Implementation(call=rows, surface="table", name=place.name), Sinusoidal(DIM)


def relations(place: Place) -> Found:
    """PP-DocLayout: sines of how two boxes lie, a quarter of the columns to an exponent of 1."""
    import torch

    module, config = build(place, {"relation_bias_embed_dim": DIM}, random=False)

    def rows(positions: np.ndarray) -> np.ndarray:
        at = torch.as_tensor(np.asarray(positions), dtype=torch.float32)
        return np.asarray(module.get_position_embedding(at[:, None], module.scale).numpy())

    yield (
        Implementation(call=rows, surface="table", name=place.name),
        Sinusoidal(
            DIM, layout="concat", base=float(config.relation_bias_theta), denominator=DIM // 4,
            position_scale=float(module.scale),
        ),
    )  # fmt: skip


def text(place: Place) -> Found:
    """OneFormer's text, and MobileCLIP's, which stretches its rows to a shorter one: all tokens."""
    import torch

    cls = getattr(importlib.import_module(place.file), place.owner)
    if place.model == "oneformer":
        module = fill(cls(ROWS, 64, 1, 99).eval())
        table = module.positional_embedding
        keep_only(module, table)
        tokens = torch.zeros(1, ROWS, dtype=torch.int64)

        def added() -> Any:
            states = entering(module, lambda: module(tokens), module.transformer)
            return states.transpose(0, 1)  # the sequence comes first there

    else:
        module = fill(cls(ROWS, DIM).eval())
        table = module.position_embedding

        def added() -> Any:
            return module(ROWS).detach()

    rows = table.detach().numpy()
    yield whole(place, added, Learned(rows.reshape(-1, rows.shape[-1])))


def series(place: Place) -> Found:
    """PatchTSMixer: a row for every patch of a series."""
    import torch

    settings = {"use_positional_encoding": True, "positional_encoding_type": "random"}
    module, _ = build(place, {**settings, "context_length": 512})
    rows = module.position_enc.detach().numpy()
    series = torch.zeros(1, 1, *rows.shape)
    yield whole(place, lambda: module(series).detach(), Learned(rows))


def axial(place: Place) -> Found:
    """Reformer: positions in factors, the last of which runs fastest."""
    import torch

    module, _ = build(
        place,
        {"axial_pos_shape": (12, 20), "axial_pos_embds_dim": (6, 10), "hidden_size": DIM},
    )
    tables = [w.detach().numpy() for w in module.weights]
    factors = tuple(t.reshape(-1, t.shape[-1]) for t in tables)

    def rows(positions: np.ndarray) -> np.ndarray:
        if np.min(positions, initial=0) < 0 or np.asarray(positions).dtype.kind not in "iu":
            raise IndexError("positions are counted from 0")
        with torch.no_grad():
            return np.asarray(module(torch.as_tensor(np.asarray(positions))[None])[0].numpy())

    made = Implementation(call=rows, surface="table", name=place.name)
    yield made, AxialLearned(factors, flat=True)


def clipped(place: Place) -> Found:
    """Phi-4's audio: a bias for each clipped offset, the heads as the channels of Shaw's rows."""
    import torch

    module, config = build(place, {"bias_max_distance": 7})
    rows = module.bias_values.weight.detach().numpy()
    made = pairs(place, lambda n: module(torch.zeros(1, n, 1))[0].permute(1, 2, 0))
    yield made, Shaw(rows, before=config.bias_max_distance)


OWN: dict[str, Callable[[Place], Found]] = {
    "whisper.WhisperEncoder.embed_positions": features,
    "voxtral.VoxtralEncoder.embed_positions": features,
    "qwen2_audio.Qwen2AudioEncoder.embed_positions": features,
    "audioflamingo3.AudioFlamingo3Encoder.embed_positions": features,
    "moss_transcribe_diarize.MossTranscribeDiarizeAudioModel.embed_positions": features,
    "audio_spectrogram_transformer.ASTEmbeddings.position_embeddings": spectrogram,
    "moonshine_streaming.MoonshineStreamingDecoder.pos_emb": encoded,
    "timesformer.TimesformerEmbeddings.time_embeddings": times,
    "videoprism.VideoPrismTemporalEmbeddings.position_embeddings": frames,
    "x_clip.XCLIPMultiframeIntegrationTransformer.position_embedding": frames,
    "vivit.VivitEmbeddings.position_embeddings": tubelets,
    "sam2_video.Sam2VideoModel.memory_temporal_positional_encoding": memory,
    "edgetam_video.EdgeTamVideoModel.memory_temporal_positional_encoding": memory,
    "sam3_tracker_video.Sam3TrackerVideoModel.memory_temporal_positional_encoding": memory,
    "kimi_k25.Kimi_K25VisionPositionEmbeddings": clip,
    "nemotron3_5_transcribe.Nemotron3_5TranscribeSpeakerEmbedding": speakers,
    "pp_doclayout_v2.PPDocLayoutV2PositionRelationEmbedding": relations,
    "oneformer.OneFormerTextEncoder.positional_embedding": text,
    "sam3_lite_text.Sam3LiteTextTextPositionEmbedding.position_embedding": text,
    "patchtsmixer.PatchTSMixerPositionalEncoding.position_enc": series,
    "reformer.AxialPositionEmbeddings": axial,
    "phi4_multimodal.Phi4MultimodalAudioRelativeAttentionBias.bias_values": clipped,
}
