"""Biases inside flex_attention: the right logits and gradients, and no array of Q times K."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import Truth, budget
from posenc_ref.backends import score_mod

torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
flex = pytest.importorskip(
    "torch.nn.attention.flex_attention", reason="flex_attention is what runs the functions"
)
# Without torch.compile it materialises the scores and warns about that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore:.*torch.jit"),
    # The compiler reads .grad of every tensor; torch warns once per process if one is no leaf.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]
RNG = np.random.default_rng(14)
H, DIM = 3, 16


def numbers(rng, *shape):
    return rng.standard_normal(shape)


def network(rng, inputs, width=5):
    return numbers(rng, width, inputs), numbers(rng, width), numbers(rng, H, width)


BIASES = {
    "ALiBi": pr.ALiBi(H),
    "ALiBi inside the scale": pr.ALiBi(H, causal=False, bias_inside_scale=True),
    "T5": pr.T5Bias(numbers(RNG, 32, H)),
    "T5 decoder": pr.T5Bias(numbers(RNG, 16, H), num_buckets=16, bidirectional=False),
    "LayoutLMv3": pr.T5Bias(numbers(RNG, 32, H), scaled=True, bias_inside_scale=True),
    "Kerple log": pr.Kerple([0.5, 1.0, 2.0], [0.1, 1.0, 3.0]),
    "Kerple power": pr.Kerple([0.5, 1.0, 2.0], [0.1, 1.0, 2.0], form="power"),
    "FIRE": pr.FIRE(*network(RNG, 1), length=40.0),
    "FIRE with a bias": pr.FIRE(*network(RNG, 1), numbers(RNG, H), c=0.5),
    "Sandwich": pr.Sandwich(H, 16),
}
WINDOWS = {
    "Swin": pr.SwinBias(numbers(RNG, 5 * 7, H), window=(3, 4)),
    "BEiT": pr.BEiTBias(numbers(RNG, 5 * 7 + 3, H), window=(3, 4)),
    "LeViT": pr.LeViTBias(numbers(RNG, 12, H), window=(3, 4)),
    "Swin v2": pr.LogCPB(*network(RNG, 2), window=(3, 4)),
}
ALL = {**BIASES, **WINDOWS}


def queries(rng, length, dtype="float32", dim=DIM):
    return torch.from_numpy(numbers(rng, 2, H, length, dim)).to(getattr(torch, dtype))


def keys_of(name, length):
    return length if name == "Sandwich" else None


def whole(mod, q_len, k_len, dtype):
    """Return what a score_mod adds to every head, query and key."""
    h, i, j = torch.meshgrid(*map(torch.arange, (H, q_len, k_len)), indexing="ij")
    score = torch.zeros(h.shape, dtype=getattr(torch, dtype))
    each = mod
    for _ in range(3):
        each = torch.func.vmap(each, in_dims=(0, None, 0, 0, 0))
    return each(score, torch.tensor(0), h, i, j).detach().numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ALL)
def test_score_mod_adds_the_bias(name, dtype, rng):
    encoding = ALL[name]
    sizes = [(12, 12), (5, 12)] if name in WINDOWS else [(7, 7), (1, 300), (40, 300), (9, 4)]
    for q_len, k_len in sizes:
        q = queries(rng, q_len, dtype)
        mod = score_mod(
            encoding, like=q, offset=k_len - q_len, k_len=keys_of(name, max(q_len, k_len))
        )
        assert mod.scale == encoding.own_scale(DIM)
        truth = encoding.truth(np.arange(k_len - q_len, k_len), np.arange(k_len))
        factor = mod.scale if encoding.bias_inside_scale else 1.0
        truth = Truth(truth.value * factor, truth.terms * factor, truth.angle * factor)
        got = whole(mod, q_len, k_len, dtype)
        assert truth.score(got, dtype=dtype).max() <= budget(dtype)


@pytest.mark.parametrize("name", ["ALiBi inside the scale", "T5", "Swin v2"])
def test_logits_through_flex_attention(name, rng):
    """With one unmasked key per query, the log-sum-exp is the logit of that key."""
    encoding, (q_len, k_len) = ALL[name], (5, 12)
    q, k = queries(rng, q_len), queries(rng, k_len)
    offset = k_len - q_len
    at = np.arange(offset, k_len), np.arange(k_len)
    mod = score_mod(encoding, like=q, offset=offset)
    logits = np.empty((2, H, q_len, k_len), np.float32)
    ahead = torch.tensor(0)  # a tensor, so that nothing is traced again
    mask = flex.create_block_mask(
        lambda b, h, i, j: j == (i + ahead) % k_len, None, None, q_len, k_len, device="cpu"
    )
    for t in range(k_len):
        ahead.fill_(t)
        aux = flex.flex_attention(
            q, k, k, score_mod=mod, scale=mod.scale, block_mask=mask,
            return_aux=flex.AuxRequest(lse=True),
        )[1]  # fmt: skip
        rows = np.arange(q_len)
        logits[..., rows, (rows + t) % k_len] = aux.lse.numpy()
    wide = [t.double().numpy() for t in (q, k)]
    value = pr.scores(encoding, *wide, *at)
    product = np.abs(wide[0]) @ np.abs(wide[1]).swapaxes(-1, -2)
    bias = encoding.truth(*at).terms * (mod.scale if encoding.bias_inside_scale else 1.0)
    truth = Truth(value, mod.scale * product + bias, np.zeros(()))
    assert truth.score(logits).max() <= budget("float32")


def materialised(encoding, q, k, v, at, scale):
    """Return causal attention with the full bias, differentiable in its learned arrays."""
    bias = torch.as_tensor(encoding.bias(*at))
    logits = q @ k.mT * scale
    logits = logits + bias * (scale if encoding.bias_inside_scale else 1.0)
    future = torch.as_tensor(at[1][None, :] > at[0][:, None])
    return logits.masked_fill(future, -torch.inf).softmax(-1) @ v


LEARNED = {
    "LayoutLMv3": ("table",),
    "Swin": ("table",),
    "BEiT": ("table",),
    "FIRE": ("hidden", "hidden_bias", "output"),
    "Swin v2": ("hidden", "hidden_bias", "output"),
}


@pytest.mark.parametrize("name", [*LEARNED, "ALiBi", "Kerple log", "Sandwich"])
def test_attention_and_its_gradients(name, rng):
    """Both equal those with the full bias, causal and with queries at the end of the keys."""
    q_len, k_len = 5, 12
    at = np.arange(k_len - q_len, k_len), np.arange(k_len)
    learned = {
        n: torch.from_numpy(np.asarray(getattr(ALL[name], n))).requires_grad_()
        for n in LEARNED.get(name, ())
    }
    encoding = ALL[name].replace(**learned)
    q, k, v = (queries(rng, n, "float64") for n in (q_len, k_len, k_len))
    mod = score_mod(encoding, like=q, offset=k_len - q_len, k_len=keys_of(name, k_len))
    mask = flex.create_block_mask(
        lambda b, h, i, j: j <= i + (k_len - q_len), None, None, q_len, k_len, device="cpu"
    )
    got = flex.flex_attention(q, k, v, score_mod=mod, scale=mod.scale, block_mask=mask)
    want = materialised(encoding, q, k, v, at, mod.scale)
    pairs, weight = [(got, want)], torch.from_numpy(numbers(rng, *got.shape))
    if learned:  # on a CPU torch has gradients for these only, not for q, k and v
        loss = [(y * weight).sum() for y in (got, want)]
        grads = [torch.autograd.grad(one, list(learned.values())) for one in loss]
        assert all(grad.abs().max() > 0 for grad in grads[1])
        pairs += zip(*grads, strict=True)
    for one, other in pairs:
        one, other = one.detach().numpy(), other.detach().numpy()
        size = np.full(other.shape, (weight.abs().sum() * v.abs().max()).item())
        assert Truth(other, size, np.zeros(())).score(one).max() <= budget("float64")


@pytest.mark.nightly
def test_layers_with_different_constants(rng):
    """Layers may differ in their constants and sizes."""
    fires = [pr.FIRE(*network(rng, 1, w), c=0.1 * w, length=10.0 * w, eps=1e-6 * w) for w in (3, 4)]
    windows = [pr.SwinBias(numbers(rng, (2 * n - 1) ** 2, H), window=(n, n)) for n in (2, 3)]
    inside = [pr.ALiBi(H, max_bias=m, bias_inside_scale=True) for m in (4.0, 7.0)]
    for n, encoding in enumerate(fires + windows + inside):
        size = encoding.tokens if encoding in windows else 5 + n
        q = queries(rng, size, "float64", DIM + n)
        mod = score_mod(encoding, like=q)
        got = flex.flex_attention(q, q, q, score_mod=mod, scale=mod.scale)
        bias = torch.as_tensor(encoding.bias(range(size), range(size)))
        if encoding.bias_inside_scale:
            bias = bias * mod.scale
        want = ((q @ q.mT * mod.scale + bias).softmax(-1) @ q).numpy()
        truth = Truth(want, np.full(want.shape, q.abs().max().item()), np.zeros(()))
        assert truth.score(got.numpy()).max() <= budget("float64")


def kept(mod):
    """Return every tensor that a score_mod holds."""
    cells = mod._element.__closure__ or ()
    found = [cell.cell_contents for cell in cells] + list(vars(mod).values())
    return [t for t in found if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("name", ALL)
def test_stored_tensors_do_not_grow_with_the_scores(name, rng):
    sizes = []
    for length in (2**9, 2**12):
        mod = score_mod(ALL[name], like=queries(rng, 1), k_len=keys_of(name, length))
        sizes.append(sum(t.numel() for t in kept(mod)))
        assert sizes[-1] <= (2 * H * length if name == "Sandwich" else 1000)
    assert sizes[0] == sizes[1] or name == "Sandwich"


@pytest.mark.nightly
def test_compiled_while_decoding(rng):
    """One graph serves every step, without an allocation of the size of the scores."""
    torch._dynamo.reset()
    encoding, q_len, k_len = pr.T5Bias(torch.from_numpy(numbers(rng, 32, H)).float()), 512, 2048
    k = queries(rng, k_len)
    run = torch.compile(flex.flex_attention, fullgraph=True)
    with torch.no_grad():
        q = queries(rng, q_len)
        mod = score_mod(encoding, like=q, offset=k_len - q_len)
        run(q, k, k, score_mod=mod, scale=mod.scale)
        for step in (700, 1001):
            mod.offset.fill_(step)
            with (
                torch._dynamo.config.patch(error_on_recompile=True),
                torch.profiler.profile(profile_memory=True) as trace,
            ):
                got = run(q, k, k, score_mod=mod, scale=mod.scale).numpy()
            largest = max(event.self_cpu_memory_usage for event in trace.events())
            assert 0 < largest <= 2 * got.nbytes
            assert largest < 4 * 2 * H * q_len * k_len // 10
            bias = torch.as_tensor(encoding.bias(np.arange(step, step + q_len), np.arange(k_len)))
            want = ((q @ k.mT + bias).double().softmax(-1) @ k.double()).numpy()
            size = np.full(want.shape, k.abs().max().item())
            assert Truth(want, size, np.zeros(())).score(got).max() <= budget("float32")


def test_the_bias_is_nan_outside_the_window_or_table(rng):
    q = queries(rng, 3)
    swin = whole(score_mod(WINDOWS["Swin"], like=q, offset=-1), 3, 14, "float32")
    assert np.isnan(swin[:, 0]).all()
    assert np.isnan(swin[:, 1:, 12:]).all()
    assert np.isfinite(swin[:, 1:, :12]).all()
    sandwich = whole(score_mod(BIASES["Sandwich"], like=q, k_len=4), 3, 6, "float32")
    far = np.abs(np.arange(6)[None, :] - np.arange(3)[:, None]) > 3
    assert (np.isnan(sandwich) == far).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda q: score_mod(pr.RoPE(8, layout="half"), like=q), TypeError, "got RoPE"),
        (lambda q: score_mod(pr.ALiBi(H), like=np.ones((H, 2, 4))), TypeError, "torch tensor"),
        (lambda q: score_mod(pr.ALiBi(4), like=q), ValueError, "H = 4 heads"),
        (lambda q: score_mod(pr.ALiBi(H), like=q[0, 0]), ValueError, "like must have shape"),
        (lambda q: score_mod(pr.Sandwich(H), like=q), ValueError, "k_len must be given"),
        (lambda q: score_mod(pr.ALiBi(H), like=q, offset=1.0), TypeError, "offset must be"),
        (lambda q: score_mod(pr.ALiBi(H), like=q, offset=torch.ones(2)), ValueError, "without"),
        (lambda q: score_mod(BIASES["T5"].replace(table=torch.ones(32, H, device="meta")), like=q),
         ValueError, "on meta"),
    ],
)  # fmt: skip
def test_refused_arguments(call, error, message, rng):
    with pytest.raises(error, match=message):
        call(queries(rng, 2))
