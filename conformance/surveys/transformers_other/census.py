"""Every position encoding that is no rotation, in the source of the installed ``transformers``.

Nothing is imported.  A *place* is where a model's file makes one: an attribute of a class, a class
that computes sines, a function that makes biases.  A model without any is rotary only, made of
other models, or has none; every folder is one of these, or has places.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from posenc_ref.conformance.surveys.transformers.census import (
    NAMES,
    WITHOUT,
    matches,
    models_folder,
)

#: What a place holds, by what has to be known to drive it.
KINDS = (
    "learned", "coordinates", "sines", "image sines", "timesteps", "fourier", "alibi", "t5",
    "window", "decomposed", "relative", "disentangled", "convolution", "other",
)  # fmt: skip
#: What a model is where it has no place of its own.
CLASSES = ("non-rotary", "rotary only", "parts", "none", "no model code", "unknown")
#: Read, and found to speak of positions without encoding any.
WITHOUT_ANY = ("glpn", "pvt_v2", "segformer", "zamba")
#: What code with a position encoding has a word of, wherever it is.
_WORDS = re.compile(r"position_?emb|pos_?emb|positional|alibi|rel_pos|relative_pos", re.IGNORECASE)

_POSITION = re.compile(
    r"(^|_)(pos|position|positions|positional|wpe)(_|$)|^(time|temporal)_embeddings$"
)
_LAYOUT = re.compile(r"^(x|y|h|w)_position_embeddings$")
#: Attributes whose names speak of positions, and that are no encoding of them.
_NOT = re.compile(
    r"query_pos|reference|position_ids|rel_pos|relative|pos_(drop|trans|norm|proj|head|weight)"
    r"|position_(bias|embedding_type|embedding_size|biased)|(^|_)pos_(bias|q_proj|key|query)"
    r"|no_(memory|mem)_positional|pos_dropout|pos_emb_alpha|post|proj(ection)?(_layer)?$|min_pos|boxes_pos"
)
_SINES = re.compile(r"\b(sin|cos)\(|\.sin_?\(")
#: Sines that are no positions: activations, windows of vocoders, biases of deformable attention.
_NO_SINES = re.compile(
    "Snake|Vocoder|HifiGan|PreTrainedModel$|Activation|Istft|Rotary|RoPE|Rope|rotary|rope|"
    "hann|hamming|stft|kaiser|Attention$|Layer$|Model$|ForPrediction$|Dirac|Fourier(Feature)?Init"
)
#: What every place has a word of.
_WORTH = re.compile(
    r"posi|wpe|\bsin\(|alibi|rel_pos|pos_emb|rpb|emb_rel|attention_bias|time_embed|rel_attn|"
    r"bias_values|distance_emb|relative_pos",
    re.IGNORECASE,
)
#: What a class or function has that is a place: an attribute, sines, or a name.
_MAKES = re.compile(
    r"self\.\w*(pos|wpe|r_w_bias|time_emb|temporal_emb|rel|rpb|attention_bias|bias_values|distance_emb)\w*"
    r"(: [^=\n]+)? = |\bsin\(|build_2d_sin|^def \w*alibi|^class (\w*RelativePosition|Axial)|"
    r"^class \w*(PositionalConvEmbedding|ConvPosition|FoldRelativePosition)"
)
_RELATIVE = re.compile(r"^(global_)?relative_attention_bias$|^rel_attn_embed$|^bias_values$")
_WINDOW = re.compile(
    r"^(relative_position_bias_table|attention_biases|continuous_position_bias_mlp|rpb)$"
)
_XL = re.compile(
    "^(pos_bias_u|linear_pos|relative_k_proj|rel_pos_emb|rel_logits_proj|r_w_bias|emb_rel_k|"
    "relative_pos_embeddings|distance_embedding)$"
)


@dataclass(frozen=True, order=True)
class Place:
    """Where a position encoding is made."""

    model: str  #: the folder under ``transformers.models``
    owner: str  #: the class, or the function
    attribute: str = ""  #: of the class; empty where the class itself is the encoding
    kind: str = "other"
    line: int = 0
    made: str = ""  #: the expression that makes it
    stem: str = ""  #: the file, where it is not modeling_<model>

    @property
    def name(self) -> str:
        """The model's folder, the class and the attribute."""
        return f"{self.model}.{self.owner}" + (f".{self.attribute}" if self.attribute else "")

    @property
    def file(self) -> str:
        """The name of the modeling module."""
        return f"transformers.models.{self.model}.{self.stem or f'modeling_{self.model}'}"

    @property
    def source(self) -> str:
        """File and line."""
        return f"models/{self.model}/{self.stem or f'modeling_{self.model}'}.py:{self.line}"


def places(only: Sequence[str] = ()) -> list[Place]:
    """The places whose name matches one of the patterns ``only`` (all, if empty), sorted."""
    found = [place for _, own in _every() for place in own]
    if not only:
        return found
    return [p for p in found if any(matches(p.name, p.model, word.lower()) for word in only)]


def classes() -> dict[str, str]:
    """What every model folder of the library is: one of :data:`CLASSES`."""
    folder = models_folder()
    return {model: _class(folder / model, bool(own)) for model, own in _every()}


@functools.cache
def _every() -> tuple[tuple[str, tuple[Place, ...]], ...]:
    folder = models_folder()
    models = sorted(p.name for p in folder.iterdir() if (p / "__init__.py").is_file())
    return tuple((m, tuple(sorted(set(_in(folder / m))))) for m in models)


def _files(folder: Path) -> list[Path]:
    return [f for f in sorted(folder.glob("modeling_*.py")) if not re.search("_(tf|flax)_", f.stem)]


def _class(folder: Path, found: bool) -> str:
    if found:
        return "non-rotary"
    text = "".join(f.read_text(encoding="utf-8") for f in _files(folder))
    text = "\n".join(line for line in text.splitlines() if ">>>" not in line)
    if not text:
        return "no model code"
    if folder.name in WITHOUT_ANY:
        return "none"
    if folder.name in WITHOUT or re.search(r"Rotary|RoPE|Rope|apply_rotary|rotate_half", text):
        return "rotary only"
    if re.search(
        r"AutoModel\w*\.from|AutoBackbone\.|load_backbone\(|create_model\(|from \.\.\w+\.modeling",
        text,
    ):
        return "parts"
    return "unknown" if _WORDS.search(text) else "none"


def _in(folder: Path) -> Iterator[Place]:
    for file in _files(folder):
        stem = "" if file.stem == f"modeling_{folder.name}" else file.stem
        yield from read(folder.name, file.read_text(encoding="utf-8"), stem)


def read(model: str, source: str, stem: str = "") -> Iterator[Place]:
    """The places of one modeling file."""
    if not _WORTH.search(source):
        return
    tables = set(re.findall(r"^class (?!\w*Sinus)(\w+)\(nn\.Embedding\)", source, re.MULTILINE))
    sines, functions = False, []
    for text, line in _blocks(source):
        if not _MAKES.search(text):
            continue
        (node,) = ast.parse(text).body
        ast.increment_lineno(node, line)
        if isinstance(node, ast.ClassDef):
            kind = _computes(node, text)
            kind = "" if model in WITHOUT and kind == "sines" else kind  # those of a rotation
            found = [] if kind == "fourier" else list(_attributes(model, node, stem, tables))
            yield from found
            if kind and not any(p.kind == kind for p in found):
                sines = sines or "sines" in kind
                yield Place(model, node.name, "", kind, node.lineno, "", stem)
        elif isinstance(node, ast.FunctionDef):
            kind = _function(model, node.name, text)
            if kind:
                functions.append(Place(model, node.name, "", kind, node.lineno, "", stem))
    boxes = "encode_sinusoidal_position_embedding"
    yield from (f for f in functions if f.owner == boxes or not (sines and "sines" in f.kind))


def _blocks(source: str) -> Iterator[tuple[str, int]]:
    """The classes and functions of a file, and the number of lines before each."""
    starts = [m.start() for m in re.finditer(r"^(class|def) ", source, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(source)], strict=True):
        text = re.split(r"^(?=[^\s)\]}#])", source[start:end], flags=re.MULTILINE)[1]
        yield text, source.count("\n", 0, start)


def _function(model: str, name: str, text: str) -> str:
    """The kind of encoding that a function makes, if it makes one."""
    if "alibi" in name:
        return "alibi" if "build" in name else ""
    if re.search("rotary|rope|rotate", name) or model in WITHOUT or not re.search(r"\bsin\(", text):
        return ""
    if re.search("fourier", name):
        return "fourier"
    if re.search("2d_sin|encode_sinusoidal|sineembed", name):
        return "image sines"
    return "sines" if re.search("sin(e|us)|positional_encoding", name) else ""


def _computes(node: ast.ClassDef, text: str) -> str:
    """The kind of sines that a class computes itself, if it does."""
    name = node.name
    if name == "AxialPositionEmbeddings":
        return "learned"
    if re.search("PositionalConvEmbedding$|ConvPosition", name):
        return "convolution"
    if re.search(
        "RelativePositionalEncoding$|FoldRelativePosition$|RelativePositionEncoding", name
    ):
        return "relative"
    if re.search("(2D|Rotary)", name) and not _SINES.search(text):
        return ""
    if not _SINES.search(text) and "build_2d_sinusoidal" not in text:
        return ""
    if NAMES.search(name) or _NO_SINES.search(name) or not re.search(r"\bsin", text):
        return ""
    if re.search(r"DisentangledSelf|Decoder$|Encoder$", name) and not re.search(
        "(?i)sinusoid|sincos", text
    ):
        return ""
    if re.search("Timestep|SinusPositionEmbedding|DiffusionHeadSinus|DurationEmb", name):
        return "timesteps"
    if re.search("HybridEncoder|SinePosition|PositionEmbeddingSine|2D|HybridEncoder", name):
        return "image sines"
    if re.search("^(Sam|EdgeTam|SamHQ).*PositionalEmbedding$|Fourier", name):
        return "fourier"
    if re.search("Rel(ative)?Position|AttentionStructure", name):
        return "relative"
    return "sines"


def _attributes(model: str, node: ast.ClassDef, stem: str, tables: set[str]) -> Iterator[Place]:
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        seen = set()
        for child in ast.walk(method):
            if not isinstance(child, ast.Assign | ast.AnnAssign):
                continue
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            if not isinstance(target, ast.Attribute) or child.value is None:
                continue
            made = ast.unparse(child.value)
            kind = _kind(node.name, target.attr, made, tables)
            if kind and target.attr not in seen:
                seen.add(target.attr)
                yield Place(model, node.name, target.attr, kind, child.lineno, made, stem)


def _kind(owner: str, name: str, made: str, tables: set[str]) -> str:
    if _RELATIVE.match(name) or re.search(r"rel_pos(_x|_y)?_bias$", name):
        return "t5" if "Linear" in made or "Embedding(" in made else "other"
    if _WINDOW.match(name):
        return "window"
    if name == "rel_pos_h":
        return "decomposed"
    if _XL.match(name):
        return "relative" if name != "linear_pos" else ""
    if name == "relative_attention" and owner == "DisentangledSelfAttention":
        return "disentangled"
    if _LAYOUT.match(name):
        return "coordinates"
    if _NOT.search(name) or not _POSITION.search(name):
        return ""
    table = re.match(r"(torch\.)?nn\.(Embedding|Parameter)\(|\w*Quant\w*Embedding\(", made)
    is_table = table is not None or made.partition("(")[0] in tables
    return (
        "learned" if is_table or re.match(r"\w*(Learned|Trainable|Precomputed)\w*\(", made) else ""
    )
