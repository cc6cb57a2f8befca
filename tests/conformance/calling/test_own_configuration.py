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


@pytest.mark.parametrize("annotation", ["", ": BarConfig"])
def test_a_class_gets_the_defaults_of_its_own_configuration(module, annotation):
    """It got head_dim 64 and base 10000, and was called a model's that it is not of."""
    found = module(f"""{OTHER}{CONFIG}
    class FooRotary(Rotary):
        def __init__(self, config{annotation}):
            super().__init__(config.head_dim, config.rope_theta)  # not config.other
    """)
    card = identify(found.FooRotary)
    own = "BarConfig" if annotation else "FooConfig"
    assert card.encoding == pr.RoPE(32, layout="half", base=77.0 if annotation else 5e5)
    assert card.facts["called"].startswith(f"FooRotary({own}())(")


def test_the_longest_name_is_the_nearest(module):
    found = module(f"""{CONFIG}
    class FooBarConfig:
        def __init__(self):
            self.head_dim, self.rope_theta = 16, 55.0

    class FooBarRotary(Rotary):
        def __init__(self, config):
            super().__init__(config.head_dim, config.rope_theta)
    """)
    card = identify(found.FooBarRotary)
    assert card.encoding == pr.RoPE(16, layout="half", base=55.0)


def test_other_configurations_of_the_file_are_not_made(module):
    """Each was made some times, with all that its constructor does."""
    found = module(f"""{CONFIG}
    made = []

    class LogConfig:
        def __init__(self):
            made.append(self)

    class FooRotary(Rotary):
        def __init__(self, config: FooConfig):
            super().__init__(config.head_dim, config.rope_theta)
    """)
    assert identify(found.FooRotary).exact
    assert found.made == []


def test_a_size_that_no_trial_has_is_not_replaced(module):
    """The configuration got head_dim 64, and the card called it the default."""
    found = module("""
    class FooConfig:
        def __init__(self):
            self.hidden_size, self.num_attention_heads, self.rope_theta = 2048, 28, 5e5

    class FooRotary(Rotary):
        def __init__(self, config: FooConfig):
            size = getattr(config, "head_dim", None) or config.hidden_size // 28 // 2 * 2
            super().__init__(size, config.rope_theta)
    """)
    card = identify(found.FooRotary)
    assert card.encoding == pr.RoPE(72, layout="half", base=5e5)


def test_a_configuration_without_a_dict(module):
    """Every class of such a file ended in an error without a name."""
    found = module("""
    import dataclasses

    @dataclasses.dataclass(slots=True)
    class FooConfig:
        head_dim: int = 32
        rope_theta: float = 5e5

    class FooRotary(Rotary):
        def __init__(self, config: FooConfig):
            super().__init__(config.head_dim, config.rope_theta)
    """)
    assert identify(found.FooRotary).encoding == pr.RoPE(32, layout="half", base=5e5)


def test_one_type_of_layers_is_chosen_and_said(module):
    found = module("""
    class FooConfig:
        def __init__(self):
            self.head_dim = 32
            self.rope_parameters = {
                "sliding_attention": {"rope_theta": 50.0}, "full_attention": {"rope_theta": 9e4}
            }

    class FooRotary:
        def __init__(self, config: FooConfig):
            self.each = {
                name: Rotary(config.head_dim, parameters["rope_theta"])
                for name, parameters in config.rope_parameters.items()
            }

        def forward(self, x, position_ids, layer_type=None):
            return self.each[layer_type].forward(x, position_ids)
    """)
    card = identify(found.FooRotary)
    assert card.encoding == pr.RoPE(32, layout="half", base=9e4)
    assert "layer_type='full_attention'" in card.facts["called"]


def test_positions_of_several_axes_are_found_where_one_axis_is_taken_too(module):
    """A rotation by two axes was called one by a single axis: it takes those positions too."""
    found = module(f"""{CONFIG}
    class FooRotary(Rotary):
        def __init__(self, config: FooConfig):
            super().__init__(config.head_dim, config.rope_theta)

        def forward(self, x, position_ids):
            rows, columns = np.broadcast_to(position_ids, (2, *position_ids.shape[-2:]))
            angles = np.concatenate(
                [rows[..., None] * self.frequencies[:8], columns[..., None] * self.frequencies[8:]],
                axis=-1,
            )
            both = np.concatenate([angles, angles], axis=-1)
            return np.cos(both).astype(x.dtype), np.sin(both).astype(x.dtype)
    """)
    card = identify(found.FooRotary)
    assert isinstance(card.encoding, pr.MultiAxisRoPE)
    assert card.encoding.sections == (8, 8)


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
    class Block:
        def __init__(self, theta=5.0, axes_dim=(4, 4, 4), dropout=0.5, heads=4, width=8):
            pass

    class FooTransformer:
        def __init__(self, layers=2, rope_axes_dim=(8, 12, 12), rope_theta=700.0):
            self.embed = FooEmbed(rope_theta, rope_axes_dim)

    class Small:
        def __init__(self, axes_dim=(2, 2, 2)):
            self.embed = FooEmbed(10.0, axes_dim)

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
    assert card.encoding.base == 700.0
    assert "theta=700.0 as in FooTransformer, axes_dim=(8, 12, 12)" in card.facts["called"]


@pytest.mark.parametrize("annotation", ["list", "tuple[int, ...]", "Sequence[int]"])
def test_a_size_that_is_a_list_is_one_for_each_axis(module, annotation):
    found = module(f"""
    from collections.abc import Sequence

    class FooTransformer:
        def __init__(self, layers=2, axes_dim=(8, 12, 12)):
            self.embed = FooEmbed(axes_dim)

    class FooEmbed:
        def __init__(self, rope_dim: {annotation}):
            self.axes = [10000.0 ** (-np.arange(0, n, 2) / n) for n in rope_dim]

        def forward(self, ids):
            parts = [ids[..., n, None] * f for n, f in enumerate(self.axes)]
            angles = np.repeat(np.concatenate(parts, axis=-1), 2, axis=-1)
            return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    """)
    assert identify(found.FooEmbed).encoding.sections == (4, 6, 6)


def test_what_is_assumed_is_called_so(module):
    card = identify(module("").Rotary)
    assert card.facts["called"].startswith("Rotary(dim=64, base=10000.0 assumed)(")


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
            self.rotary = FooRotary(64, theta, None)

    class FooRotary(Rotary):
        def __init__(self, dim, base, unknown):
            super().__init__(dim, base)
    """)
    with pytest.raises(ValueError, match="no value is known for the parameter 'unknown'"):
        identify(found.FooRotary)
