"""Adapters of transformers in releases before the newest."""

import pytest

from posenc_ref.conformance.adapters.transformers_config import before_5


def test_settings_as_transformers_4_reads_them():
    """The names of 4.57's configurations; it ignores ``rope_parameters``."""
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "partial_rotary_factor": 0.5}
    assert before_5({"head_dim": 64, "rope_parameters": rope}) == {
        "head_dim": 64, "rope_theta": 1e4, "partial_rotary_factor": 0.5,
        "rope_scaling": {"type": "yarn", "factor": 4.0},
    }  # fmt: skip
    plain = {"rope_type": "default", "rope_theta": 1e4}
    assert before_5({"rope_parameters": plain}) == {"rope_theta": 1e4}
    sections = plain | {"mrope_section": [16, 24, 24]}
    assert before_5({"rope_parameters": sections})["rope_scaling"] == {
        "type": "mrope", "mrope_section": [16, 24, 24]
    }  # fmt: skip
    longrope = {"rope_type": "longrope", "original_max_position_embeddings": 4096}
    settings = {"original_max_position_embeddings": 4096, "rope_parameters": longrope}
    assert before_5(settings)["rope_scaling"] == {"type": "longrope"}  # Phi-3 refuses a third key
    assert before_5({"a": 1}) == {"a": 1}
    with pytest.raises(ValueError, match="for each layer type since 5"):
        before_5({"rope_parameters": {"full_attention": plain}})
