"""Processors of transformers: their token types and grids are those that our calls assume.

Each processor is the real class, with the model's own image processor and a tokenizer of a few
words.  Video processors need torchvision: a stand-in returns the grid of a video.
"""

import importlib
import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from posenc_ref import mrope_rule
from posenc_ref.conformance.functions import mrope_layouts
from posenc_ref.conformance.functions.mrope_canvas import Sliced, batch
from posenc_ref.conformance.functions.mrope_layouts import Audio, Text, Video

torch = pytest.importorskip("torch", reason="PyTorch holds the inputs")
# transformers passes tensors to np.array, of which PyTorch does not take the argument "copy".
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept")
transformers = pytest.importorskip("transformers", reason="its processors are what is judged")
pytest.importorskip("PIL", reason="the image processors use Pillow")

IMAGE_AND_VIDEO = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"}
VISION = {"vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>"}
GLM = {
    "image_token": "<|image|>", "video_token": "<|video|>", "i": "<|begin_of_image|>",
    "j": "<|end_of_image|>", "video_start_token": "<|begin_of_video|>",
    "video_end_token": "<|end_of_video|>",
}  # fmt: skip
ERNIE = {
    "image_token": "<|IMAGE_PLACEHOLDER|>", "video_token": "<|VIDEO_PLACEHOLDER|>",
    "image_start_token": "<|IMAGE_START|>", "image_end_token": "<|IMAGE_END|>",
    "video_start_token": "<|VIDEO_START|>", "video_end_token": "<|VIDEO_END|>",
}  # fmt: skip
CANVAS = {
    "image_token": "<img>", "video_token": "<vid>", "image_start_token": "<image>",
    "image_end_token": "</image>", "slice_start_token": "<slice>", "slice_end_token": "</slice>",
    "image_id_start_token": "<image_id>", "image_id_end_token": "</image_id>", "n": "\n",
}  # fmt: skip
#: The module of the image processor, the special tokens, an image in a prompt, a video.
QWEN = ("qwen2_vl", IMAGE_AND_VIDEO | VISION, "<|vision_start|> {} <|vision_end|>", "{}")
GLM_MEDIA = "<|begin_of_image|> {} <|end_of_image|>", "<|begin_of_video|> {} <|end_of_video|>"
CASES = {
    "qwen2_vl": QWEN,
    "qwen2_5_vl": QWEN,
    "qwen3_vl": QWEN,
    "glm4v": ("glm4v", GLM, *GLM_MEDIA),
    "glm46v": ("glm46v", GLM, *GLM_MEDIA),
    "ernie4_5_vl_moe": (
        "ernie4_5_vl_moe", ERNIE, "<|IMAGE_START|> {} <|IMAGE_END|>",
        "<|VIDEO_START|> {} <|VIDEO_END|>",
    ),
    "paddleocr_vl": ("paddleocr_vl", {"image_token": ERNIE["image_token"]}, "{}", ""),
    "hunyuan_vl": (
        "hunyuan_vl",
        {"image_token": "<img>", "image_start_token": "<is>", "image_end_token": "<ie>"},
        "<is>{}<ie>", "",
    ),
}  # fmt: skip


def tokenizer(**special):
    """Return a tokenizer of a few words and these special tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<unk>", "<pad>", "a", "b", "c"]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", padding_side="left",
        extra_special_tokens=special,
    )  # fmt: skip


class Films:
    """A video processor: every video has two frames of 4 x 6 patches."""

    merge_size, temporal_patch_size, slice_mode, downsample_mode = 2, 2, False, "16x"
    model_input_names = ()

    def __call__(self, videos, **settings):
        """Return the grid and the times of each video."""
        from transformers.video_utils import VideoMetadata

        frames = VideoMetadata(
            total_num_frames=4, fps=2.0, frames_indices=[0, 1, 2, 3], duration=2.0
        )
        return {
            "video_grid_thw": torch.tensor([[2, 4, 6]] * len(videos)),
            "video_metadata": [frames] * len(videos),
        }


def public(module, end):
    """Return the class of a module of transformers whose name ends so."""
    made = importlib.import_module(f"transformers.models.{module}")
    return next(
        c for n, c in vars(made).items() if n.endswith(end) and c.__module__ == made.__name__
    )


def processor(model, images, tokens, **settings):
    """Return the model's processor, with an image processor of this module."""
    real = public(f"{model}.processing_{model}", "Processor")

    class Offline(real):
        def check_argument_for_proper_class(self, name, argument):
            if not isinstance(argument, Films):
                super().check_argument_for_proper_class(name, argument)

        @classmethod
        def get_attributes(cls):
            return real.get_attributes()

    parts = {
        "image_processor": public(f"{images}.image_processing_pil_{images}", "Pil")(**settings),
        "tokenizer": tokenizer(**tokens),
    }
    if "feature_extractor" in inspect.signature(real.__init__).parameters:
        parts["feature_extractor"] = transformers.WhisperFeatureExtractor(feature_size=128)
    if "video_processor" in inspect.signature(real.__init__).parameters:
        parts["video_processor"] = Films()
    return Offline(**parts)


def picture(height, width):
    """Return an image."""
    return np.full((height, width, 3), 7, np.uint8)


def ids_of(model, given, **config):
    """Return the position ids that the model makes of a processor's output."""
    from posenc_ref.conformance.adapters.transformers_mrope.model import _config, _owner

    owner = _owner(model)
    made = _config(owner.config_class, model)
    for name, value in config.items():
        setattr(made, name, value)
    with torch.device("meta"):
        inner = owner(made).model
    names = inspect.signature(inner.get_rope_index).parameters
    return inner.get_rope_index(**{k: v for k, v in given.items() if k in names})[0].numpy()


def equal(rule, types, given, theirs, grids):
    """Return whether the rule's positions of the real tokens are the model's."""
    mask = given["attention_mask"].numpy()
    mine = rule.positions(types, attention_mask=mask, **grids)
    at = np.broadcast_to(mask == 1, mine.shape)
    return (mine[at] == theirs[at]).all()


@pytest.mark.parametrize("model", CASES)
def test_types_and_grids(model):
    """A row with an image and, where the model takes them, a video; a shorter row with an image."""
    images, tokens, image, video = CASES[model]
    made = processor(model, images, tokens)
    one = image.format(made.image_token)
    film = video and " b " + video.format(made.video_token) + " c"
    given = made(
        images=[picture(120, 200), picture(90, 64)], text=[f"a b {one} c{film}", f"a {one} c c"],
        return_tensors="pt", padding=True,
        **({"videos": [np.zeros((4, 3, 56, 84), np.uint8)]} if video else {}),
    )  # fmt: skip
    if model == "hunyuan_vl":  # transformers goes on counting images: judge the rows apart
        given = {k: v[:1] for k, v in given.items() if k != "pixel_values"}
    types = given["mm_token_type_ids"].numpy()
    assert set(types.ravel().tolist()) == ({0, 1, 2} if video else {0, 1})
    grids = {"image_grids": given["image_grid_thw"].numpy()}
    if video:
        grids["video_grids"] = given["video_grid_thw"].numpy()
        given["second_per_grid_ts"] = torch.tensor([0.5])
        grids["seconds_per_grid"] = [0.5]
    assert equal(mrope_rule(model), types, given, ids_of(model, given), grids)


def test_images_to_come():
    """The grids of GLM-Image are those of the prompt's images, then those to come, row by row."""
    tokens = {
        "image_token": "<|image|>", "grid_bos_token": "<sop>", "grid_eos_token": "<eop>",
        "bos_token": "<boi>", "e": "<eoi>",
    }  # fmt: skip
    made = processor("glm_image", "glm_image", tokens, merge_size=1)
    rule, ids = mrope_rule("glm_image"), made.tokenizer.convert_tokens_to_ids
    for images, texts, each in (
        (
            [picture(60, 110), picture(90, 64)],
            ["a <boi> <|image|> <eoi> b", "<boi> <|image|> <eoi>"],
            1,
        ),
        (None, ["a b c", "a"], 2),
    ):
        given = made(
            images=images, text=texts, target_h=96, target_w=64, return_tensors="pt", padding=True
        )
        grids = given["image_grid_thw"].numpy()
        assert given["images_per_sample"].tolist() == [each + bool(images)] * 2
        # A target of 96 x 64 pixels has 3 x 2 tokens, its preview has about 256.
        assert [3, 2] in grids[:, 1:].tolist()
        types = (given["input_ids"] == made.image_token_id).long().numpy()
        theirs = ids_of("glm_image", given, image_start_token_id=ids("<boi>"),
                        image_end_token_id=ids("<eoi>"))  # fmt: skip
        assert equal(rule, types, given, theirs, {"image_grids": grids})


def test_slices():
    """MiniCPM-V's markers, thumbnail, slices and newlines are those of our calls."""
    made = processor("minicpmv4_7", "minicpmv4_6", CANVAS, scale_resolution=112)
    given = made(
        images=[picture(300, 420), picture(60, 90)], text=["a <img> c", "b <img> c c"],
        return_tensors="pt", padding=True,
    )  # fmt: skip
    ids = {name: made.tokenizer.convert_tokens_to_ids(word) for name, word in CANVAS.items()}
    marks = SimpleNamespace(**ids)
    config = {
        "image_start_id": marks.image_start_token, "image_end_id": marks.image_end_token,
        "slice_start_id": marks.slice_start_token, "slice_end_id": marks.slice_end_token,
        "newline_id": marks.n,
    }  # fmt: skip
    tokens, types = given["input_ids"].numpy(), given["mm_token_type_ids"].numpy().copy()
    for name in ("image_start_token", "image_end_token", "slice_end_token"):
        types[tokens == ids[name]] = 5
    types[tokens == marks.slice_start_token], types[tokens == marks.n] = 4, 6
    sizes = [(h // 4, w // 4) for h, w in given["target_sizes"].tolist()]
    rule, count = mrope_rule("minicpmv4_7"), len(sizes) - 2  # the second image is not sliced
    columns = 1 + given["input_ids"][0].tolist().count(marks.n)
    rows = count // (count // columns)
    sliced = Sliced(*sizes[0], rows, count // rows, sizes[1])
    segments = [[Text(4), sliced, Text(1)], [Text(4), Sliced(*sizes[-1]), Text(2)]]
    ours = batch(rule, segments, steps=0)
    assert count >= 4
    assert types.tolist() == ours.token_types.tolist()
    assert ours.image_grids[:, 1:].tolist() == given["target_sizes"].tolist()
    theirs = ids_of("minicpmv4_7", given, **config)
    assert equal(rule, types, given, theirs, {"image_grids": ours.image_grids})


@pytest.mark.parametrize("model", ["qwen2_5_omni", "qwen3_omni_moe"])
def test_sound(model):
    """The order of the tokens of a video and its sound, and the markers, are those of our calls."""
    rule, words = mrope_rule(model), {
        "audio_token": "<a>", "audio_bos_token": "<as>", "audio_eos_token": "<ae>",
        "image_token": "<i>", "video_token": "<v>", "vision_bos_token": "<vs>",
        "vision_eos_token": "<ve>",
    }  # fmt: skip
    made = processor(model, "qwen2_vl", words)
    for film in (
        Video(3, 2, 1, 0.5, sound=31), Video(2, 1, 2, 0.5, sound=75), Video(9, 1, 2, 0.5, sound=40),
        Video(2, 3, 7, 0.5, sound=4),
    ):  # fmt: skip
        text = made.replace_video_with_audio_token(
            {"video_grid_thw": torch.tensor([[film.t, 2 * film.h, 2 * film.w]]),
             "video_second_per_grid": [film.seconds]},
            0, {"num_audio_tokens": [film.sound]}, 0,
            position_id_per_seconds=rule.tokens_per_second, seconds_per_chunk=2.0,
        )  # fmt: skip
        tokens = made.tokenizer.tokenize(f"<vs>{text}<ve>")
        ours = mrope_layouts.batch(rule, [[Text(2), film, Text(2)]]).token_types[0].tolist()
        assert [{"<v>": 2, "<a>": 3}.get(token, 0) for token in tokens] == ours
    given = made(text=["a <as><a><ae> b"], audio=[np.zeros(16000, np.float32)], return_tensors="pt")
    count = int((given["input_ids"] == made.audio_token_id).sum())
    ours = mrope_layouts.batch(rule, [[Text(2), Audio(count), Text(2)]]).token_types
    assert (3 * (given["input_ids"] == made.audio_token_id)).tolist() == ours.tolist()
    assert count == (25 if rule.tokens_per_second == 25 else 13)  # tokens of a second
