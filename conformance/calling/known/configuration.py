"""Configuration objects for constructors that take one: made up, from a file, of a given class."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.calling.signatures import signature_of

#: The length of tables made in advance.
LENGTH = 131072
#: The layer type of modules with several encodings, unless the user names another.
FULL = "full_attention"


class Configuration(SimpleNamespace):
    """A configuration as an object and as a mapping, for constructors that take one.

    Entries that it lacks are known by their role, if at all.  The ``given`` ones come first, and
    ``used`` gets the names of those that are read.
    """

    def __init__(
        self,
        by_role: Mapping[str, Any],
        values: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        used: set[str] | None = None,
    ) -> None:
        given = given or {}
        super().__init__(**{name: value for name, value in values.items() if name not in given})
        self._by_role, self._given = by_role, given
        self._used = set() if used is None else used

    def __getattr__(self, name: str) -> Any:
        if name in vars(self).get("_given", {}):
            self._used.add(name)
            return self._given[name]
        by_role = vars(self).get("_by_role", {})
        role = role_of(name)
        if name.startswith("__") or role is None or role not in by_role:
            raise AttributeError(f"the configuration has no {name!r}")
        return by_role[role]

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name] if name in vars(self) else self._given[self._read(name)]

    def __contains__(self, name: object) -> bool:
        return name in vars(self) or name in self._given

    def _read(self, name: str) -> str:
        self._used.add(name)
        return name

    @property
    def given(self) -> Mapping[str, Any]:
        """Return the entries that the user gives."""
        return self._given

    @property
    def made_up(self) -> bool:
        """Return whether the entries come from the declaration, not from a file."""
        return bool(self._by_role)

    def of_one_layer_type(self) -> Configuration:
        """Return this configuration as models with an encoding for each layer type write it."""
        name = self._by_role["layer_type"]
        values = self.values()
        values |= {"layer_types": [name], "num_hidden_layers": 1}
        if "rope_parameters" in values:
            values["rope_parameters"] = {name: values["rope_parameters"]}
        return Configuration(self._by_role, values, self._given, self._used)

    def values(self) -> dict[str, Any]:
        """Return the entries."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {**own, **self._given}

    def taken_by(self, made: Any) -> None:
        """Note which given entries an object that was made of this configuration has."""
        self._used.update(name for name in self._given if entry_of(made, name) is not None)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        try:
            return self[name]
        except KeyError:
            return default


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the entries that transformers derives from others."""
    found = {"rope_scaling": None, **config}
    if "hidden_size" in config and (heads := config.get("num_attention_heads")):
        found.setdefault("head_dim", config["hidden_size"] // heads)
        found.setdefault("num_key_value_heads", heads)
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if "rope_theta" in scaling:
        found.setdefault("rope_theta", scaling["rope_theta"])
    plain = {"rope_type": "default", "rope_theta": found.get("rope_theta")}
    found.setdefault("rope_parameters", plain | scaling)
    return found


def settings(roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the names of Hugging Face; the user's entries replace these."""
    if "head_dim" not in roles:
        return {"num_attention_heads": roles["num_heads"], "n_heads": roles["num_heads"]}
    scaling, heads, head_dim = roles.get("scaling"), roles["num_heads"], roles["head_dim"]
    longest = (scaling or {}).get("original_max_position_embeddings", LENGTH)
    base = roles.get("base", 10000.0)
    parameters = {"rope_type": "default", "rope_theta": base} | (scaling or {})
    parameters["partial_rotary_factor"] = fraction = roles.get("partial", 1.0)
    return {
        "head_dim": head_dim,
        "hidden_size": heads * head_dim,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "n_head": heads,
        "n_heads": heads,
        "n_embd": heads * head_dim,
        "dim": heads * head_dim,
        "rope_theta": base,
        "rope_base": base,
        "rotary_dim": roles.get("rotary_dim"),
        "rope_scaling": scaling,
        "rope_parameters": parameters,
        "partial_rotary_factor": fraction,
        "max_position_embeddings": max(longest, LENGTH),
        "max_seq_len": max(longest, LENGTH),
    }


def annotated_class(function: Callable[..., Any], parameter: str) -> type | None:
    """Return the class that annotates a parameter, or None if it is a type of Python's own."""
    called, scope = function, dict[str, Any]()
    if inspect.isclass(function):
        called = function.__init__
        for base in reversed(function.__mro__):
            scope |= vars(base)  # it may have a Config of its own
    try:
        found = typing.get_type_hints(inspect.unwrap(called), localns=scope).get(parameter)
    except Exception:  # an annotation names what exists for type checkers only
        found = None
    if isinstance(found, types.UnionType) or typing.get_origin(found) is typing.Union:
        parts = [part for part in typing.get_args(found) if part is not type(None)]
        found = parts[0] if len(parts) == 1 else None
    plain = {"builtins", "types", "typing", "collections", "collections.abc", "argparse"}
    return found if inspect.isclass(found) and found.__module__ not in plain else None


def made_as(cls: type, values: Mapping[str, Any]) -> Any:
    """Return an object of ``cls`` made from the values that its constructor takes, or None."""
    try:
        signature = inspect.signature(cls).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in signature.values())
        return cls(**{n: v for n, v in values.items() if takes_all or n in signature})
    except (Exception, SystemExit):  # it needs what is not known, or refuses
        return None


def states(made: Any, roles: Mapping[str, Any]) -> bool:
    """Return whether a configuration states the sizes and the base that are declared.

    What it does not have it does not contradict.  A ``head_dim`` that it lacks is given to it, for
    its constructor may take the heads under a name of its own.
    """
    if "head_dim" not in roles:
        return True
    head_dim = roles["head_dim"]
    if entry_of(made, "head_dim") is None and _whole_head(made) not in (None, head_dim):
        try:
            made.head_dim = head_dim
        except Exception:  # it has no place for it
            return False
    own = head_of(made)
    parameters = entry_of(made, "rope_parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    parameters = parameters.get(roles.get("layer_type"), parameters) or {}
    base = parameters.get("rope_theta", entry_of(made, "rope_theta"))
    part = parameters.get("partial_rotary_factor", entry_of(made, "partial_rotary_factor"))
    pairs = ((own, head_dim), (base, roles.get("base")), (part, roles.get("partial")))
    return all(has is None or wanted is None or has == wanted for has, wanted in pairs)


def head_of(made: Any) -> int | None:
    """Return the size of a head that a configuration states, or None."""
    found = entry_of(made, "head_dim") or _whole_head(made)
    return found if isinstance(found, int) else None


def entry_of(made: Any, name: str) -> Any:
    """Return an entry of a configuration, or None if it has none or cannot be asked for it."""
    try:
        return getattr(made, name, None)
    except Exception:  # a property may fail
        return None


def _whole_head(made: Any) -> int | None:
    """Return the size of a head that follows from the width and the heads, or None."""
    width, heads = entry_of(made, "hidden_size"), entry_of(made, "num_attention_heads")
    return width // heads if isinstance(width, int) and isinstance(heads, int) and heads else None


def takes_layer_type(function: Callable[..., Any]) -> bool:
    """Return whether a class makes objects whose call must be told the type of a layer."""
    for name in ("forward", "call", "__call__") if inspect.isclass(function) else ():
        call = vars(function).get(name)
        if inspect.isfunction(call):
            needed = signature_of(call).parameters.values()
            if any(role_of(p.name) == "layer_type" and p.default is p.empty for p in needed):
                return True
    return False
