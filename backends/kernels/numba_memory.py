"""Memory as Numba's loops read and write it, where the compiler need not check for overlap.

Imported only if the program has imported Numba.  LLVM vectorises a loop over several arrays only
behind a comparison of all their addresses, for every row.  ``read`` and ``write`` promise it that
the memory of the one is none of the memory of the other.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def pointer(typing: Any, address: Any, like: Any) -> Any:
    """Return an address as a pointer to numbers of the dtype of the array ``like``."""
    signature = numba.types.CPointer(like.dtype)(address, like)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return signature, code


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def read(typing: Any, pointer: Any, n: Any) -> Any:
    """Return the number ``pointer[n]``."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = builder.load(builder.gep(*_at(arguments)), align=pointer.dtype.bitwidth // 8)
        return _promised(builder.module, found, "reads", "writes")

    return pointer.dtype(pointer, n), code


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def write(typing: Any, pointer: Any, n: Any, number: Any) -> Any:
    """Set ``pointer[n]``, which no ``read`` of the same function reads."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        goal = builder.gep(*_at(arguments))
        cast = context.cast(builder, arguments[2], number, pointer.dtype)
        made = builder.store(cast, goal, align=pointer.dtype.bitwidth // 8)
        _promised(builder.module, made, "writes", "reads")
        return context.get_dummy_value()

    return numba.types.void(pointer, n, number), code


def _at(arguments: Any) -> tuple[Any, list[Any]]:
    return arguments[0], [arguments[1]]


def _promised(module: Any, instruction: Any, own: str, others: str) -> Any:
    """Tell LLVM that the memory of ``instruction`` is none of that of the instructions ``others``.

    A scope and its domain are known by their names.
    """
    domain = module.add_metadata(["posenc_ref"])
    for key, name in (("alias.scope", own), ("noalias", others)):
        scope = module.add_metadata([f"posenc_ref {name}", domain])
        instruction.set_metadata(key, module.add_metadata([scope]))
    return instruction
