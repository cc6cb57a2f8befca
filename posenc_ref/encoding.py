"""The base of every encoding: a frozen value whose fields are the convention.

Equality, hash, repr and JSON all go by the fields; :func:`from_dict` is the only reader.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ._attention import check_sides
from ._namespace import Array, astype, dtype_like, dtype_name, is_array, to_host, widen

#: Longer tuples are shortened in the repr.
_SHOWN = 16

_REGISTRY: dict[str, dict[str, type[Value]]] = {
    "encoding": {},
    "scaling": {},
    "query_scale": {},
    "model": {},
}


class Value:
    """A frozen dataclass with a JSON form, registered under its class name.

    Subclasses of :class:`Encoding` are written ``{"encoding": "RoPE", ...}``, subclasses of
    :class:`Scaling` ``{"scaling": "LinearScaling", ...}``, a :class:`QueryScale`
    ``{"query_scale": "LogNScale", ...}``, a :class:`ModelEncoding` ``{"model": ...}``.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not abstract:
            _REGISTRY[cls.kind][cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
        """The value as JSON-ready data; arrays as dtype, shape and hexadecimal bits."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        body = {f.name: _encode(getattr(self, f.name)) for f in fields}
        return {self.kind: type(self).__name__, **body}

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """The value of these fields, as :meth:`to_dict` wrote them; for :func:`from_dict`."""
        return cls(**{key: _decode(value) for key, value in body.items()})

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like a new value."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        # What the other fields implied, they shall imply again: rotary_dim follows head_dim.
        implied = {f.name: f.default for f in fields if f.name in self._implied()}
        return dataclasses.replace(self, **{**implied, **changes})  # type: ignore[type-var]

    def _implied(self) -> tuple[str, ...]:
        """Fields that the others already tell, left out of the repr."""
        return ()

    def _set(self, **fields: Any) -> None:
        """Store checked fields during ``__post_init__`` of the frozen dataclass."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(_frozen(self.to_dict()))

    def __repr__(self) -> str:
        parts = []
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
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
    ``score``    scores, by what q and k hold      ``terms(q, k, q_positions, k_positions)``
    ===========  ================================  =====================================
    """

    kind = "encoding"
    family: ClassVar[str]

    def own_scale(self, dim: int) -> float:
        """What ``scores`` multiplies the products by when no scale is given: 1/sqrt(d)."""
        return float(dim**-0.5)

    def scores(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, *, scale: float | None = None
    ) -> Array:
        """Attention logits before mask and softmax; the rule is :func:`posenc_ref.scores`'s.

        q is (..., Q, d), k is (..., K, d), the result (..., Q, K) in q's dtype: computed in
        float64 (float32 where q's device has none) and rounded once.
        """
        check_sides(q, k)
        scale = self.own_scale(int(q.shape[-1])) if scale is None else scale
        return astype(self._logits(widen(q), widen(k), q_positions, k_positions, scale), q.dtype)

    def _logits(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float
    ) -> Array:
        """The logits of checked q and k in the working dtype, not rounded."""
        raise NotImplementedError(f"{type(self).__name__} defines no scores")


class Scaling(Value, abstract=True):
    """A rule that changes the frequencies of a rotary encoding, used as ``scaling=``."""

    kind = "scaling"


def from_dict(data: Mapping[str, Any]) -> Any:
    """The value that ``to_dict`` wrote.

    Parameters
    ----------
    data : mapping
        ``{"encoding": "RoPE", ...}``, ``{"scaling": ...}``, ``{"query_scale": ...}`` or
        ``{"model": ...}`` with the fields of the class; parsed JSON is accepted as it is.  A field
        that is left out has its default.

    Returns
    -------
    Encoding, Scaling, QueryScale or ModelEncoding

    Raises
    ------
    TypeError, ValueError
        No mapping; a class or a field that is not known, or a field that is missing.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be a mapping such as json.loads gives, got {data!r}")
    kinds = [kind for kind in _REGISTRY if kind in data and isinstance(data[kind], str)]
    # A nested scaling has the key "scaling" with a mapping, so only a string names a class.
    if not kinds:
        raise ValueError(
            'data must name its class: {"encoding": "RoPE", ...} or {"scaling": ...}, '
            f"got keys {sorted(map(str, data))}"
        )
    known = _REGISTRY[kinds[0]]
    name = data[kinds[0]]
    if name not in known:
        raise ValueError(f"{kinds[0]} must be one of {', '.join(sorted(known))}, got {name!r}")
    cls = known[name]
    allowed = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    body = {key: value for key, value in data.items() if key != kinds[0]}
    unknown = sorted(set(body) - set(allowed))
    if unknown:
        raise ValueError(f"{name} has no field {unknown[0]!r}; its fields are {', '.join(allowed)}")
    required = [
        f.name
        for f in dataclasses.fields(cls)  # type: ignore[arg-type]
        if f.default is dataclasses.MISSING and f.name not in body
    ]
    if required:
        raise ValueError(f"{name} needs the field {required[0]!r}")
    return cls.read(body)


def _short(value: Any) -> str:
    """``repr(value)``, the middle of long tuples and the numbers of arrays left out."""
    if isinstance(value, tuple) and any(map(is_array, value)):
        return f"({', '.join(map(_array, value))})"
    if isinstance(value, tuple) and len(value) > _SHOWN:
        return f"<{len(value)} values {value[0]!r}, {value[1]!r}, ..., {value[-1]!r}>"
    return repr(value)


def _array(value: Array) -> str:
    return f"<{dtype_name(value)} {tuple(value.shape)}>"


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _frozen(v)) for key, v in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _encode(value: Any) -> Any:
    if isinstance(value, Value):
        return value.to_dict()
    if is_array(value):
        host, name = to_host(value), dtype_name(value)
        if name == "bfloat16":  # the upper half of a float32
            bits = (host.astype(np.float32).view(np.uint32) >> 16).astype(">u2")
        else:
            bits = host.astype(host.dtype.newbyteorder(">"))
        return {"dtype": name, "shape": list(host.shape), "hex": bits.tobytes().hex()}
    if isinstance(value, tuple):
        return [_encode(v) for v in value]
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"dtype", "shape", "hex"}:
            dtype = np.dtype(dtype_like(np, value["dtype"]))
            bits = np.frombuffer(bytes.fromhex(value["hex"]), dtype=f">u{dtype.itemsize}")
            return bits.astype(f"u{dtype.itemsize}").view(dtype).reshape(value["shape"])
        return from_dict(value)
    if isinstance(value, list) and value and all(isinstance(v, list) for v in value):
        return np.asarray(value, dtype=np.float64)
    return tuple(_decode(v) for v in value) if isinstance(value, list) else value
