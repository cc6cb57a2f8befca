"""The vectors of RoPE without scaling: the rotation, slices of the head, tables, frequencies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import GivenFrequencies, RoPE, YaRN
from posenc_ref.conformance.exact.recipe import Group, Recipe, Theme, numbers, rotated, whole
from posenc_ref.conformance.exact.reference import rotations

ROFORMER = "Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.4.2, equations (15) and (34)"
NEOX = "EleutherAI/gpt-neox, megatron/model/positional_embeddings.py, rotate_half"
PARTIAL = "Black et al. 2022, GPT-NeoX-20B, arXiv:2204.06745, section 2.1 (rotary_pct)"
MLA = "DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434, section 2.1.3 (decoupled rotary key)"
QK_NORM = "Zhang, Sennrich 2019, RMSNorm, arXiv:1910.07467, section 3; q/k-norm of Qwen3, OLMo 2"
DEEPSEEK_CODE = "deepseek-ai/DeepSeek-V3, modeling_deepseek.py, apply_rotary_pos_emb"

#: Convergents of pi/2: at frequency 1 these positions are next to a multiple of it.
QUARTERS = (355, 103993, 833719, 1146408)
#: The first integer that float32 cannot hold.
LAST = 2**24 + 1


def spec_of(rope: Any) -> str:
    """Where the pairs of a layout are defined."""
    return ROFORMER if rope.layout == "interleaved" else NEOX


def standard(ident: str, encoding: Any, spec: str) -> Group:
    """The first positions, a decoding step, scattered and far ones: nine rows."""

    def case(name: str, comment: str, *positions: int) -> Recipe:
        return rotated(ident, name, comment, encoding.head_dim, whole(*positions))

    cases = (
        case("first", "The first three positions.", 0, 1, 2),
        case("decode", "One token far into a sequence.", 777),
        case("scattered", "Small positions, unsorted.", 211, 37, 1021),
        case("far", "Past the reach of bfloat16, float16 and 16-bit positions.", 4095, 65537),
    )
    return Group(ident, "apply", encoding, spec, cases)


def brief(ident: str, encoding: Any, spec: str) -> Group:
    """Three rows: the first positions, and a far one."""
    return Group(ident, "apply", encoding, spec, tuple(rotations(encoding, ident)))


def _more(group: Group, *chosen: str) -> Group:
    """The group with more cases, of positions that implementations get wrong."""
    rope: Any = group.encoding

    def case(name: str, comment: str, positions: Any, batch: int = 1, heads: int = 1) -> Recipe:
        at = np.asarray(positions)
        return rotated(group.id, name, comment, rope.head_dim, at, batch, heads)

    cases = (
        case("repeated", "One position twice.", [1021, 1021]),
        case("past-2048", "Where bfloat16 and float16 merge neighbours.", [257, 2049, 4097]),
        case("past-65536", "Where 16 bits and common tables end.", [32768, 65536, 131071]),
        case("past-million", "Past 2**20, and what float32 cannot hold.", [2**20 + 1, LAST]),
        case("quarter-turns", "The first pair is next to a multiple of pi/2.", QUARTERS[:3]),
        case("negative", "Left of the origin.", [-1, -7, -64]),
        case("fractional", "Between tokens.", [0.5, 1.25, 33.75]),
        case("rows", "Two rows at positions of their own.", [[0, 1], [5, 9]], 2),
        case("decoding-rows", "Two rows of one token, at positions of their own.", [[3], [9]], 2),
        case("one-token", "One token at the origin.", [0]),
        case("heads", "Three heads of two tokens.", [0, 1], 1, 3),
        case("batch", "Three rows of one token.", [1], 3),
        case("sizes", "Batch 2, three heads, one token.", [3], 2, 3),
    )  # fmt: skip
    wanted = tuple(c for c in cases if not chosen or c.name in chosen)
    return Group(group.id, group.surface, rope, group.spec, (*group.cases, *wanted))


def whole_head() -> Theme:
    """Both layouts of the whole head."""
    half, pairs = RoPE(64, layout="half"), RoPE(64, layout="interleaved")
    others = {
        "rope-128-half": RoPE(128, layout="half"),
        "rope-128-half-500k": RoPE(128, layout="half", base=500000.0),
        "rope-128-half-1m": RoPE(128, layout="half", base=1e6),
        "rope-64-interleaved-500k": RoPE(64, layout="interleaved", base=500000.0),
        "rope-64-half-1m": RoPE(64, layout="half", base=1e6),
        "rope-64-interleaved-reversed": RoPE(64, layout="interleaved", sign=-1),
        "rope-2-interleaved": RoPE(2, layout="interleaved"),
    }
    groups = {name: brief(name, rope, spec_of(rope)) for name, rope in others.items()}
    tiny = groups["rope-2-interleaved"]
    # Far positions say nothing of its only pair, which turns by a radian for each.
    groups["rope-2-interleaved"] = replace(tiny, cases=tiny.cases[:1])
    groups["rope-128-half"] = _more(groups["rope-128-half"], "batch")
    groups["rope-64-interleaved-500k"] = _more(groups["rope-64-interleaved-500k"], "decoding-rows")
    full = (
        _more(standard("rope-64-half", half, NEOX)),
        _more(
            standard("rope-64-interleaved", pairs, ROFORMER),
            *("quarter-turns", "fractional", "rows", "sizes"),
        ),
    )
    return Theme("rope", "RoPE over the whole head", (*full, *groups.values()))


def slices() -> Theme:
    """Partial rotary, trailing slices, output layouts."""
    end = {"rotary_dim": 64, "rotary_start": 128}
    ropes: dict[str, tuple[RoPE, str]] = {
        "rope-64-half-first-32": (RoPE(64, layout="half", rotary_dim=32), PARTIAL),
        "rope-64-half-first-16": (RoPE(64, layout="half", rotary_dim=16), PARTIAL),
        "rope-64-interleaved-first-32": (RoPE(64, layout="interleaved", rotary_dim=32), PARTIAL),
        "rope-80-half-first-32": (RoPE(80, layout="half", rotary_dim=32), PARTIAL),
        "rope-96-half-first-24": (RoPE(96, layout="half", rotary_dim=24), PARTIAL),
        "rope-192-half-first-64-1m": (RoPE(192, layout="half", base=1e6, rotary_dim=64), PARTIAL),
        "rope-192-interleaved-last-64": (RoPE(192, layout="interleaved", **end), MLA),  # type: ignore[arg-type]
        "rope-192-interleaved-last-64-to-half": (
            RoPE(192, layout="interleaved", **end, output_layout="half"),  # type: ignore[arg-type]
            DEEPSEEK_CODE,
        ),
        "rope-32-half-to-interleaved": (
            RoPE(32, layout="half", output_layout="interleaved"),
            DEEPSEEK_CODE,
        ),
    }
    groups = tuple(brief(name, rope, spec) for name, (rope, spec) in ropes.items())
    return Theme(
        "rope-slices", "RoPE over a part of the head, or written in another layout", groups
    )


def tables() -> Theme:
    """cos and sin, frequencies, gradients, and calls that do not start at the beginning."""
    cos_sin = {
        "rope-64-half": RoPE(64, layout="half"),
        "rope-64-interleaved": RoPE(64, layout="interleaved"),
        "rope-128-half-10m": RoPE(128, layout="half", base=1e7),
        "rope-96-interleaved-500k": RoPE(96, layout="interleaved", base=500000.0),
        "rope-64-half-gpt-oss": _gpt_oss(),
    }
    frequencies = {
        "rope-64-interleaved": RoPE(64, layout="interleaved"),
        "rope-128-half-1m": RoPE(128, layout="half", base=1e6),
        "rope-128-half-500k": RoPE(128, layout="half", base=500000.0),
        "rope-128-interleaved-first-48": RoPE(128, layout="interleaved", rotary_dim=48),
        "rope-80-half-first-32": RoPE(80, layout="half", rotary_dim=32),
        "rope-8-half-learned": RoPE(
            8, layout="half", scaling=GivenFrequencies((1.25, 0.375, 0.0625, -0.03125))
        ),
    }
    gradients = {
        "rope-64-half": RoPE(64, layout="half"),
        "rope-64-half-first-32": RoPE(64, layout="half", rotary_dim=32),
        "rope-64-half-gpt-oss": _gpt_oss(),
        "rope-16-interleaved-to-half": RoPE(16, layout="interleaved", output_layout="half"),
    }
    groups = [
        _cos_sin(f"{name}-cos-sin", rope, name.startswith("rope-64-half"))
        for name, rope in cos_sin.items()
    ]
    groups += [
        frequencies_of(f"{name}-frequencies", rope, spec_of(rope))
        for name, rope in frequencies.items()
    ]
    groups += [_vjp(f"{name}-vjp", rope) for name, rope in gradients.items()]
    groups += _calls(RoPE(64, layout="half"))
    title = "RoPE: cos and sin, frequencies, gradients, offsets, chunks"
    return Theme("rope-tables", title, tuple(groups))


def _gpt_oss() -> RoPE:
    yarn = YaRN(32.0, 4096, truncate=False)
    return RoPE(64, layout="half", base=150000.0, scaling=yarn)


def frequencies_of(ident: str, encoding: Any, spec: str, *lengths: int) -> Group:
    """The frequencies, at every length where they depend on it."""
    cases = [Recipe("all", "Every pair.", {})] if not lengths else []
    cases += [Recipe(f"at-{n}", f"Sequences of {n} tokens.", {"seq_len": n}) for n in lengths]
    return Group(ident, "frequencies", encoding, spec, tuple(cases))


def _cos_sin(ident: str, rope: RoPE, full: bool) -> Group:
    def case(name: str, comment: str, *positions: int) -> Recipe:
        return Recipe(name, comment, {"positions": whole(*positions)})

    cases = [
        case("first", "The first three positions.", 0, 1, 2),
        case("past-2048", "Where bfloat16 and float16 merge neighbours.", 257, 2049),
    ]
    if full:
        cases += [
            case("past-65536", "Where 16 bits and common tables end.", 32768, 131071),
            case("quarter-turns", "Next to multiples of pi/2.", *QUARTERS),
        ]
    return Group(ident, "cos_sin", rope, spec_of(rope), tuple(cases))


def _vjp(ident: str, rope: RoPE) -> Group:
    shape = (1, 1, 2, rope.head_dim)
    inputs = {
        "x": numbers(f"{ident}-x", *shape),
        "positions": whole(0, 1),
        "dy": numbers(f"{ident}-dy", *shape),
    }
    case = Recipe("first", "The first two positions.", inputs)
    return Group(ident, "apply_vjp", rope, spec_of(rope), (case,))


def _calls(rope: RoPE) -> list[Group]:
    """Offsets, sequences in chunks, shifted keys, normalised heads."""

    def group(
        name: str, surface: str, key: str, *cases: Any, of: RoPE = rope, spec: str = NEOX
    ) -> Group:
        ident = f"rope-64-half-{name}"
        made = [
            Recipe(n, says, {key: numbers(f"{ident}-{n}", *shape, of.head_dim), **more})
            for n, says, shape, more in cases
        ]
        return Group(ident, surface, of, spec, tuple(made))

    partial = RoPE(64, layout="half", rotary_dim=32)
    weight = numbers("rope-64-half-norm", rope.head_dim)
    first = whole(0, 1, 2)
    return [
        group(
            "offset", "apply_offset", "x",
            ("one", "Two heads of two tokens, past 2048.", (1, 2, 2), {"offset": whole(2049)}),
            ("rows", "Two rows of one token.", (2, 1, 1), {"offset": whole(5, 259)}),
        ),
        group(
            "decoding", "decode", "x",
            ("steps", "Two tokens and one, in two rows.", (2, 1, 3), {"chunks": whole(2, 1)}),
        ),
        group(
            "cache", "key_cache", "k",
            ("steps", "Two tokens, then one by one.", (1, 1, 4), {"chunks": whole(2, 1, 1)}),
        ),
        group(
            "shift", "shift_keys", "k",
            ("back", "Three keys, 37 back.", (1, 1, 3), {"delta": -37}),
        ),
        group(
            "shift-first-32", "shift_keys", "k",
            ("on", "Two keys, five on.", (1, 1, 2), {"delta": 5}), of=partial,
        ),
        group(
            "normed", "normed_apply", "x",
            ("first", "Two heads, normalised and rotated.", (1, 2, 3),
             {"weight": weight, "positions": first}),
            spec=QK_NORM,
        ),
    ]  # fmt: skip
