"""Learned tables in factors, against Reformer and DETR; and sums of tables."""

import numpy as np
import pytest

from posenc_ref import AxialLearned, Hybrid, Learned, Sinusoidal, Sinusoidal2D, from_dict
from posenc_ref.accuracy import budget

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models

RNG = np.random.default_rng(8)
E0, E1 = (RNG.standard_normal(shape).astype(np.float32) for shape in ((6, 4), (5, 8)))
SUM = [RNG.standard_normal((n, 4)).astype(np.float32) for n in (3, 5, 7)]


def test_reformer():
    config = models.reformer.ReformerConfig(
        axial_pos_shape=(6, 5), axial_pos_embds_dim=(4, 8), hidden_size=12, hidden_dropout_prob=0.0,
        local_attn_chunk_length=5, lsh_attn_chunk_length=5, attn_layers=["local"],
    )  # fmt: skip
    module = models.reformer.modeling_reformer.AxialPositionEmbeddings(config).eval()
    with torch.no_grad():
        module.weights[0].copy_(torch.as_tensor(E0)[:, None])
        module.weights[1].copy_(torch.as_tensor(E1)[None])
        peer = module(torch.arange(30)[None])[0].numpy()
    encoding = AxialLearned((E0, E1), flat=True)
    assert (encoding.table(range(30)) == peer).all()  # bit for bit
    other = AxialLearned((E1, E0), flat=True, order=(1, 0))  # the fast axis is the other one
    assert not (other.table(range(30)) == peer).all()


def test_detr_learned_has_the_columns_of_x_first():
    module = models.detr.modeling_detr.DetrLearnedPositionEmbedding(8)
    peer = module((1, 3, 4, 7), "cpu", torch.float32)[0].detach().flatten(1).T
    rows, columns = (e.weight.detach() for e in (module.row_embeddings, module.column_embeddings))
    encoding = AxialLearned((rows, columns), order=(1, 0))
    assert torch.equal(encoding.grid(4, 7), peer)
    assert not torch.equal(encoding.replace(order=(0, 1)).grid(4, 7), peer)


def test_sums_are_rounded_once():
    encoding = AxialLearned(SUM, combine="sum")
    t, h, w = np.unravel_index(np.arange(105), (3, 5, 7))
    want = SUM[0][t].astype(np.float64) + SUM[1][h] + SUM[2][w]
    table = encoding.table(np.stack([t, h, w]))
    assert (table == want.astype(np.float32)).all()
    assert (encoding.replace(flat=True).table(range(105)) == table).all()
    in_order = SUM[0][t] + SUM[1][h] + SUM[2][w]  # as a model adds them, in float32
    truth = encoding.truth(np.stack([t, h, w]))
    assert truth.score(in_order).max() <= budget("float32")
    assert truth.score(SUM[0][t] + SUM[1][h]).max() > budget("float32")


def test_positions_beside_a_table():
    flat = AxialLearned((E0, E1), flat=True)
    for encoding, positions in (
        (flat, [30]), (flat, [-1]), (flat.replace(flat=False), [[0], [5]]),
        (flat.replace(flat=False), [[6], [0]]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"positions of axis \d must lie in"):
            encoding.table(positions)
    with pytest.raises(TypeError, match="integers"):
        flat.table([0.5])


def test_sum_and_concatenation(rng):
    weight = rng.standard_normal((20, 8)).astype(np.float32)
    learned, fixed = Learned(weight, offset=2), Sinusoidal(8, layout="concat")
    total = Hybrid((learned, fixed))
    assert (total.table(range(9)) == weight[2:11].astype(float) + fixed.table(range(9))).all()
    beside = Hybrid((learned, fixed), combine="concat")
    assert beside.dim == 16
    table = beside.table(range(9))
    assert (table[:, :8] == weight[2:11]).all()
    assert (table[:, 8:] == fixed.table(range(9))).all()
    # In float32, as models do it.
    got = weight[2:11] + fixed.table(range(9)).astype(np.float32)
    assert total.truth(range(9)).score(got).max() <= budget("float32")
    assert total.truth(range(9)).score(
        weight[:9] + fixed.table(range(9)).astype(np.float32)
    ).max() > budget("float32")
    joined = np.concatenate([weight[2:11], fixed.table(range(9)).astype(np.float32)], axis=1)
    assert beside.truth(range(9)).score(joined).max() <= budget("float32")
    with pytest.raises(TypeError, match="integers"):
        total.table([0.5])


def test_hybrid_on_torch(rng):
    weight = torch.as_tensor(rng.standard_normal((20, 8))).to(torch.bfloat16)
    total = Hybrid((Sinusoidal(8), Learned(weight)))
    table = total.table(range(5), dtype=torch.float32)
    assert isinstance(table, torch.Tensor)
    x = torch.zeros(2, 5, 8)
    assert torch.equal(total.add(x, torch.arange(5))[1], table)
    images = Hybrid((Sinusoidal2D(8), AxialLearned((weight[:4], weight[4:9]), combine="sum")))
    assert images.grid(4, 5).shape == (20, 8)


VALUES = [
    AxialLearned((E0, E1), order=(1, 0)),
    AxialLearned(SUM, combine="sum", flat=True),
    Hybrid((Learned(E0), Sinusoidal(4))),
    Hybrid((Sinusoidal(4), Sinusoidal(8)), combine="concat"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_json_and_back(value):
    back = from_dict(value.to_dict())
    assert back == value
    assert hash(back) == hash(value)
    assert "array" not in repr(value)


def test_arguments():
    for make, text in (
        (lambda: AxialLearned((E0, E1), combine="sum"), "equal numbers of columns"),
        (lambda: AxialLearned((E0, E1), order=(0, 0)), "permutation of the axes"),
        (lambda: Hybrid((Learned(E0), Sinusoidal(6))), "same dim to be added"),
        (lambda: Hybrid((Sinusoidal(8), Sinusoidal2D(8))), "same position axes"),
    ):
        with pytest.raises(ValueError, match=text):
            make()
    for make in (lambda: AxialLearned((E0,)), lambda: Hybrid((1, 2)),
                 lambda: AxialLearned((E0, E1.astype(np.float64)))):  # fmt: skip
        with pytest.raises(TypeError):
            make()
