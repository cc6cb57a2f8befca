"""posenc_ref: the executable specification of Transformer positional encodings.

An encoding is a value: its fields are the convention, its methods the mathematics, and the same
code runs on NumPy, PyTorch, CuPy, JAX, Dask and any other Array API library::

    >>> import numpy as np, posenc_ref as pr
    >>> rope = pr.RoPE(64, layout="half", base=500000.0)
    >>> q = rope.apply(np.ones((1, 8, 16, 64), np.float32), range(16))

``posenc_ref.conformance`` judges other implementations against it; ``posenc_ref.backends`` says
what each array library can do.
"""

from .alibi import ALiBi
from .bias import Bias
from .config import from_config
from .encoding import Encoding, Scaling, from_dict
from .layer_defaults import config_layer_types, config_rope_layers
from .layer_schedule import rope_layers
from .layout import convert_layout, layout_permutation, permute_weights
from .learned import Learned
from .model_encoding import ModelEncoding
from .multi_axis import MultiAxisRoPE
from .query_scale import (
    LogNScale,
    LogTemperature,
    PowerTemperature,
    QueryScale,
    QueryTemperature,
)
from .rope import RoPE
from .rotary import Rotary
from .scaling import LinearScaling
from .scoring import scores
from .sinusoidal import Sinusoidal
from .t5 import T5Bias
from .table import Table
from .xpos import XPos

__version__ = "0.1.0"
#: Version of the specification: the definitions, not the code that evaluates them.
SPEC_VERSION = "0.1"

__all__ = [
    "SPEC_VERSION",
    "ALiBi",
    "Bias",
    "Encoding",
    "Learned",
    "LinearScaling",
    "LogNScale",
    "LogTemperature",
    "ModelEncoding",
    "MultiAxisRoPE",
    "PowerTemperature",
    "QueryScale",
    "QueryTemperature",
    "RoPE",
    "Rotary",
    "Scaling",
    "Sinusoidal",
    "T5Bias",
    "Table",
    "XPos",
    "__version__",
    "config_layer_types",
    "config_rope_layers",
    "convert_layout",
    "from_config",
    "from_dict",
    "layout_permutation",
    "permute_weights",
    "rope_layers",
    "scores",
]
