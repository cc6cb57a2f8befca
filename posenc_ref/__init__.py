"""posenc_ref: the executable specification of Transformer positional encodings.

An encoding is an immutable dataclass.  Its fields state the convention (channel layout, base,
...), its methods compute the encoding.  The same code runs on NumPy, PyTorch, CuPy, JAX, Dask and
any other Array API library::

    >>> import numpy as np, posenc_ref as pr
    >>> rope = pr.RoPE(64, layout="half", base=500000.0)
    >>> q = rope.apply(np.ones((1, 8, 16, 64), np.float32), range(16))

``posenc_ref.conformance`` judges other implementations against it.  ``posenc_ref.backends`` has
faster implementations, each written for one array library.
"""

from typing import TYPE_CHECKING

from ._lazy import serve

if TYPE_CHECKING:
    from ._json import from_dict
    from .alibi import ALiBi
    from .attention import Attention
    from .axial_learned import AxialLearned
    from .bias import Bias
    from .box_sine import BoxSine
    from .canvas_positions import CanvasPositions
    from .chain_bias import ChainBias
    from .conv_positions import ConvPositions
    from .convit import ConViTBias
    from .cope import CoPE
    from .deberta import DeBERTa
    from .decomposed import DecomposedRelative
    from .detr_sine import DETRSine
    from .dual_chunk import DualChunk
    from .dynamic_bias import DynamicBias, DynamicWindowBias
    from .encoding import Encoding, Scaling
    from .espnet_legacy import ESPnetLegacy
    from .evicted import evict_keys
    from .fire import FIRE
    from .fope import FoPE
    from .forgetting import ForgettingBias
    from .fourier import FourierFeatures
    from .gated_bias import GatedBias
    from .hybrid import Hybrid
    from .image_generation_positions import ImageGenerationPositions
    from .kerple import Kerple
    from .layout import (
        convert_layout,
        layout_permutation,
        permute_fused_weights,
        permute_weights,
    )
    from .learned import Learned
    from .liere import LieRE
    from .mixed import MixedRoPE
    from .models.config import from_config
    from .models.layer_defaults import config_layer_types, config_rope_layers
    from .models.layer_schedule import rope_layers
    from .models.model_encoding import ModelEncoding
    from .models.model_functions import layers, rows, softmax_scale
    from .models.presets import preset, presets
    from .models.query_scale import (
        LogNScale,
        LogTemperature,
        PowerTemperature,
        QueryScale,
        QueryTemperature,
    )
    from .mrope_rules import MRoPEPositions, mrope_rule
    from .multi_axis import MultiAxisRoPE
    from .multimodal_positions import mrope_positions
    from .normed import normed_apply
    from .path import PaTH
    from .pope import PoPE
    from .position_ids import (
        decode_positions,
        packed,
        position_ids,
        shard_indices,
        shard_positions,
    )
    from .position_rule import PositionRule
    from .prope import PRoPE
    from .relative import relative_index, relative_scores, relative_shift
    from .rerope import ReRoPE
    from .residue_bias import ResidueBias
    from .resize import resize_matrix, resize_table
    from .rope import RoPE
    from .rotary import Rotary
    from .sandwich import Sandwich
    from .schedules.by_parts import NTKByParts
    from .schedules.given import GivenFrequencies
    from .schedules.linear import LinearScaling
    from .schedules.llama3 import Llama3Scaling
    from .schedules.longrope import LongRoPE
    from .schedules.ntk import DynamicNTK, NTKScaling, QwenNTK, SuNTK
    from .schedules.proportional import Proportional
    from .schedules.riflex import RIFLEx
    from .schedules.scaling import FrequencySchedule
    from .schedules.yarn import YaRN
    from .score import Score
    from .scoring import scores
    from .selective import SelectiveRoPE
    from .self_extend import SelfExtend
    from .shaw import Shaw
    from .sinusoidal import Sinusoidal
    from .sinusoidal_2d import Sinusoidal2D, Sinusoidal3D
    from .standardized import StandardizedSinusoidal
    from .t5 import T5Bias
    from .table import Table
    from .time2vec import Time2Vec
    from .transformer_xl import TransformerXL, XLNet
    from .tupe import TUPE
    from .vision_positions import grid_positions, linspace_positions, patch_centres, with_unplaced
    from .window_bias import BEiTBias, LeViTBias, LogCPB, SwinBias
    from .xdrope_positions import XDRoPEPositions
    from .xpos import XPos

__version__ = "0.1.0"
#: Version of the specification, that is of the definitions; the code has its own version.
SPEC_VERSION = "0.1"

#: The module of each public name. A name is imported when it is first used, because a program
#: needs few of the encodings.
_MODULES = {
    "FIRE": "fire",
    "TUPE": "tupe",
    "ALiBi": "alibi",
    "Attention": "attention",
    "AxialLearned": "axial_learned",
    "BEiTBias": "window_bias",
    "Bias": "bias",
    "BoxSine": "box_sine",
    "CanvasPositions": "canvas_positions",
    "ChainBias": "chain_bias",
    "CoPE": "cope",
    "ConViTBias": "convit",
    "ConvPositions": "conv_positions",
    "DETRSine": "detr_sine",
    "DeBERTa": "deberta",
    "DecomposedRelative": "decomposed",
    "DualChunk": "dual_chunk",
    "DynamicBias": "dynamic_bias",
    "DynamicNTK": "schedules.ntk",
    "DynamicWindowBias": "dynamic_bias",
    "ESPnetLegacy": "espnet_legacy",
    "Encoding": "encoding",
    "FoPE": "fope",
    "ForgettingBias": "forgetting",
    "FourierFeatures": "fourier",
    "FrequencySchedule": "schedules.scaling",
    "GatedBias": "gated_bias",
    "GivenFrequencies": "schedules.given",
    "Hybrid": "hybrid",
    "ImageGenerationPositions": "image_generation_positions",
    "Kerple": "kerple",
    "LeViTBias": "window_bias",
    "Learned": "learned",
    "LieRE": "liere",
    "LinearScaling": "schedules.linear",
    "Llama3Scaling": "schedules.llama3",
    "LogCPB": "window_bias",
    "LogNScale": "models.query_scale",
    "LogTemperature": "models.query_scale",
    "LongRoPE": "schedules.longrope",
    "MRoPEPositions": "mrope_rules",
    "MixedRoPE": "mixed",
    "ModelEncoding": "models.model_encoding",
    "MultiAxisRoPE": "multi_axis",
    "NTKByParts": "schedules.by_parts",
    "NTKScaling": "schedules.ntk",
    "PRoPE": "prope",
    "PaTH": "path",
    "PoPE": "pope",
    "PositionRule": "position_rule",
    "PowerTemperature": "models.query_scale",
    "Proportional": "schedules.proportional",
    "QueryScale": "models.query_scale",
    "QueryTemperature": "models.query_scale",
    "QwenNTK": "schedules.ntk",
    "RIFLEx": "schedules.riflex",
    "ReRoPE": "rerope",
    "ResidueBias": "residue_bias",
    "RoPE": "rope",
    "Rotary": "rotary",
    "Sandwich": "sandwich",
    "Scaling": "encoding",
    "Score": "score",
    "SelectiveRoPE": "selective",
    "SelfExtend": "self_extend",
    "Shaw": "shaw",
    "Sinusoidal": "sinusoidal",
    "Sinusoidal2D": "sinusoidal_2d",
    "Sinusoidal3D": "sinusoidal_2d",
    "StandardizedSinusoidal": "standardized",
    "SuNTK": "schedules.ntk",
    "SwinBias": "window_bias",
    "T5Bias": "t5",
    "Table": "table",
    "Time2Vec": "time2vec",
    "TransformerXL": "transformer_xl",
    "XDRoPEPositions": "xdrope_positions",
    "XLNet": "transformer_xl",
    "XPos": "xpos",
    "YaRN": "schedules.yarn",
    "config_layer_types": "models.layer_defaults",
    "config_rope_layers": "models.layer_defaults",
    "convert_layout": "layout",
    "decode_positions": "position_ids",
    "evict_keys": "evicted",
    "from_config": "models.config",
    "from_dict": "_json",
    "grid_positions": "vision_positions",
    "layers": "models.model_functions",
    "layout_permutation": "layout",
    "linspace_positions": "vision_positions",
    "mrope_positions": "multimodal_positions",
    "mrope_rule": "mrope_rules",
    "normed_apply": "normed",
    "packed": "position_ids",
    "patch_centres": "vision_positions",
    "permute_fused_weights": "layout",
    "permute_weights": "layout",
    "position_ids": "position_ids",
    "preset": "models.presets",
    "presets": "models.presets",
    "relative_index": "relative",
    "relative_scores": "relative",
    "relative_shift": "relative",
    "resize_matrix": "resize",
    "resize_table": "resize",
    "rope_layers": "models.layer_schedule",
    "rows": "models.model_functions",
    "scores": "scoring",
    "shard_indices": "position_ids",
    "shard_positions": "position_ids",
    "softmax_scale": "models.model_functions",
    "with_unplaced": "vision_positions",
}

__all__ = [
    "FIRE",
    "SPEC_VERSION",
    "TUPE",
    "ALiBi",
    "Attention",
    "AxialLearned",
    "BEiTBias",
    "Bias",
    "BoxSine",
    "CanvasPositions",
    "ChainBias",
    "CoPE",
    "ConViTBias",
    "ConvPositions",
    "DETRSine",
    "DeBERTa",
    "DecomposedRelative",
    "DualChunk",
    "DynamicBias",
    "DynamicNTK",
    "DynamicWindowBias",
    "ESPnetLegacy",
    "Encoding",
    "FoPE",
    "ForgettingBias",
    "FourierFeatures",
    "FrequencySchedule",
    "GatedBias",
    "GivenFrequencies",
    "Hybrid",
    "ImageGenerationPositions",
    "Kerple",
    "LeViTBias",
    "Learned",
    "LieRE",
    "LinearScaling",
    "Llama3Scaling",
    "LogCPB",
    "LogNScale",
    "LogTemperature",
    "LongRoPE",
    "MRoPEPositions",
    "MixedRoPE",
    "ModelEncoding",
    "MultiAxisRoPE",
    "NTKByParts",
    "NTKScaling",
    "PRoPE",
    "PaTH",
    "PoPE",
    "PositionRule",
    "PowerTemperature",
    "Proportional",
    "QueryScale",
    "QueryTemperature",
    "QwenNTK",
    "RIFLEx",
    "ReRoPE",
    "ResidueBias",
    "RoPE",
    "Rotary",
    "Sandwich",
    "Scaling",
    "Score",
    "SelectiveRoPE",
    "SelfExtend",
    "Shaw",
    "Sinusoidal",
    "Sinusoidal2D",
    "Sinusoidal3D",
    "StandardizedSinusoidal",
    "SuNTK",
    "SwinBias",
    "T5Bias",
    "Table",
    "Time2Vec",
    "TransformerXL",
    "XDRoPEPositions",
    "XLNet",
    "XPos",
    "YaRN",
    "__version__",
    "config_layer_types",
    "config_rope_layers",
    "convert_layout",
    "decode_positions",
    "evict_keys",
    "from_config",
    "from_dict",
    "grid_positions",
    "layers",
    "layout_permutation",
    "linspace_positions",
    "mrope_positions",
    "mrope_rule",
    "normed_apply",
    "packed",
    "patch_centres",
    "permute_fused_weights",
    "permute_weights",
    "position_ids",
    "preset",
    "presets",
    "relative_index",
    "relative_scores",
    "relative_shift",
    "resize_matrix",
    "resize_table",
    "rope_layers",
    "rows",
    "scores",
    "shard_indices",
    "shard_positions",
    "softmax_scale",
    "with_unplaced",
]

serve(__name__, _MODULES)
