"""What docs/errata.md says of the five tutorials, with its numbers.

The rest of them is in test_worked_examples.py.  Code of a tutorial is never copied: where its
behaviour matters, the least code with the same fault stands here.
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref import ALiBi, RoPE, Sinusoidal
from tests.seeds.test_worked_examples import rounds_to, same

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
RNG = np.random.default_rng(0)


# -- seed 000 --------------------------------------------------------------------------------


def gram(dim, count):
    """Dot products of PE(0) with the first positions."""
    table = Sinusoidal(dim).table(range(count))
    return table @ table[0]


def test_000_the_timescale_belongs_into_the_cosine():
    """Printed in one place: cos(p - q).  At distance 3, d = 8, the sum is 1.965, not 4 cos 3."""
    assert rounds_to(gram(8, 4)[3], "1.965")
    assert rounds_to(4 * np.cos(3), "-3.960")


@pytest.mark.parametrize(("dim", "rise"), [(64, 6), (128, 12), (512, 44)])
def test_000_dot_products_do_not_fall_with_distance(dim, rise):
    steps = np.diff(gram(dim, 100))
    assert int(np.argmax(steps > 0)) + 1 == rise
    assert gram(64, 3000).min() < 0


def test_000_after_projection_the_offset_is_not_enough():
    """Positions (0, 3) and (5, 8) with one random matrix between them."""
    p, w = Sinusoidal(8).table(range(9)), np.random.default_rng(4).standard_normal((8, 8))
    logits = p @ w @ p.T
    plain = p @ p.T
    assert same(plain[0, 3], plain[5, 8], 100)
    assert not same(logits[0, 3], logits[5, 8], 100)
    assert abs(logits[0, 3] - logits[5, 8]) > 1


def test_000_index_i_counts_pairs():
    """8 dimensions have 4 frequencies; an index of 7 in the formula would be 10000 ** (14/8)."""
    assert len(Sinusoidal(8).frequencies()) == 4
    assert 10000 ** (14 / 8) > 10000


def test_000_sines_alone_keep_half_of_the_relative_part():
    """sin a sin b = (cos(a - b) - cos(a + b)) / 2: the offset is there, and something else."""
    omega, p = Sinusoidal(8).frequencies(), np.arange(9)[:, None, None]
    q = np.arange(9)[:, None]
    sines = np.sin(p * omega) * np.sin(q * omega)
    halves = (np.cos((p - q) * omega) - np.cos((p + q) * omega)) / 2
    assert same(sines.sum(-1), halves.sum(-1), 10)


# -- seed 001 --------------------------------------------------------------------------------


def test_001_transposes(rng):
    """Row vectors meet as x W_q W_k^T y^T; the printed W_q^T W_k is for columns."""
    x, y = rng.standard_normal((2, 1, 8))
    q, k = rng.standard_normal((2, 8, 8))
    assert same((x @ q) @ (y @ k).T, x @ q @ k.T @ y.T, 1000)
    assert not same((x @ q) @ (y @ k).T, x @ q.T @ k @ y.T, 1000)


def test_001_a_word_against_a_position_is_not_relative(rng):
    """The second of the four terms changes when both tokens move by 5."""
    word, p = rng.standard_normal(8), Sinusoidal(8).table(range(12))
    assert abs(word @ p[3] - word @ p[8]) > 0.1
    assert same(p[0] @ p[3], p[5] @ p[8], 100)  # the fourth does not, without matrices


def test_001_the_width_of_rotations_is_that_of_a_head():
    """64 of 512: the slowest pair of a head turns by 1.334e-4, by 1.037e-4 with d = 512."""
    assert rounds_to(1e4 * RoPE(64, layout="half").frequencies()[-1], "1.334")
    assert rounds_to(1e4 * Sinusoidal(512).frequencies()[-1], "1.037")


def test_001_channels_of_a_pair_are_2i_and_2i_plus_1():
    """Printed: i and i + 1 with theta_i, which would rotate every inner channel twice."""
    first, second = RoPE(8, layout="interleaved").pairs()
    assert first.tolist() == [0, 2, 4, 6]
    assert second.tolist() == [1, 3, 5, 7]


def test_001_roberta_is_trained():
    config = models.roberta.RobertaConfig(vocab_size=9, hidden_size=8)
    module = models.roberta.modeling_roberta.RobertaEmbeddings(config)
    assert module.position_embeddings.weight.requires_grad


def test_001_falcon_rotates():
    config = models.falcon.FalconConfig()
    assert config.alibi is False
    assert config.rotary is True
    assert pr.preset("falcon-7b").only == RoPE(64, layout="half")


def test_001_ernie_3_as_released_has_a_learned_table():
    config = models.ernie.ErnieConfig(
        vocab_size=9, hidden_size=8, max_position_embeddings=2048, use_task_id=True
    )
    module = models.ernie.modeling_ernie.ErnieEmbeddings(config)
    assert tuple(module.position_embeddings.weight.shape) == (2048, 8)
    assert module.position_embeddings.weight.requires_grad


# -- seed 002 --------------------------------------------------------------------------------


def attention(x):
    scores = x @ x.T / np.sqrt(x.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ x


def test_002_attention_is_equivariant():
    """Permuted tokens give permuted results, which are others.  Their mean is invariant."""
    x, order = np.random.default_rng(1).standard_normal((6, 8)), np.array([4, 5, 1, 0, 2, 3])
    assert same(attention(x[order]), attention(x)[order], 10)
    assert np.abs(attention(x[order]) - attention(x)).max() > 1
    assert same(attention(x[order]).mean(axis=0), attention(x).mean(axis=0), 10)


def test_002_bert_is_learned():
    config = models.bert.BertConfig(vocab_size=9, hidden_size=8)
    module = models.bert.modeling_bert.BertEmbeddings(config).position_embeddings
    assert module.weight.requires_grad
    sinusoid = Sinusoidal(8).table(range(512))
    assert np.abs(module.weight.detach().numpy() - sinusoid).max() > 0.5


def test_002_rotation_alone_does_not_extrapolate():
    """d = 128: 18 of 64 pairs have not turned once in 4096 tokens; beyond, their angles are new."""
    turns = 4096 * RoPE(128, layout="half").frequencies() / (2 * np.pi)
    assert (turns < 1).sum() == 18


def test_002_the_shape_of_cos():
    """(S, d) does not broadcast to (B, S, H, d): the head axis is missing."""
    x, cos = np.ones((2, 5, 3, 8)), np.ones((5, 8))
    with pytest.raises(ValueError, match="broadcast"):
        x * cos
    assert (x * cos[:, None]).shape == x.shape


def test_002_the_proof_is_for_the_first_pair():
    """With omega = 1 in the matrix, the second pair of d = 8 is wrong by 1.6."""
    c, s = np.cos(3), np.sin(3)
    table = Sinusoidal(8).table([5, 8])
    wrong = np.array([[c, s], [-s, c]]) @ table[0, 2:4] - table[1, 2:4]
    assert rounds_to(np.abs(wrong).max(), "1.6")


# -- seed 003 --------------------------------------------------------------------------------


def test_003_t5_has_no_table_of_positions():
    """One bias table, 32 buckets for each head, in the first layer; nothing of width 128 or 384."""
    config = models.t5.T5Config(vocab_size=9, num_layers=2, num_heads=4)
    names = {
        name: tuple(p.shape)
        for name, p in models.t5.modeling_t5.T5EncoderModel(config).named_parameters()
        if "position" in name or "relative" in name
    }
    assert list(names.values()) == [(32, 4)]
    assert all("block.0" in name for name in names)


def test_003_a_parenthesis_is_missing():
    with pytest.raises(SyntaxError, match="never closed"):
        ast.parse("exp(arange(0, d, 2) * (-log(10000.0) / d)")


def test_003_nothing_could_overflow():
    """The largest power is 9646.6; float16 ends at 65504."""
    assert np.finfo(np.float16).max > 10000 ** (510 / 512)


def test_003_neighbouring_columns_do_not_correlate():
    """Pairs of ten periods or more, all 122 of them: at most 0.015; slower ones up to 0.965."""
    encoding = Sinusoidal(512)
    table = encoding.table(range(5000))
    r = np.abs([np.corrcoef(table[:, k], table[:, k + 1])[0, 1] for k in range(0, 512, 2)])
    often = 2 * np.pi / encoding.frequencies() <= 5000 / 10
    assert often.sum() == 122
    assert rounds_to(r[often].max(), "0.015")
    assert rounds_to(r.max(), "0.965")


def test_003_translation_invariance_is_not_smoothness():
    """What is invariant is the length of a step, 3.714 of 16 for d = 512, and it is not small."""
    table = Sinusoidal(512).table(range(5000))
    steps = np.linalg.norm(np.diff(table, axis=0), axis=1)
    assert all(rounds_to(step, "3.714") for step in (steps.min(), steps.max()))
    assert rounds_to(np.linalg.norm(table[7]), "16.000")


# -- seed 004 --------------------------------------------------------------------------------


def test_004_an_outer_product_is_missing():
    with pytest.raises(ValueError, match="broadcast"):
        np.arange(10.0) * np.ones(4)
    assert np.outer(np.arange(10.0), np.ones(4)).shape == (10, 4)


def test_004_the_other_term():
    """Re(q conj(k) e^(i (m-n) theta)) = (q . k) cos + (q0 k1 - q1 k0) sin."""
    q, k, m, n = np.array([1.0, 2.0]), np.array([3.0, 4.0]), 7, 4
    rope = RoPE(2, layout="half")
    got = (rope.apply(q[None], [m]) @ rope.apply(k[None], [n]).T)[0, 0]
    cos = q @ k * np.cos(m - n)
    assert same(got, cos + (q[0] * k[1] - q[1] * k[0]) * np.sin(m - n), 20)
    assert rounds_to(got, "-11.172")
    assert rounds_to(cos, "-10.890")
    z = complex(*q) * complex(*k).conjugate() * np.exp(1j * (m - n))
    assert same(got, z.real, 20)
    assert abs((complex(*q) * complex(*k) * np.exp(1j * (m - n))).real - got) > 1  # no conj


def test_004_a_lambda_is_no_module():
    parent = torch.nn.Module()
    parent.rope = torch.nn.Identity()
    with pytest.raises(TypeError, match="cannot assign .* as child module 'rope'"):  # noqa: RUF043
        parent.rope = lambda q, k: (q, k)


def test_004_running_on_a_longer_input_shows_nothing():
    """The same "test" passes without any encoding, and for one that clamps every position to 0."""

    def at_zero(x):
        return attention(RoPE(8, layout="half").apply(x, [0] * len(x)))

    for fn in (attention, at_zero):
        assert [fn(np.ones((n, 8))).shape for n in (32, 128)] == [(32, 8), (128, 8)]


def test_004_a_negative_index_wraps():
    """bias[i - j] of 5 distances: key 1 of query 0 gets the row of distance 4."""
    rows = np.array([0.0, -1.0, -2.0, -3.0, -4.0])
    assert rows[0 - 1] == -4.0
    assert ALiBi(1, causal=False).bias([0], [1])[0, 0, 0] == -(2.0**-8)


def test_004_a_cache_that_forgets_that_it_grew():
    class Cache:
        def __init__(self):
            self.limit, self.built = 4, 0

        def get(self, length):
            if length > self.limit:  # the limit stays what it was
                self.built += 1

    cache = Cache()
    for _ in range(3):
        cache.get(10)
    assert (cache.limit, cache.built) == (4, 3)


# -- the page --------------------------------------------------------------------------------


def functions_of(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name[:4] == "test"}


def test_every_row_of_the_page_names_a_test_and_every_test_is_on_the_page():
    here = functions_of("tests/seeds/test_errata.py")
    there = functions_of("tests/seeds/test_worked_examples.py")
    rows = [line for line in PAGE.splitlines() if re.match(r"\| 00\d\.\d+ \|", line)]
    named = set()
    for row in rows:
        found = re.findall(r"`(test_\w+)`", row)
        assert found, row
        assert set(found) <= here | there, row
        number = row.split("|")[1].split(".")[0].strip()
        assert re.search(r"\d", row.split("|")[4]) or "error" in row.split("|")[4], (number, row)
        named |= set(found)
    assert {name for name in here if re.match(r"test_00\d", name)} <= named
