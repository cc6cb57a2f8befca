"""Find out whether a function changed what its judge needs of their process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Self

#: The packages that judge: their modules stay, and so do the names in them and in their classes.
_PACKAGES = ("numpy", "posenc_ref")


@dataclass(frozen=True)
class Judge:
    """The modules, names and limits of resources of this process, at one time."""

    modules: dict[str, Any]
    names: list[tuple[Any, dict[str, Any]]]  #: modules and classes, each with what its names mean
    limits: dict[int, int]

    @classmethod
    def now(cls) -> Self:
        """Return the present state."""
        modules = {n: m for n, m in [*sys.modules.items()] if n.partition(".")[0] in _PACKAGES}
        owners = [modules[name] for name in _PACKAGES if name in modules]
        classes = [v for owner in owners for v in [*vars(owner).values()] if isinstance(v, type)]
        return cls(modules, [(o, _meanings(o)) for o in [*owners, *classes]], _limits())

    def harmed(self) -> str:
        """Return what was removed or replaced since then, or ""; what was added does no harm."""
        try:
            for name, module in self.modules.items():
                if sys.modules.get(name) is not module:
                    return f"the imported module {name}"
            for owner, names in self.names:
                present = _meanings(owner)
                for name, value in names.items():
                    if present.get(name, self) is not value:
                        return f"{getattr(owner, '__name__', 'a class')}.{name}"
            now = _limits()
            if any(now[number] < limit for number, limit in self.limits.items()):
                return "the limits of its process (setrlimit)"
            return ""
        except Exception:
            return "its process"


def _meanings(owner: Any) -> dict[str, Any]:
    """Return what the names of a module or a class mean; a class inherits names."""
    bases = reversed(type.mro(owner)) if isinstance(owner, type) and owner is not type else [owner]
    return {name: value for base in bases for name, value in [*vars(base).items()]}


def _limits() -> dict[int, int]:
    """Return the limits of resources of this process; no limit is the highest number."""
    if sys.platform == "win32":
        return {}
    import resource

    numbers = {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    soft = {number: resource.getrlimit(number)[0] for number in numbers}
    return {n: sys.maxsize if v == resource.RLIM_INFINITY else v for n, v in soft.items()}
