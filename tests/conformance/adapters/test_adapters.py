"""Each adapter against the naive formula of what it declares, without the judge."""

import numpy as np
import pytest

import posenc_ref
from posenc_ref import accuracy
from posenc_ref.conformance.adapters import library, rotary_embedding_torch

torch = pytest.importorskip("torch", reason="PyTorch runs the modules that are judged")

POSITIONS = np.arange(64)
KNOWN = [f for f in library.functions() if f.dtypes and f.library not in library.missing()]
ROTARY = [(k, dtype) for k in KNOWN if "bfloat16" in k.dtypes for dtype in k.dtypes]


def label(case):
    entry, *rest = case if isinstance(case, tuple) else (case,)
    return "-".join([entry.library, entry.label.replace(" ", "_"), *rest])


def of_label(*labels):
    return [k for k in KNOWN if k.label in labels]


def of_surface(surface):
    return [k for k in KNOWN if k.label.endswith(surface)]


def declared(entry, implementation):
    """What an adapter reads in the weights, or else the source says."""
    return entry.expected if implementation.encoding is None else implementation.encoding


def naive_rope(rope, x, positions):
    """The declared rotation in float64: (value, A, B) as `accuracy.Truth` wants them."""
    d = rope.rotary_dim
    frequency = rope.base ** (-np.arange(0, d, 2) / d)
    if rope.scaling is not None:
        frequency = frequency / rope.scaling.factor
    angle = positions[:, None] * frequency
    cos, sin = np.cos(angle), np.sin(angle)
    one, two = np.arange(d // 2), np.arange(d // 2) + d // 2
    if rope.layout == "interleaved":
        one, two = np.arange(0, d, 2), np.arange(1, d, 2)
    a, b = x[..., one], x[..., two]
    value, terms, turned = x.copy(), np.zeros_like(x), np.zeros_like(x)
    value[..., one], value[..., two] = a * cos - b * sin, a * sin + b * cos
    terms[..., one] = abs(a * cos) + abs(b * sin)
    terms[..., two] = abs(a * sin) + abs(b * cos)
    turned[..., one] = turned[..., two] = abs(angle) * np.hypot(a, b)
    return accuracy.Truth(value, terms, turned)


def run(implementation, x, positions):
    """Apply to bhsd NumPy vectors, in the implementation's own tensor layout."""
    native = x.transpose(1, 2) if implementation.tensor_layout == "bshd" else x
    out = implementation(native, torch.from_numpy(np.asarray(positions)))
    assert out.shape == native.shape
    assert out.dtype == x.dtype
    return out.transpose(1, 2) if implementation.tensor_layout == "bshd" else out


def vectors(head_dim, dtype, batch=2):
    values = np.random.default_rng(0).standard_normal((batch, 3, len(POSITIONS), head_dim))
    return torch.from_numpy(values).to(getattr(torch, dtype))


@pytest.mark.parametrize("case", ROTARY, ids=label)
def test_rotary(case):
    entry, dtype = case
    implementation = entry.build()
    x = vectors(implementation.head_dim, dtype)
    y = run(implementation, x, POSITIONS)
    truth = naive_rope(declared(entry, implementation), x.double().numpy(), POSITIONS)
    score = truth.score(y.double().numpy(), dtype=dtype).max()
    assert score <= accuracy.budget(dtype)


@pytest.mark.parametrize(
    "entry", of_label("Llama", "GPT-J", "GPT-NeoX, a quarter of the head", "Cohere"), ids=label
)
def test_rows_of_positions_may_differ(entry):
    implementation = entry.build()
    x = vectors(implementation.head_dim, "float32")
    rows = np.stack([POSITIONS, POSITIONS[::-1] + 5])
    y = run(implementation, x, rows)
    for row in range(2):
        alone = run(implementation, x[row : row + 1], rows[row])
        assert torch.equal(y[row : row + 1], alone)


@pytest.mark.parametrize("entry", KNOWN, ids=label)
def test_a_fresh_instance_answers_the_same(entry):
    implementation = entry.build()
    if implementation.factory is None:
        assert implementation.surface in ("bias", "slopes", "bucket")  # functions without state
        return
    fresh = implementation.factory()
    assert fresh.name == implementation.name
    if implementation.surface == "apply":
        x = vectors(implementation.head_dim, "float32")
        assert torch.equal(run(fresh, x, POSITIONS), run(implementation, x, POSITIONS))


@pytest.mark.parametrize(
    "entry", of_label("Marian", "Whisper, encoder", "ScaledSinusoidalEmbedding"), ids=label
)
def test_sinusoidal(entry):
    implementation = entry.build()
    table = declared(entry, implementation)
    assert table.layout == "concat"
    half = table.dim // 2
    n = half if table.denominator == "dim" else half - 1
    angle = POSITIONS[:, None] * table.base ** (-np.arange(half) / n)
    value = table.scale * np.concatenate([np.sin(angle), np.cos(angle)], -1)
    turned = abs(table.scale) * np.concatenate([angle, angle], -1)
    rows = implementation(torch.from_numpy(POSITIONS)).numpy()
    assert rows.shape == (64, table.dim)
    truth = accuracy.Truth(value, abs(value), turned)
    assert truth.score(rows).max() <= accuracy.budget("float32")
    some = implementation(torch.from_numpy(POSITIONS[5:9])).numpy()
    assert np.array_equal(some, rows[5:9])


def exact_slopes(num_heads):
    power = 2 ** int(np.log2(num_heads))
    first = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
    return np.array(first + [2.0 ** (-4 * (2 * h + 1) / power) for h in range(num_heads - power)])


@pytest.mark.parametrize("entry", of_surface(", slopes"), ids=label)
@pytest.mark.parametrize("num_heads", [1, 8, 12])
def test_slopes(entry, num_heads):
    exact = exact_slopes(num_heads)
    truth = accuracy.Truth(exact, exact, np.zeros_like(exact))
    score = truth.score(entry.build()(num_heads).numpy())
    assert score.max() <= accuracy.budget("float32")


@pytest.mark.parametrize("entry", of_label("AlibiPositionalBias", "BLOOM, bias"), ids=label)
def test_alibi_bias(entry):
    implementation = entry.build()
    q_len, k_len = 5, 9
    bias = np.broadcast_to(implementation(q_len, k_len).numpy(), (12, q_len, k_len)).astype(float)
    query = np.arange(k_len - q_len, k_len)[:, None]
    key = np.arange(k_len)[None]
    seen = key <= query
    terms = exact_slopes(12)[:, None, None] * np.ones((q_len, k_len))
    exact = -terms * (query - key)
    bias = bias - bias[:, np.arange(q_len), query[:, 0]][..., None]  # up to a constant per row
    truth = accuracy.Truth(exact, 2 * k_len * terms, np.zeros_like(terms))
    assert truth.score(bias, dtype="float32")[:, seen].max() <= accuracy.budget("float32")


def naive_bucket(r, bidirectional, buckets=32, max_distance=128):
    """T5's formula, in exact integers: log(n/me)/log(M/me)*(nb-me) >= t as a product."""
    later = buckets // 2 if bidirectional else 0
    nb = later or buckets
    n = abs(r) if bidirectional else max(-r, 0)
    me, extra = nb // 2, later if r > 0 else 0
    if n < me:
        return n + extra
    t = 0
    while t < nb - me - 1 and n ** (nb - me) * me ** (t + 1) >= max_distance ** (t + 1) * me ** (
        nb - me
    ):
        t += 1
    return me + t + extra


@pytest.mark.parametrize("entry", of_surface("buckets"), ids=label)
def test_buckets(entry):
    implementation = entry.build()
    r = np.arange(-300, 301)
    expected = [naive_bucket(int(v), implementation.encoding.bidirectional) for v in r]
    assert implementation(torch.from_numpy(r)).tolist() == expected


@pytest.mark.parametrize("entry", of_label("T5 encoder, bias", "RelativePositionBias"), ids=label)
def test_t5_bias(entry):
    implementation = entry.build()
    bias = implementation(5, 9).detach().numpy()
    table = np.asarray(implementation.encoding.table)
    for i in range(5):
        for j in range(9):
            row = table[naive_bucket(j - (4 + i), implementation.encoding.bidirectional)]
            assert np.array_equal(bias[:, i, j], row)


def test_an_offset_is_no_position():
    pytest.importorskip("rotary_embedding_torch", reason="rotary_embedding_torch is what is judged")
    implementation = rotary_embedding_torch.rotary()
    x = vectors(64, "float32")
    for refused in (
        POSITIONS[::-1],
        POSITIONS + 0.5,
        POSITIONS - 1,
        np.stack([POSITIONS, POSITIONS + 1]),
    ):
        with pytest.raises(ValueError, match="takes an offset"):
            run(implementation, x, refused.copy())
    assert torch.equal(
        run(implementation, x, np.stack([POSITIONS, POSITIONS])), run(implementation, x, POSITIONS)
    )


def test_positions_in_bfloat16_are_not_hidden():
    """rotary-embedding-torch builds positions in the queries' dtype: 257 becomes 256."""
    pytest.importorskip("rotary_embedding_torch", reason="rotary_embedding_torch is what is judged")
    implementation = rotary_embedding_torch.rotary()
    x = torch.ones(1, 1, 300, 64, dtype=torch.bfloat16)
    y = run(implementation, x, np.arange(300)).double().numpy()[0, 0]
    truth = naive_rope(
        posenc_ref.RoPE(64, layout="interleaved"), np.ones((300, 64)), np.arange(300)
    )
    score = truth.score(y, dtype="bfloat16").max(-1)
    assert score[:257].max() <= accuracy.budget("bfloat16")
    assert score[257] > accuracy.budget("bfloat16")
    assert np.array_equal(y[257], y[256])


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(library.LIBRARIES, "no-such-library", "no-such-library>=1")
    assert library.missing()["no-such-library"] == "no-such-library>=1"


def test_declared_encodings_are_values():
    for entry in KNOWN:
        assert isinstance(declared(entry, entry.build()), posenc_ref.Encoding)
