"""Classes identified as given: their configuration and arguments are those of their own model."""

import importlib
import sys
from textwrap import dedent

import pytest

import posenc_ref as pr
from posenc_ref.conformance import identify

HEAD = """
    import numpy as np

    class Rotary:
        def __init__(self, dim, base):
            self.frequencies = base ** (-np.arange(0, dim, 2) / dim)

        def forward(self, x, position_ids):
            angles = position_ids[..., None] * np.concatenate([self.frequencies] * 2)
            return np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes a module and imports it."""
    monkeypatch.syspath_prepend(tmp_path)

    def made(code):
        name = f"own_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(dedent(HEAD) + dedent(code))
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return made


CONFIG = """
    class FooConfig:
        def __init__(self, head_dim=32, rope_theta=5e5):
            self.head_dim, self.rope_theta = head_dim, rope_theta
"""
OTHER = """
    class BarConfig:
        def __init__(self, head_dim=32, rope_theta=77.0):
            self.head_dim, self.rope_theta = head_dim, rope_theta
"""


@pytest.mark.parametrize("annotation", ["", ": FooConfig"])
def test_a_class_gets_the_defaults_of_its_own_configuration(module, annotation):
    """It got head_dim 64 and base 10000, and was called a model's that it is not of."""
    found = module(f"""{OTHER}{CONFIG}
    class FooRotary(Rotary):
        def __init__(self, config{annotation}):
            super().__init__(config.head_dim, config.rope_theta)
    """)
    card = identify(found.FooRotary)
    assert card.encoding == pr.RoPE(32, layout="half", base=5e5)
    assert card.facts["called"].startswith("FooRotary(FooConfig())(")


def test_a_size_that_the_user_states_replaces_the_default(module):
    found = module(f"""{CONFIG}
    class FooRotary(Rotary):
        def __init__(self, config: FooConfig):
            super().__init__(config.head_dim, config.rope_theta)
    """)
    card = identify(found.FooRotary, head_dim=64)
    assert card.encoding.head_dim == 64
    assert "FooConfig()" not in card.facts["called"]


def test_the_part_of_a_configuration_with_what_the_code_reads(module):
    found = module("""
    class TextConfig:
        def __init__(self):
            self.width, self.rope_theta = 48, 300.0

    class FooConfig:
        def __init__(self):
            self.text_config = TextConfig()

    class FooRotary(Rotary):
        def __init__(self, config: FooConfig):
            super().__init__(config.width, config.rope_theta)
    """)
    card = identify(found.FooRotary)
    assert card.encoding == pr.RoPE(48, layout="half", base=300.0)
    assert card.facts["called"].startswith("FooRotary(FooConfig().text_config)(")


def test_a_made_up_configuration_is_called_so(module):
    found = module("""
    class FooRotary(Rotary):
        def __init__(self, config):
            super().__init__(config.head_dim, config.rope_theta)
    """)
    card = identify(found.FooRotary)
    assert card.facts["called"].startswith(
        "FooRotary(config made up, with base 10000 and no scaling)("
    )


def test_arguments_of_the_model_in_the_file(module):
    """One column of coordinates was passed, and the first axis called the whole rotation."""
    found = module("""
    class FooTransformer:
        def __init__(self, layers=2, rope_axes_dim=(8, 12, 12), theta=10000.0):
            pass

    class FooEmbed:
        def __init__(self, theta, axes_dim):
            self.axes = [theta ** (-np.arange(0, n, 2) / n) for n in axes_dim]

        def forward(self, ids):
            parts = [ids[..., n, None] * f for n, f in enumerate(self.axes[: ids.shape[-1]])]
            angles = np.repeat(np.concatenate(parts, axis=-1), 2, axis=-1)
            return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    """)
    card = identify(found.FooEmbed)
    assert isinstance(card.encoding, pr.MultiAxisRoPE)
    assert card.encoding.sections == (4, 6, 6)
    assert "axes_dim=(8, 12, 12) as in FooTransformer" in card.facts["called"]


def test_a_helper_that_takes_a_configuration_is_not_the_class(module):
    """The frequencies of a method of a class were taken for what the class does."""
    found = module(f"""{CONFIG}
    class FooRotary:
        def __init__(self, config: FooConfig):
            self.factor = 2.0

        def compute_rope_parameters(self, config, device=None):
            return 10000.0 ** (-np.arange(0, 32, 2) / 32)

        def forward(self, x, words, sounds):
            raise ValueError("words must be words")
    """)
    with pytest.raises(ValueError, match="name the surface"):
        identify(found.FooRotary)


def test_numbers_of_a_model_do_not_replace_what_is_declared(module):
    found = module(f"""{CONFIG}
    class FooRotary(Rotary):
        def __init__(self, config: FooConfig):
            super().__init__(config.head_dim, config.rope_theta)
    """)
    declared = pr.RoPE(16, layout="half", base=123.0)
    assert pr.conformance.check(found.FooRotary, declared).passed


def test_arrays_among_defaults_are_compared_as_objects(module):
    found = module("""
    class FooModel:
        def __init__(self, weight=np.zeros(3), theta=10000.0):
            pass

    class FooRotary(Rotary):
        def __init__(self, dim, base, unknown):
            super().__init__(dim, base)
    """)
    with pytest.raises(ValueError, match="no value is known for the parameter 'unknown'"):
        identify(found.FooRotary)
