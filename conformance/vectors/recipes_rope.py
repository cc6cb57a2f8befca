"""The vectors of RoPE without scaling."""

from __future__ import annotations

from posenc_ref import RoPE

from .recipe import Group, Recipe, Theme, apply_case, whole

ROFORMER = "Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.4.2, equations (15) and (34)"
NEOX = "EleutherAI/gpt-neox, megatron/model/positional_embeddings.py, rotate_half"


def plain() -> Theme:
    """Both layouts of the whole head."""
    return Theme(
        "rope",
        "RoPE: the rotation, its tables and its frequencies",
        (
            _apply("rope-64-half", RoPE(64, layout="half"), NEOX),
            _apply("rope-64-interleaved", RoPE(64, layout="interleaved"), ROFORMER),
        ),
    )


def _apply(ident: str, rope: RoPE, spec: str) -> Group:
    def case(name: str, comment: str, *positions: int) -> Recipe:
        return apply_case(ident, name, comment, rope.head_dim, whole(*positions))

    cases = (
        case("first", "The first four positions.", 0, 1, 2, 3),
        case("scattered", "Small and odd positions, unsorted, one twice.", 37, 5, 211, 5, 1021),
        case("past-2048", "Where bfloat16 and float16 merge neighbours.", 257, 2049, 4095),
        case("past-65536", "Long contexts.", 65537, 100003, 131071),
    )
    return Group(ident, "apply", rope, spec, cases)
