"""Judges of the surfaces that rotate otherwise than by ``apply``.

``apply_qk``, ``apply_offset``, ``decode``, ``calls``, ``key_cache``, ``shift_keys`` and
``apply_vjp`` are first judged and diagnosed in the calls that only they have, then as the
``apply`` that they contain.
"""

from .judge_calls import judge as judge_calls
from .judge_chunks import judge_decode, judge_key_cache
from .judge_offsets import judge_apply_offset
from .judge_qk import judge as judge_apply_qk
from .judge_shift import judge as judge_shift_keys
from .judge_vjp import judge as judge_apply_vjp

__all__ = [
    "judge_apply_offset",
    "judge_apply_qk",
    "judge_apply_vjp",
    "judge_calls",
    "judge_decode",
    "judge_key_cache",
    "judge_shift_keys",
]
