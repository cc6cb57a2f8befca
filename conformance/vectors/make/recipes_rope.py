"""Recipes for RoPE without scaling: rotation, partial rotation, tables, frequencies."""

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
SINKS = "Xiao et al. 2023, StreamingLLM, arXiv:2309.17453, section 3.2"
DEEPSEEK_CODE = "deepseek-ai/DeepSeek-V3, modeling_deepseek.py, apply_rotary_pos_emb"

#: Positions whose angle at frequency 1 is very close to a multiple of pi/2.
QUARTERS = (355, 103993, 833719, 1146408)
#: The first integer that float32 cannot hold.
LAST = 2**24 + 1


def half(head_dim: int, scaling: Any = None, **fields: Any) -> RoPE:
    """Return a RoPE that pairs channels k and k + d/2."""
    return RoPE(head_dim, layout="half", scaling=scaling, **fields)


def pairs(head_dim: int, scaling: Any = None, **fields: Any) -> RoPE:
    """Return a RoPE that pairs channels 2k and 2k + 1."""
    return RoPE(head_dim, layout="interleaved", scaling=scaling, **fields)


def _spec_of(rope: RoPE) -> str:
    """Return the source that defines the pairs of a layout."""
    return ROFORMER if rope.layout == "interleaved" else NEOX


def applied(ident: str, encoding: Any, spec: str, *cases: tuple[Any, ...]) -> Group:
    """Return cases of ``apply`` from (name, comment, positions[, batch[, heads]])."""
    made = (
        rotated(ident, name, comment, encoding.head_dim, np.asarray(positions), *sizes)
        for name, comment, positions, *sizes in cases
    )
    return Group(ident, "apply", encoding, spec, tuple(made))


def standard(ident: str, encoding: Any, spec: str) -> Group:
    """Return cases with the first positions, one decoding step, scattered and far positions."""
    return applied(
        ident, encoding, spec,
        ("first", "The first three positions.", [0, 1, 2]),
        ("decode", "One token far into a sequence.", [777]),
        ("scattered", "Small positions, unsorted.", [211, 37, 1021]),
        ("far", "Positions that bfloat16, float16 or 16 bits cannot hold.", [4095, 65537]),
    )  # fmt: skip


def brief(ident: str, encoding: Any, spec: str) -> Group:
    """Return a group with the cases of :func:`rotations`: first positions, and far ones."""
    return Group(ident, "apply", encoding, spec, tuple(rotations(encoding, ident)))


def _more(group: Group, *chosen: str) -> Group:
    """Return the group with further cases, at positions that implementations get wrong."""
    cases = (
        ("repeated", "One position twice.", [1021, 1021]),
        ("past-2048", "Positions that bfloat16 or float16 rounds.", [257, 2049, 4097]),
        ("past-65536", "Positions beyond int16 and common tables.", [32768, 65536, 131071]),
        ("past-million", "Positions beyond 2**20; float32 rounds one of them.", [2**20 + 1, LAST]),
        ("quarter-turns", "The first pair's angles are close to multiples of pi/2.", QUARTERS[:3]),
        ("negative", "Negative positions.", [-1, -7, -64]),
        ("fractional", "Fractional positions.", [0.5, 1.25, 33.75]),
        ("rows", "Two rows at positions of their own.", [[0, 1], [5, 9]], 2),
        ("decoding-rows", "Two rows of one token, at positions of their own.", [[3], [9]], 2),
        ("one-token", "One token at the origin.", [0]),
        ("heads", "Three heads of two tokens.", [0, 1], 1, 3),
        ("batch", "Three rows of one token.", [1], 3),
        ("sizes", "Batch 2, three heads, one token.", [3], 2, 3),
    )
    wanted = (case for case in cases if not chosen or case[0] in chosen)
    more = applied(group.id, group.encoding, group.spec, *wanted)
    return replace(group, cases=(*group.cases, *more.cases))


def whole_head() -> Theme:
    """Return the vectors of both layouts, rotating the whole head."""
    tiny = brief("rope-2-interleaved", pairs(2), ROFORMER)
    groups = (
        _more(standard("rope-64-half", half(64), NEOX)),
        _more(
            standard("rope-64-interleaved", pairs(64), ROFORMER),
            *("quarter-turns", "fractional", "rows", "sizes"),
        ),
        _more(brief("rope-128-half", half(128), NEOX), "batch"),
        brief("rope-128-half-500k", half(128, base=500000.0), NEOX),
        brief("rope-128-half-1m", half(128, base=1e6), NEOX),
        _more(
            brief("rope-64-interleaved-500k", pairs(64, base=500000.0), ROFORMER), "decoding-rows"
        ),
        brief("rope-64-half-1m", half(64, base=1e6), NEOX),
        brief("rope-64-interleaved-reversed", pairs(64, sign=-1), ROFORMER),
        # Its only pair has frequency 1, so far positions add nothing.
        replace(tiny, cases=tiny.cases[:1]),
    )
    return Theme("rope", "RoPE over the whole head", groups)


def slices() -> Theme:
    """Return the vectors of partial rotation, trailing channels and output layouts."""
    last = pairs(192, rotary_dim=64, rotary_start=128)
    last_to_half = last.replace(output_layout="half")
    groups = (
        brief("rope-64-half-first-32", half(64, rotary_dim=32), PARTIAL),
        brief("rope-64-half-first-16", half(64, rotary_dim=16), PARTIAL),
        brief("rope-64-interleaved-first-32", pairs(64, rotary_dim=32), PARTIAL),
        brief("rope-80-half-first-32", half(80, rotary_dim=32), PARTIAL),
        brief("rope-96-half-first-24", half(96, rotary_dim=24), PARTIAL),
        brief("rope-192-half-first-64-1m", half(192, base=1e6, rotary_dim=64), PARTIAL),
        brief("rope-192-interleaved-last-64", last, MLA),
        brief("rope-192-interleaved-last-64-to-half", last_to_half, DEEPSEEK_CODE),
        brief("rope-32-half-to-interleaved", half(32, output_layout="interleaved"), DEEPSEEK_CODE),
    )
    title = "RoPE over a part of the head, or written in another layout"
    return Theme("rope-slices", title, groups)


def tables() -> Theme:
    """Return the vectors of cos and sin, frequencies, gradients, and calls with an offset."""
    gpt_oss = half(64, YaRN(32.0, 4096, truncate=False), base=150000.0)
    learned = GivenFrequencies((1.25, 0.375, 0.0625, -0.03125))
    frequencies = {
        "rope-64-interleaved": pairs(64),
        "rope-128-half-1m": half(128, base=1e6),
        "rope-128-half-500k": half(128, base=500000.0),
        "rope-128-interleaved-first-48": pairs(128, rotary_dim=48),
        "rope-80-half-first-32": half(80, rotary_dim=32),
        "rope-8-half-learned": half(8, learned),
    }
    groups = (
        _cos_sin("rope-64-half", half(64), full=True),
        _cos_sin("rope-64-interleaved", pairs(64)),
        _cos_sin("rope-128-half-10m", half(128, base=1e7)),
        _cos_sin("rope-96-interleaved-500k", pairs(96, base=500000.0)),
        _cos_sin("rope-64-half-gpt-oss", gpt_oss, full=True),
        *(frequencies_of(name, rope, _spec_of(rope)) for name, rope in frequencies.items()),
        _vjp("rope-64-half", half(64)),
        _vjp("rope-64-half-first-32", half(64, rotary_dim=32)),
        _vjp("rope-64-half-gpt-oss", gpt_oss),
        _vjp("rope-16-interleaved-to-half", pairs(16, output_layout="half")),
        *_calls(half(64)),
    )
    return Theme(
        "rope-tables", "RoPE: cos and sin, frequencies, gradients, offsets, chunks", groups
    )


def frequencies_of(ident: str, encoding: Any, spec: str, *lengths: int) -> Group:
    """Return the frequencies, for each length if they depend on it."""
    cases = [Recipe(f"at-{n}", f"Sequences of {n} tokens.", {"seq_len": n}) for n in lengths]
    cases = cases or [Recipe("all", "Every pair.", {})]
    return Group(f"{ident}-frequencies", "frequencies", encoding, spec, tuple(cases))


def _cos_sin(ident: str, rope: RoPE, full: bool = False) -> Group:
    def case(name: str, comment: str, *positions: int) -> Recipe:
        return Recipe(name, comment, {"positions": whole(*positions)})

    cases = [
        case("first", "The first three positions.", 0, 1, 2),
        case("past-2048", "Positions that bfloat16 or float16 rounds.", 257, 2049),
    ]
    if full:
        cases += [
            case("past-65536", "Positions beyond int16 and common tables.", 32768, 131071),
            case("quarter-turns", "Angles close to multiples of pi/2.", *QUARTERS),
        ]
    return Group(f"{ident}-cos-sin", "cos_sin", rope, _spec_of(rope), tuple(cases))


def _vjp(ident: str, rope: RoPE) -> Group:
    x, dy = (numbers(f"{ident}-vjp-{name}", 1, 1, 2, rope.head_dim) for name in ("x", "dy"))
    inputs = {"x": x, "positions": whole(0, 1), "dy": dy}
    case = Recipe("first", "The first two positions.", inputs)
    return Group(f"{ident}-vjp", "apply_vjp", rope, _spec_of(rope), (case,))


def _calls(rope: RoPE) -> list[Group]:
    """Return cases of offsets, chunked sequences, shifted keys and normalized heads."""

    def group(
        name: str, surface: str, key: str, *cases: Any, of: RoPE = rope, spec: str = NEOX
    ) -> Group:
        ident = f"rope-64-half-{name}"
        made = [
            Recipe(n, says, {key: numbers(f"{ident}-{n}", *shape, of.head_dim), **more})
            for n, says, shape, more in cases
        ]
        return Group(ident, surface, of, spec, tuple(made))

    norm = {"weight": numbers("rope-64-half-norm", rope.head_dim), "positions": whole(0, 1, 2)}
    return [
        group(
            "offset", "apply_offset", "x",
            ("one", "Two heads of two tokens, past 2048.", (1, 2, 2), {"offset": whole(2049)}),
            ("rows", "Two rows of one token.", (2, 1, 1), {"offset": whole(5, 259)}),
        ),
        group(
            "decoding", "decode", "x",
            ("steps", "Two tokens, then one, in two rows.", (2, 1, 3), {"chunks": whole(2, 1)}),
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
            ("on", "Two keys, five on.", (1, 1, 2), {"delta": 5}),
            of=rope.replace(rotary_dim=32),
        ),
        group(
            "evict", "evict_keys", "k",
            ("sinks", "Six keys: two stay, one is dropped.", (1, 1, 6), {"kept": 2, "dropped": 1}),
            spec=SINKS,
        ),
        group(
            "normed", "normed_apply", "x",
            ("first", "Two heads, normalised and rotated.", (1, 2, 3), norm), spec=QK_NORM,
        ),
    ]  # fmt: skip
