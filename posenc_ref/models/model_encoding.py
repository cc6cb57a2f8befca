"""The encodings of a whole model: one for each layer type, and the factors on its logits.

:func:`posenc_ref.from_config`, :func:`posenc_ref.preset` and :func:`posenc_ref.from_gguf` return a
:class:`ModelEncoding`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, Self

from posenc_ref import _validate as validate
from posenc_ref._json import from_dict
from posenc_ref._namespace import Array, astype, is_array, widen
from posenc_ref._text import shown
from posenc_ref.attention import VALUES, Attention, effective_logits
from posenc_ref.encoding import Encoding, Value

from .query_scale import QueryScale


@dataclass(frozen=True, eq=False, repr=False)
class ModelEncoding(Value):
    """The positional encoding of a model, layer by layer.

    Formula
        ``logits = t(p_q) * scale * q' . k'``, before mask and softmax. If the layer type has a
        rotary encoding, q' and k' are the rotated q and k; else they are q and k. scale is
        ``softmax_scale`` or 1/sqrt(d). t is the query scale of the layer type; if it has none,
        t = 1.
    Source
        Libraries apply the same factor in different places: DeepSeek on the softmax scale, Hugging
        Face on cos and sin, mlx-lm on queries and keys. The effective logits agree, and the formula
        above states them.

    Parameters
    ----------
    name : str
        A preset's name, or a configuration's ``model_type``.
    encodings : mapping of str to Encoding or None
        The encoding of each layer type; None for attention without positional encoding (NoPE).
        Layer types without softmax attention (convolution, linear attention) are left out.
    layer_types : sequence of str
        The type of each layer; empty if unknown.
    softmax_scale : float, optional
        The *whole* factor on q . k; None means 1/sqrt(head_dim).
    query_scale : mapping of str to QueryScale
        The factor on queries, for each layer type that has one.
    values : {"plain", "rotated", "shared"}
        Whether the rotation includes the values: see :class:`Attention`.
    sinks : sequence of str
        The layer types whose heads are known to have sinks: see :class:`Attention`.
    provenance : mapping of str to str
        The source of each fact, such as ``"base"`` or ``"layer_types"``.

    Raises
    ------
    TypeError, ValueError
        A value has the wrong type, or ``query_scale`` has a layer type that ``encodings`` lacks.
    """

    kind = "model"

    name: str
    _: KW_ONLY
    encodings: Mapping[str, Encoding | None]
    layer_types: tuple[str, ...] = ()
    softmax_scale: float | None = None
    query_scale: Mapping[str, QueryScale] = field(default_factory=dict)
    values: str = "plain"
    sinks: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name must be a non-empty string, got {shown(self.name)}")
        for attribute in ("encodings", "query_scale", "provenance"):
            value = getattr(self, attribute)
            if not isinstance(value, Mapping):
                raise TypeError(f"{attribute} must be a mapping, got {shown(value)}")
        if not self.encodings:
            raise ValueError("encodings must name at least one layer type")
        for layer_type, encoding in self.encodings.items():
            if encoding is not None and not isinstance(encoding, Encoding):
                raise TypeError(
                    f"encodings[{shown(layer_type)}] must be an encoding, or None for a layer "
                    f"without one, got {shown(encoding)}"
                )
        names = self.layer_types
        if (
            isinstance(names, str)
            or not isinstance(names, Sequence)
            or not all(isinstance(name, str) for name in names)
        ):
            raise TypeError(f"layer_types must be a sequence of names, got {shown(names)}")
        for layer_type, value in self.query_scale.items():
            if layer_type not in self.encodings:
                raise ValueError(
                    f"query_scale has the unknown layer type {shown(layer_type)}; encodings have "
                    f"{', '.join(self.encodings)}"
                )
            if not isinstance(value, QueryScale):
                raise TypeError(
                    f"query_scale[{shown(layer_type)}] must be a query scale such as "
                    f"QueryTemperature(...), got {shown(value)}"
                )
        sinks = self.sinks
        if isinstance(sinks, str) or not isinstance(sinks, Sequence):
            raise TypeError(f"sinks must be a sequence of layer types, got {shown(sinks)}")
        unknown = [t for t in sinks if t not in self.encodings]
        if unknown:
            raise ValueError(
                f"sinks has the unknown layer type {shown(unknown[0])}; encodings have "
                f"{', '.join(self.encodings)}"
            )
        for key, text in self.provenance.items():
            if not isinstance(key, str) or not isinstance(text, str):
                raise TypeError(
                    f"provenance[{shown(key)}] must be text for a name, got {shown(text)}"
                )
        scale = self.softmax_scale
        self._set(
            encodings=MappingProxyType(dict(self.encodings)),
            layer_types=tuple(map(str, names)),
            softmax_scale=None if scale is None else validate.real("softmax_scale", scale, above=0),
            query_scale=MappingProxyType(dict(self.query_scale)),
            values=validate.choice("values", self.values, VALUES),
            sinks=tuple(map(str, sinks)),
            provenance=MappingProxyType(dict(self.provenance)),
        )

    # -- access ------------------------------------------------------------------------------

    @property
    def only(self) -> Encoding:
        """The encoding of all layers that have one.

        Raises ValueError if no layer has an encoding, or if layer types have different ones; the
        message names these layer types.
        """
        found = {name: e for name, e in self.encodings.items() if e is not None}
        if len(set(found.values())) == 1:
            return next(iter(found.values()))
        if not found:
            raise ValueError(f"{self.name} has no positional encoding in its attention layers")
        raise ValueError(
            f"{self.name} has {len(found)} encodings, by layer type: choose "
            + " or ".join(f".encodings[{name!r}]" for name in found)
        )

    def layers(self, layer_type: str) -> tuple[int, ...]:
        """Return the numbers of the layers of this type, from 0."""
        return tuple(i for i, name in enumerate(self.layer_types) if name == layer_type)

    # -- logits ------------------------------------------------------------------------------

    def scores(
        self, layer_type: str | None, q: Array, k: Array, q_positions: Any, k_positions: Any
    ) -> Array:
        """Return the effective logits (..., Q, K) of q (..., Q, d) and k (..., K, d), unmasked.

        ``layer_type`` may be None if the model has only one. As in :func:`posenc_ref.scores`, the
        result is computed in float64 (float32 if q's device has no float64) and rounded once.
        """
        chosen = self._layer_type(layer_type)
        if not is_array(q) or not is_array(k):
            raise TypeError("q and k must be arrays")
        logits = effective_logits(
            self.encodings[chosen],
            widen(q),
            widen(k),
            q_positions,
            k_positions,
            self.softmax_scale,
            self.query_scale.get(chosen),
        )
        return astype(logits, q.dtype)

    def attention(self, layer_type: str | None = None) -> Attention:
        """Return the causal attention of a layer type, which computes outputs from q, k and v.

        ``layer_type`` may be None if the model has only one.
        """
        chosen = self._layer_type(layer_type)
        encoding = self.encodings[chosen]
        return Attention(
            encoding,
            values=self.values if encoding is not None else "plain",
            sinks=chosen in self.sinks,
            softmax_scale=self.softmax_scale,
            query_scale=self.query_scale.get(chosen),
        )

    def _layer_type(self, layer_type: str | None) -> str:
        if layer_type is None and len(self.encodings) == 1:
            return next(iter(self.encodings))
        if layer_type is not None and not isinstance(layer_type, str):
            raise TypeError(f"layer_type must be a string, got {shown(layer_type)}")
        if layer_type in self.encodings:
            return str(layer_type)
        if layer_type in self.layer_types:
            raise ValueError(f"layers of type {shown(layer_type)} have no softmax attention")
        listed = ", ".join(map(repr, self.encodings))
        raise ValueError(f"layer_type must be one of {listed}, got {shown(layer_type)}")

    # -- forms -------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the model as JSON-ready data, which :func:`posenc_ref.from_dict` reads."""
        return {
            self.kind: type(self).__name__,
            "name": self.name,
            "encodings": {t: e if e is None else e.to_dict() for t, e in self.encodings.items()},
            "layer_types": list(self.layer_types),
            "softmax_scale": self.softmax_scale,
            "query_scale": {t: s.to_dict() for t, s in self.query_scale.items()},
            "values": self.values,
            "sinks": list(self.sinks),
            "provenance": dict(self.provenance),
        }

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """Return the model with the fields that :meth:`to_dict` wrote; for :func:`from_dict`."""
        decoded = dict(body)
        for key in ("encodings", "query_scale"):
            entries = decoded.get(key, {})
            if not isinstance(entries, Mapping):
                raise TypeError(f"{key} must be a mapping by layer type, got {shown(entries)}")
            decoded[key] = {t: e if e is None else from_dict(e) for t, e in entries.items()}
        return cls(decoded.pop("name"), **decoded)

    def __repr__(self) -> str:
        parts = [f"{t!r}: {e!r}" for t, e in self.encodings.items()]
        body = f"{self.name!r}, encodings={{{', '.join(parts)}}}"
        if self.layer_types:
            body += f", layer_types=<{len(self.layer_types)} layers>"
        if self.softmax_scale is not None:
            body += f", softmax_scale={self.softmax_scale!r}"
        if self.query_scale:
            scales = ", ".join(f"{t!r}: {s!r}" for t, s in self.query_scale.items())
            body += f", query_scale={{{scales}}}"
        body += "" if self.values == "plain" else f", values={self.values!r}"
        body += f", sinks={self.sinks!r}" if self.sinks else ""
        return f"ModelEncoding({body})"

    def __str__(self) -> str:
        """Return one line for each layer type, then the factors on logits."""
        count = f" ({len(self.layer_types)} layers)" if self.layer_types else ""
        lines = [f"{self.name}{count}"]
        width = max(map(len, self.encodings))
        for layer_type, encoding in self.encodings.items():
            said = "no positional encoding" if encoding is None else repr(encoding)
            scale = self.query_scale.get(layer_type)
            said += "" if scale is None else f"; queries times {scale!r}"
            number = len(self.layers(layer_type))
            of = f" x{number:<3}" if self.layer_types else ""
            lines.append(f"  {layer_type:<{width}}{of}  {said}")
        if self.softmax_scale is not None:
            lines.append(f"  softmax scale {self.softmax_scale!r}")
        if self.values != "plain":
            lines.append(f"  values {self.values}: rotated with the keys, the output rotated back")
        return "\n".join(lines)
