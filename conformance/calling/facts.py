"""Fill the parameters of constructors and table functions from what is declared.

The declared encoding, a configuration file and the options of the command line state the same facts
under the names of many libraries; :data:`posenc_ref.conformance.calling.roles.ROLES` has the names.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from posenc_ref import (
    DynamicNTK,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    ModelEncoding,
    MultiAxisRoPE,
    Proportional,
    RoPE,
    Table,
    YaRN,
)
from posenc_ref.conformance.harness.implementation import Declared

from .known.configuration import (
    FULL,
    LENGTH,
    Configuration,
    annotated_class,
    completed,
    head_of,
    made_as,
    settings,
    states,
    takes_layer_type,
)
from .known.model_defaults import model_default
from .known.own_configuration import layer_types_of, own_configuration
from .roles import Unbound, role_of
from .signatures import signature_of

#: The number of heads of objects that need one.
HEADS = 4
#: What required parameters get if nothing states it, as for the identification of a function.
ASSUMED: Mapping[str, Any] = {
    "base": 10000.0, "neox": True, "interleaved": False, "partial": 1.0,
    "bidirectional": True, "num_buckets": 32, "max_distance": 128, "scale": 1.0, "dropout": 0.0,
}  # fmt: skip
#: The name of each scaling in a configuration of Hugging Face.
_ROPE_TYPES = {
    LinearScaling: "linear",
    DynamicNTK: "dynamic",
    YaRN: "yarn",
    Llama3Scaling: "llama3",
    LongRoPE: "longrope",
    Proportional: "proportional",
}
#: The names of a scaling's fields in a configuration of Hugging Face, where they differ.
_KEYS = {
    "original_max_position": "original_max_position_embeddings",
    "fraction": "partial_rotary_factor",
    "max_position": None,
    "policy": None,
    "blend": None,
}


@dataclasses.dataclass(frozen=True)
class Facts:
    """Values for parameters, by name and by role; what the user gives comes first."""

    by_name: Mapping[str, Any]  #: the options NAME=VALUE of the command line
    by_role: Mapping[str, Any]
    fields: Mapping[str, Any]  #: the fields of the declared encoding
    used: set[str] = dataclasses.field(default_factory=set)  #: the names that were asked for
    used_roles: set[str] = dataclasses.field(default_factory=set)
    #: What a report says about the configuration that a parameter got.
    words: dict[str, str] = dataclasses.field(default_factory=dict)
    layer_types: list[str] = dataclasses.field(default_factory=list)  #: those of its own model

    def value(self, name: str, role: str | None, *, optional: bool = False) -> Any:
        """Return the value for a parameter, stated or assumed, or None if there is none.

        A parameter with a default has no value by the name of a field alone, and none is assumed.
        """
        found = self._stated(name, role, optional)
        return ASSUMED.get(role or "") if found is None and not optional else found

    def _stated(self, name: str, role: str | None, optional: bool) -> Any:
        if name in self.by_name:
            self.used.add(name)
            return self.by_name[name]
        if role is not None and role in self.by_role:
            self.used_roles.add(role)
            return self.by_role[role]
        return None if optional else self.fields.get(name)

    def arguments(
        self,
        function: Callable[..., Any],
        also: Mapping[str, Any],
        only_required: tuple[str, ...] = (),
        spare: Any = None,
    ) -> dict[str, Any]:
        """Return keyword arguments for ``function``; ``also`` has further values by role.

        Roles in ``only_required`` are passed only to parameters without a default.  ``spare`` is
        the value of a parameter of which nothing is known, if there is only one.

        Raises
        ------
        Unbound
            A required parameter has no known value, or NAME=VALUE names no parameter.
        """
        found: dict[str, Any] = {}
        unknown = []
        signature = signature_of(function).parameters
        roles = {role_of(name) for name in signature}
        for name, parameter in signature.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            role = role_of(name)
            if name == "max_position" and "num_buckets" in roles:
                role = "max_distance"
            if role == "rotary_dim" and _is_sequence(parameter.annotation):
                role = "axes_dim"
            optional = parameter.default is not parameter.empty
            if role in only_required and optional and name not in self.by_name:
                continue
            if role == "length" and isinstance(parameter.default, tuple | list):
                continue  # a length for each axis
            if role is not None and role in also:
                value = also[role]
            elif role == "scale" and "factor" in roles and name not in self.by_name:
                value = None  # one of the two is the whole scaling
            else:
                value = self._stated(name, role, optional)
            if value is None and not optional and not self.fields:
                value = self._of_model(function, name, role)
                if role == "axes_dim":
                    self.used_roles.add(role)
            if value is None and not optional:
                value = ASSUMED.get(role or "")
                if value is not None and not self.fields:
                    self.words[name] = f"{name}={value!r} assumed"
            if role == "layer_type" and self.layer_types and name not in self.by_name:
                value = FULL if FULL in self.layer_types else self.layer_types[0]
            elif role == "layer_type" and optional and name not in self.by_name:
                continue  # the same function serves models with one encoding
            if role == "config" and isinstance(value, Configuration):
                if value.made_up and takes_layer_type(function):
                    value = value.of_one_layer_type()
                value = self._typed(function, name, value)
            whole = role == "width" or (name in ("dim", "d") and "head_dim" not in roles)
            known = "head_dim" in self.by_role and name not in self.by_name
            if whole and known and "num_heads" in roles:
                value = self.by_role["num_heads"] * self.by_role["head_dim"]
            if value is not None:
                found[name] = value
            elif not optional:
                unknown.append(name)
        if len(unknown) == 1 and spare is not None:
            found[unknown.pop()] = spare
        if unknown:
            listed = ", ".join(map(repr, unknown))
            raise Unbound(f"no value is known for the parameter{'s'[: len(unknown) > 1]} {listed}")
        return found

    def _agrees(self, made: Any) -> bool:
        """Return whether a configuration has the size of a head that is tried, or none to try."""
        size = head_of(made)
        return size is None or size % 2 == 1 or size == self.by_role.get("head_dim", size)

    def _of_model(self, function: Callable[..., Any], name: str, role: str | None) -> Any:
        """Return what the model in the file of a function has for a parameter, or None."""
        found = model_default(function, name, role)
        if found is None:
            return None
        value, model = found
        self.words[name] = f"{name}={value!r} as in {model}"
        return value

    def _typed(self, function: Callable[..., Any], name: str, known: Configuration) -> Any:
        """Return a configuration of the class that annotates the parameter, if it can be made.

        If nothing is declared, it is the class's own, whose defaults are those of a model.
        """
        if known.made_up and not self.fields:
            own = own_configuration(function, name, known.given)
            if own is not None and self._agrees(own[0]):
                known.taken_by(own[0])
                self.words[name] = own[1]
                self.layer_types[:] = layer_types_of(own[0])
                return own[0]
            self.words[name] = f"{name} made up, with base 10000 and no scaling"
        cls = annotated_class(function, name)
        if cls is None:
            return known
        entries = known.values()
        try:
            by_role = self.arguments(cls, {})
        except (Unbound, TypeError, ValueError):
            by_role = {}  # a required entry may be in the file alone
        if known.made_up and "dim" in by_role:  # of a head, unless the class has heads
            entries["dim"] = by_role["dim"]
        made = made_as(cls, {**by_role, **entries})
        if made is not None and known.made_up and not states(made, self.by_role):
            made = None  # its constructor takes the sizes under other names
        if made is None:
            return known
        known.taken_by(made)
        return made

    def described(
        self,
        function: Callable[..., Any],
        asked: tuple[str, ...] = (),
        only_required: tuple[str, ...] = (),
    ) -> str:
        """Return the arguments of ``function`` as text; roles in ``asked`` by name alone."""
        shown = []
        signature = signature_of(function).parameters
        also = dict.fromkeys((*asked, "dtype", "device"), ...)
        given = self.arguments(function, also, ("dtype", "device", *only_required), spare=...)
        for name, value in given.items():
            plain = role_of(name) == "config" or value is ...
            text = f"{name}={value!r}{other_default(signature[name], value)}"
            shown.append(self.words.get(name, name if plain else text))
        shown += [
            f"{name}={p.default!r} (its default)"
            for name, p in signature.items()
            if name not in given and self._unexplained(name, p.default)
        ]
        return ", ".join(shown)

    def _unexplained(self, name: str, default: Any) -> bool:
        """Return whether a default that was left is a number which nothing declares.

        It may be a base under a name that nobody knows.
        """
        plain = isinstance(default, int | float) and not isinstance(default, bool)
        return (
            plain
            and abs(default) > 1
            and role_of(name) is None
            and not any(
                isinstance(value, int | float) and value == default
                for value in self.by_role.values()
            )
        )


def _is_sequence(annotation: Any) -> bool:
    """Return whether a parameter is annotated as a list or a tuple."""
    kinds = r"(<class ')?(typing\.|collections\.abc\.)?(list|tuple|sequence)\b"
    return re.match(kinds, str(annotation), re.IGNORECASE) is not None


def other_default(parameter: inspect.Parameter, value: Any) -> str:
    """Return words about the default of a parameter if ``value`` replaces another one."""
    default = parameter.default
    if default is parameter.empty or default is None or default == value:
        return ""
    return f" (its default: {default!r})"


def facts_of(
    encoding: Declared,
    given: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    head_dim: int | None = None,
    layer_type: str | None = None,
) -> Facts:
    """Return what the encoding, the options NAME=VALUE and a configuration state."""
    if isinstance(encoding, ModelEncoding):
        known = [e for e in encoding.encodings.values() if e is not None]
        encoding = known[0] if known else None
    by_role: dict[str, Any] = {
        "num_heads": HEADS, "length": LENGTH, "layer_type": layer_type or FULL,
    }  # fmt: skip
    fields: dict[str, Any] = {}
    if encoding is not None:
        names = [f.name for f in dataclasses.fields(encoding)]  # type: ignore[arg-type]
        fields = {name: getattr(encoding, name) for name in names}
        fields = {name: value for name, value in fields.items() if not hasattr(value, "shape")}
        by_role |= {"num_heads": fields["num_heads"]} if "num_heads" in fields else {}
    if isinstance(encoding, RoPE | MultiAxisRoPE):
        by_role |= _rotary(encoding)
    elif isinstance(encoding, Table):
        by_role |= dict.fromkeys(("rotary_dim", "width"), encoding.dim)
    elif head_dim is not None:
        by_role |= dict.fromkeys(("head_dim", "rotary_dim", "width"), head_dim)
    by_role |= {
        name: fields[name]
        for name in ("num_buckets", "max_distance", "bidirectional")
        if name in fields
    }
    used: set[str] = set()
    if config:
        by_role["config"] = Configuration({}, completed(config), given, used)
    else:
        by_role["config"] = Configuration(by_role, settings(by_role), given, used)
    fields.pop("scaling", None)
    return Facts(given or {}, by_role, fields, used)


def _rotary(encoding: RoPE | MultiAxisRoPE) -> dict[str, Any]:
    rotary_dim = getattr(encoding, "rotary_dim", None) or encoding.head_dim
    found: dict[str, Any] = {
        "head_dim": encoding.head_dim,
        "rotary_dim": rotary_dim,
        "width": encoding.head_dim,
        "base": encoding.base,
        "interleaved": encoding.layout == "interleaved",
        "neox": encoding.layout == "half",
        "partial": _part(rotary_dim, encoding.head_dim),
    }
    scaling = encoding.scaling
    if isinstance(encoding, MultiAxisRoPE):
        found["sections"] = list(encoding.sections)
        found["axes_dim"] = [2 * pairs for pairs in encoding.sections]
        found["in_pixels"] = False  # frequencies are powers of the base
    if isinstance(scaling, LinearScaling):
        found["scale"] = 1 / scaling.factor
    names = {
        "factor": "factor",
        "original_max_position": "original_length",
        **{n: n for n in ("low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow")},
    }
    for field, role in names.items():
        value = getattr(scaling, field, None)
        if value is not None:
            found[role] = value
    if scaling is not None and (described := _scaling(scaling)) is not None:
        found["scaling"] = described
    return found


def _part(rotary_dim: int, head_dim: int) -> float:
    """Return rotary_dim / head_dim so that ``int(head_dim * part)``, as modules have it, is exact.

    30 / 44 in float64 is a little too small: 44 times it is cut to 29.
    """
    part = rotary_dim / head_dim
    return part if int(head_dim * part) == rotary_dim else math.nextafter(part, 2)


def _scaling(scaling: Any) -> dict[str, Any] | None:
    """Return a scaling as a configuration of Hugging Face writes it, or None if it cannot."""
    kind = _ROPE_TYPES.get(type(scaling))
    if kind is None:
        return None
    found: dict[str, Any] = {"rope_type": kind, "type": kind}
    for field in dataclasses.fields(scaling):
        key, value = _KEYS.get(field.name, field.name), getattr(scaling, field.name)
        if key is not None and value is not None:
            found[key] = list(value) if isinstance(value, tuple) else value
    return found
