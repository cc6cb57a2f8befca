"""PyTorch: gradients, views, transforms, and devices without memory."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Learned, LinearScaling, RoPE, Sinusoidal, T5Bias, scores
from posenc_ref.accuracy import Truth, budget

torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")

ROPE = RoPE(8, layout="half", rotary_dim=6, scaling=LinearScaling(2))
P = np.array([0, 3, 11, 4097])


def random(*shape, **kwargs):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, **kwargs)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_of_every_method(layout, sign):
    rope = ROPE.replace(layout=layout, sign=sign)
    x = random(2, 4, 8).requires_grad_()
    for call in (rope.apply, rope.inverse, rope.shift, Sinusoidal(8).add):
        assert torch.autograd.gradcheck(lambda x, call=call: call(x, P), (x,))


def test_gradients_of_scores_and_tables():
    x = random(2, 4, 8).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: scores(ROPE, x, x, P, P), (x,))
    q, table = random(3, 4, 8).requires_grad_(), random(32, 3).requires_grad_()
    biased = lambda q, t: scores(T5Bias(t), q, q, P, P)  # noqa: E731
    assert torch.autograd.gradcheck(biased, (q, table), fast_mode=True)
    assert torch.autograd.gradcheck(lambda q: scores(ALiBi(3), q, q, P, P), (q,))
    weight = random(10, 8).requires_grad_()
    near = [0, 3, 3, 9]
    assert torch.autograd.gradcheck(lambda w, x: Learned(w).add(x, near), (weight, x))


def test_the_gradient_is_the_inverse_rotation():
    x, dy = random(2, 3, 4, 8).requires_grad_(), random(2, 3, 4, 8)
    ROPE.apply(x, P).backward(dy)
    want = ROPE.inverse(dy, P)
    size = dy.abs().sum(dim=-1, keepdim=True).numpy()
    truth = Truth(want.numpy(), size, np.zeros(()), size)
    assert truth.score(x.grad.numpy(), angles="exact").max() <= budget("float64")


def test_requires_grad_follows_x_and_tables_never_require_it():
    assert ROPE.apply(random(4, 8).requires_grad_(), P).requires_grad
    assert not ROPE.apply(random(4, 8), P).requires_grad
    assert not ROPE.cos_sin(torch.tensor(P))[0].requires_grad
    with torch.no_grad():
        assert not ROPE.apply(random(4, 8).requires_grad_(), P).requires_grad
    with torch.inference_mode():
        assert ROPE.apply(random(4, 8), P).is_inference()


def test_views():
    x = random(2, 4, 3, 16)
    want = ROPE.apply(x[..., ::2].transpose(1, 2).contiguous(), P)
    assert torch.equal(ROPE.apply(x[..., ::2].transpose(1, 2), P), want)
    assert torch.equal(ROPE.apply(x[..., ::2].transpose(1, 2), torch.tensor(P)), want)
    one = random(1, 8).expand(4, 8)
    assert torch.equal(ROPE.apply(one, P), ROPE.apply(one.clone(), P))


def test_vmap_and_jvp():
    x = random(5, 3, 4, 8)
    want = ROPE.apply(x, P)
    assert torch.equal(torch.func.vmap(lambda x: ROPE.apply(x, P))(x), want)
    assert torch.equal(torch.func.vmap(lambda x: ROPE.apply(x, P), in_dims=1, out_dims=1)(x), want)
    y, dy = torch.func.jvp(lambda x: ROPE.apply(x, P), (x,), (x,))
    assert torch.equal(y, want)
    assert torch.equal(dy, want)  # linear in x


def test_meta_tensors_have_a_shape_and_no_values():
    x = torch.empty(2, 3, 4, 8, device="meta", dtype=torch.bfloat16)
    for y in (ROPE.apply(x, P), Sinusoidal(8).add(x, P), scores(ROPE, x, x, P, P)):
        assert y.device.type == "meta"
        assert y.dtype is torch.bfloat16
    assert scores(ROPE, x, x, P, P).shape == (2, 3, 4, 4)


def test_subclasses_and_parameters():
    parameter = torch.nn.Parameter(random(4, 8))
    assert torch.equal(ROPE.apply(parameter, P), ROPE.apply(parameter.data, P))


def test_integers_of_every_width_are_positions():
    x = random(4, 8)
    near = [0, 3, 11, 127]
    want = ROPE.apply(x, near)
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float32):
        assert torch.equal(ROPE.apply(x, torch.tensor(near, dtype=dtype)), want)
    far = torch.tensor([2**40, -(2**40), 2**33 + 1, 2**20])
    assert torch.equal(ROPE.apply(x, far), ROPE.apply(x, far.numpy()))


def test_positions_outside_the_domain_are_refused():
    with pytest.raises(ValueError, match=r"positions \+ offset must lie in 0 \.\. 9"):
        Learned(random(10, 8)).table(torch.tensor([3, 10]))
    with pytest.raises(ValueError, match="must be finite"):
        ROPE.apply(random(4, 8), torch.tensor([0.0, 1.0, float("nan"), 2.0]))
