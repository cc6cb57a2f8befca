"""Which rows of a tensor move, by what its name says of it."""

from types import SimpleNamespace

import pytest

from posenc_ref.conformance.weights.heads import Heads
from posenc_ref.conformance.weights.plan import _move, _norm

HEADS = Heads(8, 8, 0)
LAYOUTS = ("interleaved", "half")
HOW = {"source": "interleaved", "target": "half", "rotary_dim": 8, "rotary_start": 0}


def latent(rows):
    """The move of a projection to a compressed key, whose last 8 rows rotate."""
    tensor = SimpleNamespace(name="kv_a", shape=(rows, 4))
    name = SimpleNamespace(role="latent", part="weight")
    model = SimpleNamespace(gated=False)
    return _move(tensor, name, HEADS, model, LAYOUTS, None)


@pytest.mark.parametrize("rows", [8, 20])
def test_the_last_rows_of_a_compressed_key_move(rows):
    *others, a, b, c, d, e, f, g, h = latent(rows).index.tolist()
    assert others == list(range(rows - 8))
    assert [n - (rows - 8) for n in (a, b, c, d, e, f, g, h)] == [0, 2, 4, 6, 1, 3, 5, 7]


def test_a_compressed_key_has_the_rows_that_rotate():
    with pytest.raises(ValueError, match="kv_a has 7 rows, fewer than 8 rotate"):
        latent(7)


@pytest.mark.parametrize(("compressed", "moves"), [(True, False), (False, True)])
def test_a_norm_of_the_compressed_query_does_not_move(compressed, moves):
    model = SimpleNamespace(latent=compressed, query_rank=24, n_heads=3, n_kv_heads=3)
    tensor = SimpleNamespace(name="q_norm", elements=24)
    move = _norm(tensor, SimpleNamespace(role="q_norm"), HEADS, model, HOW)
    assert (move is not None) is moves
