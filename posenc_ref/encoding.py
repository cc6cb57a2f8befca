"""The base classes of encodings: frozen dataclasses whose fields state the conventions.

Equality, hash, repr and JSON form depend on the fields alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from . import _validate as validate
from ._arrays import check_queries_and_keys, check_scale
from ._json import decode, encode
from ._namespace import Array, astype, dtype_name, is_array, widen
from ._registry import register
from ._required import Checked

#: The repr shortens tuples that are longer than this.
_SHOWN = 16


class Value(metaclass=Checked):
    """A frozen dataclass with a JSON form, registered under its class name.

    The JSON form names the kind and the class: ``{"encoding": "RoPE", ...}``,
    ``{"scaling": "LinearScaling", ...}``, ``{"query_scale": "LogNScale", ...}`` or
    ``{"model": ...}``.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not abstract:
            register(cls.kind, cls)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data that :func:`posenc_ref.from_dict` reads."""
        fields = self._fields()
        body = {f.name: encode(getattr(self, f.name)) for f in fields}
        return {self.kind: type(self).__name__, **body}

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """Return an instance with the fields in ``body``, in the form that :meth:`to_dict` writes.

        :func:`posenc_ref.from_dict` calls this.
        """
        decoded = {}
        types = {f.name: str(f.type) for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for key, value in body.items():
            try:
                decoded[key] = decode(value, types.get(key, ""))
            except (TypeError, ValueError) as error:
                raise type(error)(f"{cls.__name__}, {key}: {error}") from None
        return cls(**decoded)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; the copy is checked like a new instance."""
        fields = self._fields()
        # Derived fields are computed again: rotary_dim from head_dim, for example.
        implied = {f.name: f.default for f in fields if f.name in self._implied()}
        return dataclasses.replace(self, **{**implied, **changes})  # type: ignore[type-var]

    def _fields(self) -> tuple[dataclasses.Field[Any], ...]:
        """Return the fields; raise TypeError for a base class, which has none."""
        if not dataclasses.is_dataclass(self):
            raise TypeError(
                f"{type(self).__name__} has no fields, so it is no value: use one of its "
                "subclasses, or write one that is a frozen dataclass"
            )
        return dataclasses.fields(self)

    def _implied(self) -> tuple[str, ...]:
        """Return the names of fields whose values follow from other fields; the repr omits them."""
        return ()

    def _set(self, **fields: Any) -> None:
        """Store checked fields; ``__post_init__`` of a frozen dataclass cannot assign them."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(_frozen(self.to_dict()))

    def __repr__(self) -> str:
        parts = []
        for f in self._fields():
            value = getattr(self, f.name)
            if is_array(value):
                parts.append(f"{f.name}={_array(value)}")
            elif f.default is dataclasses.MISSING:
                parts.append(f"{f.name}={_short(value)}" if f.kw_only else _short(value))
            elif value != f.default and f.name not in self._implied():
                parts.append(f"{f.name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


class Encoding(Value, abstract=True):
    """A positional encoding, of one of the families below.

    ===========  ================================  =====================================
    family       acts on                           main method
    ===========  ================================  =====================================
    ``table``    embeddings, by addition           ``table(positions)``, ``add(x, ...)``
    ``rotary``   queries and keys, by rotation     ``apply(x, positions)``
    ``bias``     scores, by addition               ``bias(q_positions, k_positions)``
    ``score``    scores, from the content of q, k  ``terms(q, k, q_positions, ...)``
    ===========  ================================  =====================================

    The section "Error unit" of a class gives two coefficients for each element of its output: A
    bounds the error from rounding the terms of the formula, B the error from rounding the angle.
    ``check`` divides errors by the unit ``u_out * A + u_angle * B``, in which u_out and u_angle are
    the roundoffs of the output dtype and of the angles: see :mod:`posenc_ref.accuracy`.

    Raises
    ------
    TypeError, ValueError
        A field is outside the range that its class states. The message names the field, its value
        and the allowed values.
    """

    kind = "encoding"
    family: ClassVar[str]

    def own_scale(self, dim: int) -> float:
        """Return the default scale of ``scores``, 1/sqrt(d)."""
        return float(validate.integer("dim", dim, minimum=1) ** -0.5)

    def scores(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, *, scale: float | None = None
    ) -> Array:
        """Return attention logits before mask and softmax, as :func:`posenc_ref.scores` does.

        q is (..., Q, d), k is (..., K, d). The result (..., Q, K) is computed in float64 (float32
        if q's device has no float64) and rounded once to q's dtype.
        """
        check_queries_and_keys(q, k)
        scale = self.own_scale(int(q.shape[-1])) if scale is None else check_scale(scale)
        return astype(self._logits(widen(q), widen(k), q_positions, k_positions, scale), q.dtype)

    def _logits(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float
    ) -> Array:
        """Return the logits of checked q and k in the working dtype, not rounded."""
        raise NotImplementedError(f"{type(self).__name__} defines no scores")


class Scaling(Value, abstract=True):
    """A rule that changes the frequencies of a rotary encoding, used as ``scaling=``.

    A field outside its stated range raises as for :class:`Encoding`.
    """

    kind = "scaling"


def _short(value: Any) -> str:
    """Return ``repr(value)``, shortening long tuples and arrays."""
    if isinstance(value, tuple) and value and all(map(is_array, value)):
        return f"({', '.join(map(_array, value))})"
    if isinstance(value, tuple) and len(value) > _SHOWN:
        first, second, last = map(_rounded, (value[0], value[1], value[-1]))
        return f"<{len(value)} values {first!r}, {second!r}, ..., {last!r}>"
    return repr(value)


def _rounded(value: Any) -> Any:
    """Return a float with six digits: the last ones depend on the processor."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _array(value: Array) -> str:
    return f"<{dtype_name(value)} {tuple(value.shape)}>"


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _frozen(v)) for key, v in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
