"""Frequency schedules from the rotary parameters of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from posenc_ref import _validate as validate
from posenc_ref.schedules.linear import LinearScaling
from posenc_ref.schedules.llama3 import Llama3Scaling
from posenc_ref.schedules.longrope import LongRoPE
from posenc_ref.schedules.ntk import DynamicNTK, NTKScaling
from posenc_ref.schedules.proportional import Proportional
from posenc_ref.schedules.scaling import FrequencySchedule
from posenc_ref.schedules.yarn import YaRN

from .config_facts import Settings
from .config_rope import Rotary


def schedule(settings: Settings, rotary: Rotary) -> FrequencySchedule | None:
    """Return the scaling that the parameters describe, or None for plain RoPE.

    Raises
    ------
    ValueError
        The schedule refuses a parameter; the message names the key and the configuration.
    """
    make = _SCHEDULES[rotary.rope_type]
    try:
        return make(settings, rotary)
    except (TypeError, ValueError) as error:
        if str(error).startswith("configuration of"):
            raise
        raise settings.wrong(f"{rotary.where}: {error}") from None


def _given(rotary: Rotary, *names: str) -> dict[str, Any]:
    return {name: rotary.keys[name] for name in names if rotary.keys.get(name) is not None}


def _original(settings: Settings, rotary: Rotary) -> int:
    """Return the trained length, from the rotary parameters or the configuration (Phi-3).

    If neither states it, the trained length for YaRN is max_position_embeddings, as in
    transformers.  For Llama-3 scaling and LongRoPE this function raises instead, because there
    max_position_embeddings is never the trained length.
    """
    key = "original_max_position_embeddings"
    inside, outside = rotary.keys.get(key), settings.given(key)
    if inside is not None and outside is not None and inside != outside:
        raise settings.wrong(
            f"two different {key}: {inside!r} in {rotary.where} and {outside!r} at the top level"
        )
    value = outside if inside is None else inside
    if value is None:
        value = settings.default(key)
    if value is None and rotary.rope_type == "yarn":
        return settings.integer("max_position_embeddings")
    if value is None:
        raise settings.wrong(f"{rotary.where}: rope_type {rotary.rope_type!r} needs {key!r}")
    return _length(key, value)


def _length(key: str, value: Any) -> int:
    """Return a number of positions as an integer; some configurations write 4096.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return validate.integer(key, value, minimum=1)


def _factor(settings: Settings, rotary: Rotary, original: int) -> float:
    """Return the scaling factor of the rotary parameters.

    If they have none, it is max_position_embeddings divided by the trained length ``original``.
    """
    factor = rotary.keys.get("factor")
    if factor is None:
        longest = settings.integer("max_position_embeddings")
        if longest < original:
            raise settings.wrong(
                f"{rotary.where} has no factor, and max_position_embeddings = {longest} is less "
                f"than original_max_position_embeddings = {original}"
            )
        return longest / original
    return validate.real("factor", factor, minimum=1.0)


def _linear(settings: Settings, rotary: Rotary) -> FrequencySchedule:
    return LinearScaling(rotary.keys["factor"])


def _dynamic(settings: Settings, rotary: Rotary) -> FrequencySchedule:
    if rotary.keys.get("alpha") is not None:
        # HunYuan: called dynamic, but the base is multiplied once, whatever the length.
        return NTKScaling(rotary.keys["alpha"])
    return DynamicNTK(rotary.keys["factor"], settings.integer("max_position_embeddings"))


def _yarn(settings: Settings, rotary: Rotary) -> FrequencySchedule:
    original = _original(settings, rotary)
    options = _given(
        rotary, "beta_fast", "beta_slow", "truncate", "attention_factor", "mscale", "mscale_all_dim"
    )
    if options.get("mscale", 1) == 1 and not options.get("mscale_all_dim"):
        # If one of them is missing, Hugging Face and DeepSeek agree only here: both have g(s, 1).
        options = {k: v for k, v in options.items() if k not in ("mscale", "mscale_all_dim")}
    if "yarn_attention_factor" in settings.conventions:
        options.setdefault("attention_factor", settings.conventions["yarn_attention_factor"])
    return YaRN(_factor(settings, rotary, original), original, **options)


def _llama3(settings: Settings, rotary: Rotary) -> FrequencySchedule:
    keys = rotary.keys
    return Llama3Scaling(
        keys["factor"],
        keys["low_freq_factor"],
        keys["high_freq_factor"],
        _original(settings, rotary),
    )


def _longrope(settings: Settings, rotary: Rotary) -> FrequencySchedule:
    original = _original(settings, rotary)
    options = _given(rotary, "attention_factor")
    if settings.conventions.get("longrope") == "mscale":
        options = {"attention_factor": _phimoe(settings, rotary.keys)}
    options["factor"] = _factor(settings, rotary, original)
    return LongRoPE(rotary.keys["short_factor"], rotary.keys["long_factor"], original, **options)


def _phimoe(settings: Settings, keys: Mapping[str, Any]) -> float | tuple[float, float]:
    """Return Phi-3.5-MoE's attention factors for short and long contexts.

    If they are equal, return a single number.
    """
    short, long = keys.get("short_mscale"), keys.get("long_mscale")
    if short is None or long is None:
        raise settings.wrong(
            f"short_mscale and long_mscale must both be given, got {short!r} and {long!r}"
        )
    pair = (
        validate.real("short_mscale", short, above=0.0),
        validate.real("long_mscale", long, above=0.0),
    )
    return pair[0] if pair[0] == pair[1] else pair


def _proportional(settings: Settings, rotary: Rotary) -> FrequencySchedule:
    fraction = 1.0 if rotary.partial is None else rotary.partial
    return Proportional(fraction, **_given(rotary, "factor"))


_SCHEDULES: Mapping[str, Callable[[Settings, Rotary], FrequencySchedule | None]] = {
    "default": lambda settings, rotary: None,
    "axial": lambda settings, rotary: None,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "proportional": _proportional,
}
