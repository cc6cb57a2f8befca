"""Locks that are open in a forked child, whoever held them in the parent."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from weakref import ref


class Guard:
    """Holds a lock, for ``with guard.lock``, which a forked child finds open.

    A child has one thread, that which forked. Another thread of the parent may hold the lock at
    that moment, and would never release it in the child: there the lock is replaced. It is the
    lock itself that ``with`` takes: an ``__enter__`` in Python could be left by a signal between
    the taking of the lock and the body.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _GUARDS.append(ref(self))
        if len(_GUARDS) > _MOST:
            for dead in [known for known in _GUARDS if known() is None]:
                with suppress(ValueError):  # another thread removed it
                    _GUARDS.remove(dead)


#: Weak references without callbacks: one in Python would swallow the exception of a signal handler.
_GUARDS: list[ref[Guard]] = []
#: The number of references from which those to deleted guards are removed.
_MOST = 256


def _renew_all() -> None:
    for known in _GUARDS:
        guard = known()
        if guard is not None:
            guard.lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_all)
