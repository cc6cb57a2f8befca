"""Locks that are open in a forked child, whoever held them in the parent."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


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
        _GUARDS.add(self)


_GUARDS: WeakSet[Guard] = WeakSet()


def _renew_all() -> None:
    for guard in list(_GUARDS):
        guard.lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_all)
