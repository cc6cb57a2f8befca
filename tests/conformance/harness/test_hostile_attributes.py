"""Objects whose attributes raise or end Python are judged, compared and identified all the same."""

import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check, compare, identify
from tests.night import by_day

ROPE = RoPE(8, layout="half")


def right(x, positions):
    return ROPE.apply(x, positions)


class Plain:
    def __call__(self, x, positions):
        return right(x, positions)


def attribute(name, error):
    """An object that computes the right rotation; reading one attribute raises an exception."""

    def read(self):
        raise error

    return type("Kind", (Plain,), {name: property(read)})()


class AnyExits(Plain):
    def __getattr__(self, name):
        raise SystemExit(0)


class AllExit(Plain):
    def __getattribute__(self, name):
        raise SystemExit(0)


class Comparing(Plain):
    __hash__ = None

    def __eq__(self, other):
        raise SystemExit(0)


class Meta(type):
    def __getattribute__(cls, name):
        if name in ("__name__", "__module__", "__qualname__"):
            raise SystemExit(0)
        return type.__getattribute__(cls, name)


class OfMeta(Plain, metaclass=Meta):
    pass


class Member:
    def __get__(self, instance, owner):
        raise SystemExit(0)


class Members(Plain):
    forward = apply = rotate = _orig_mod = Member()


def wraps_itself(x, positions):
    return right(x, positions)


wraps_itself.__wrapped__ = wraps_itself

READ = (
    "__signature__", "__wrapped__", "__name__", "__code__", "__class__", "__self__", "__func__",
    "__doc__", "__globals__", "__closure__", "func", "schema", "pyfunc",
)  # fmt: skip
OBJECTS = {
    "any attribute": AnyExits(), "every attribute": AllExit(), "comparison": Comparing(),
    "metaclass": OfMeta(), "members": Members(), "a loop of wrappers": wraps_itself,
    **{f"{name} exits": attribute(name, SystemExit(0)) for name in READ},
    **{f"{name} raises": attribute(name, RuntimeError("no")) for name in READ},
}  # fmt: skip
DAY = ("any attribute",)


@pytest.mark.parametrize("name", by_day(OBJECTS, DAY))
@pytest.mark.parametrize("surface", ["apply", None])
def test_an_object_whose_attributes_cannot_be_read(name, surface):
    fn = OBJECTS[name]
    calls = (
        lambda: check(fn, ROPE, surface, max_position=128).verdict == "conforms",
        lambda: compare(fn, right, surface, head_dim=8).verdict == "conforms",
        lambda: identify(fn, surface, head_dim=8).encoding == ROPE,
    )
    for call in calls:
        try:
            agrees, said = call(), ""
        except (TypeError, ValueError) as error:
            agrees, said = False, str(error)
        # Without a surface, the names of the parameters must be known.
        unknown = "cannot be read" in said or "no calling convention fits" in said
        assert agrees or (surface is None and unknown), said
