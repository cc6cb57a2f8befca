"""The encodings of models that no class of transformers rotates: ALiBi, T5, learned tables, FoPE.

``data/other_models.json`` lists them.  Models whose code is not in transformers are read by the
code of their repositories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from posenc_ref import _validate as validate
from posenc_ref._text import shown
from posenc_ref.alibi import ALiBi
from posenc_ref.angles import TWO_PI
from posenc_ref.encoding import Encoding
from posenc_ref.fope import FoPE
from posenc_ref.learned import Learned
from posenc_ref.limits import TABLE
from posenc_ref.rope import RoPE
from posenc_ref.schedules.ntk import QwenNTK
from posenc_ref.schedules.scaling import standard_schedule
from posenc_ref.t5 import T5Bias

from .config_facts import Settings, table
from .config_fields import entry
from .config_keys import refuse_unread
from .model_encoding import ModelEncoding
from .other.sines import sines
from .query_scale import LogNScale


def is_other(config: Mapping[str, Any], model_type: str) -> bool:
    """Return whether :func:`other_model` reads this configuration."""
    known = model_type in table("other_models")["models"]
    return known and (model_type != "falcon" or bool(entry(config, "alibi")))


def other_model(settings: Settings, learned: bool) -> ModelEncoding:
    """Return the encoding of a model of ``data/other_models.json``.

    A configuration has no learned numbers.  If ``learned`` is True, they are 0; else a model that
    needs some raises ValueError.
    """
    facts = settings.conventions
    if facts["kind"] == "fope" and not learned:
        raise settings.wrong(
            "it has FoPE with learned cos_coef and sin_coef, which no configuration has: pass them "
            "to a preset, preset('intern-s1-pro', cos_coef=..., sin_coef=...), or to FoPE"
        )
    if facts["kind"] in ("t5", "learned") and not learned:
        field = "table" if facts["kind"] == "t5" else "weight"
        raise settings.wrong(
            f"it has no rotary encoding but a learned {field}, which no configuration has: it is "
            f"{facts['tensor']} of the checkpoint. Pass it to a preset, such as "
            f"preset({facts['preset']!r}, {field}=...)"
        )
    made: ModelEncoding = _KINDS[facts["kind"]](settings, facts)
    return made


def other_settings(config: Mapping[str, Any], model_type: str) -> Settings:
    """Return the entries of such a configuration; its conventions are the facts of the model."""
    settings = Settings(config, model_type, "half")
    settings.conventions = table("other_models")["models"][model_type]
    named = settings.given("architectures") or ()
    if isinstance(named, list | tuple) and "Chronos2Model" in named:
        raise settings.wrong(
            "the architecture Chronos2Model is that of chronos-forecasting, not T5: over time, "
            "queries and keys of d_kv channels rotate as RoPE(d_kv, layout='half', "
            "base=rope_theta), with a softmax scale of 1; attention over groups encodes no "
            "positions. Declare that RoPE"
        )
    refuse_unread(settings)
    for key in ("rope_theta", "rope_scaling", "rope_parameters"):
        # Falcon's class always writes them.
        unread = model_type != "falcon" and settings.conventions["kind"] != "fope"
        if unread and settings.given(key):
            raise settings.wrong(
                f"{key} (= {shown(settings.given(key))}) is not read: this model's code rotates "
                "nothing by it; remove it or set it to null"
            )
    return settings


def _first(settings: Settings, names: Sequence[str], default: int | None = None) -> int:
    """Return the first of some entries as an integer; models have several names for one entry."""
    for name in names:
        if settings.get(name) is not None:
            return settings.integer(name)
    if default is None:
        raise settings.wrong(f"{names[0]} is missing")
    return default


def _zeros(settings: Settings, rows: int, columns: int) -> np.ndarray:
    """Return a learned table whose numbers are not known."""
    if rows * columns > TABLE:
        raise settings.wrong(
            f"a learned table must have at most {TABLE} numbers, got {rows} rows of {columns}"
        )
    return np.zeros((rows, columns))


def _model(
    settings: Settings, encodings: Mapping[str, Encoding | None], count: int = 0, **more: Any
) -> ModelEncoding:
    code = table("other_models")["models"][settings.model_type]["code"]
    (layer_type, *_) = encodings
    return ModelEncoding(
        settings.model_type,
        encodings=encodings,
        layer_types=(layer_type,) * count,
        provenance={"encoding": code},
        **more,
    )


def _alibi(settings: Settings, facts: Mapping[str, Any]) -> ModelEncoding:
    heads, most = _first(settings, facts["heads"]), 8.0
    if settings.model_type == "mpt":
        attention = settings.given("attn_config") or {}
        if attention.get("alibi") is False:
            raise settings.wrong("attn_config.alibi must be true; without ALiBi, rows are learned")
        if attention.get("softmax_scale") is not None:
            raise settings.wrong("attn_config.softmax_scale is not read; set it to null")
        most = validate.real("alibi_bias_max", attention.get("alibi_bias_max", 8), above=0.0)
    encoding = ALiBi(heads, max_bias=most, bias_inside_scale=bool(facts.get("inside")))
    count = _first(settings, facts["count"], 0)
    return _model(settings, {"full_attention": encoding}, count)


def _qwen(settings: Settings, facts: Mapping[str, Any]) -> ModelEncoding:
    """Return the encoding of Qwen 1: ``QWenAttention`` and ``RotaryEmbedding`` of its code."""
    heads = settings.integer("num_attention_heads")
    head_dim = _first(
        settings, ["kv_channels"], settings.channels(settings.integer("hidden_size") // heads)
    )
    fraction = settings.given("rotary_pct")
    fraction = validate.real("rotary_pct", 1.0 if fraction is None else fraction, above=0.0)
    base = settings.given("rotary_emb_base")
    length = settings.given("seq_length")
    dynamic, logn = (bool(settings.given(k)) for k in ("use_dynamic_ntk", "use_logn_attn"))
    if (dynamic or logn) and length is None:
        raise settings.wrong(
            "use_dynamic_ntk and use_logn_attn need seq_length, the trained length"
        )
    encoding = RoPE(
        head_dim,
        layout="half",
        base=10000.0 if base is None else validate.real("rotary_emb_base", base, above=1.0),
        rotary_dim=int(head_dim * fraction),
        scaling=QwenNTK(settings.integer("seq_length")) if dynamic else None,
    )
    scale = {"full_attention": LogNScale(settings.integer("seq_length"))} if logn else {}
    count = _first(settings, ["num_hidden_layers"], 0)
    return _model(settings, {"full_attention": encoding}, count, query_scale=scale)


def _chatglm(settings: Settings, facts: Mapping[str, Any]) -> ModelEncoding:
    """Return the encoding of ChatGLM2 and ChatGLM3: half of each head rotates, interleaved."""
    if settings.given("position_encoding_2d"):
        raise settings.wrong(
            "position_encoding_2d is that of ChatGLM-6B: use the preset 'chatglm-6b'"
        )
    heads = settings.integer("num_attention_heads")
    head_dim = _first(
        settings, ["kv_channels"], settings.channels(settings.integer("hidden_size") // heads)
    )
    encoding = RoPE(head_dim, layout="interleaved", rotary_dim=head_dim // 2)
    count = _first(settings, ["num_layers", "num_hidden_layers"], 0)
    return _model(settings, {"full_attention": encoding}, count)


def _t5(settings: Settings, facts: Mapping[str, Any]) -> ModelEncoding:
    buckets = _first(settings, ["relative_attention_num_buckets"], 32)
    distance = _first(settings, ["relative_attention_max_distance"], 128)
    zeros = _zeros(settings, buckets, _first(settings, facts["heads"]))
    encoder, decoder = (
        T5Bias(zeros, num_buckets=buckets, max_distance=distance, bidirectional=both)
        for both in (True, False)
    )
    return _model(settings, {"encoder": encoder, "decoder": decoder})


def _learned(settings: Settings, facts: Mapping[str, Any]) -> ModelEncoding:
    offset = facts.get("offset", 0)
    rows = _first(settings, facts["rows"]) + offset
    kind = settings.given("position_embedding_type")
    if facts.get("absolute") and kind not in (None, "absolute"):
        raise settings.wrong(f"position_embedding_type must be 'absolute', got {kind!r}")
    padding = settings.given("pad_token_id") if "padding_idx" in facts else None
    padding = facts.get("padding_idx") if padding is None else padding
    weight = _zeros(settings, rows, _first(settings, facts["dim"]))
    return _model(settings, {"embeddings": Learned(weight, offset=offset, padding_idx=padding)})


#: The entries of rope_scaling that the code of FoPE reads.
_FOPE = ("rope_type", "type", "rope_theta", "fope_init_factor", "fope_sep_head", "num_inv_freq")


def _fope(settings: Settings, facts: Mapping[str, Any]) -> ModelEncoding:
    """Return the encoding of Intern-S1-Pro: XTuner's ``FourierEmbedding``.

    The first ``num_inv_freq`` frequencies are kept; without that entry, those above
    ``2 pi / max_position_embeddings``.  Dropped pairs have a sine of 1.
    """
    scaling = settings.given("rope_scaling") or settings.given("rope_parameters") or {}
    for key, value in scaling.items():
        if key not in _FOPE and value is not None:
            raise settings.wrong(f"rope_scaling has {key} = {value!r}; FoPE reads {_FOPE}")
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind != "default":
        raise settings.wrong(f"rope_type must be 'default' with FoPE, got {kind!r}")
    base = scaling.get("rope_theta") or settings.given("rope_theta")
    if base is None:
        raise settings.wrong("rope_theta is missing")
    heads = settings.integer("num_attention_heads")
    head_dim = _first(
        settings, ["head_dim"], settings.channels(settings.integer("hidden_size") // heads)
    )
    base = validate.real("rope_theta", base, above=1.0)
    kept = scaling.get("num_inv_freq")
    if kept is None:
        slowest = TWO_PI / settings.integer("max_position_embeddings")
        kept = sum(w > slowest for w in standard_schedule(base, head_dim))
    kept = validate.integer("num_inv_freq", kept, minimum=1)
    key_heads = _first(settings, ["num_key_value_heads"], heads)
    count = key_heads if scaling.get("fope_sep_head") else 1
    zeros = np.zeros((count, min(kept, head_dim // 2), min(kept, head_dim // 2)))
    encoding = FoPE(head_dim, zeros, zeros, dropped_sin=1, base=base)
    return _model(
        settings, {"full_attention": encoding}, _first(settings, ["num_hidden_layers"], 0)
    )


def _sines(settings: Settings, facts: Mapping[str, Any]) -> ModelEncoding:
    return _model(settings, {facts.get("where", "embeddings"): sines(settings, facts)})


_KINDS: Mapping[str, Callable[[Settings, Mapping[str, Any]], ModelEncoding]] = {
    "alibi": _alibi,
    "qwen": _qwen,
    "chatglm": _chatglm,
    "t5": _t5,
    "learned": _learned,
    "fope": _fope,
    "sines": _sines,
}
