"""DeBERTa: terms one by one in 50 digits, buckets by a logarithm, logits of the real modules."""

import numpy as np
import pytest

from posenc_ref import DeBERTa, from_dict, scores
from posenc_ref.accuracy import budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

from .naive import K_AT, Q_AT, B, D, H, K, Q, check_terms, dot, k, numbers, q, worst_logits

mp = mpmath().mp
SPAN = 8
RNG = np.random.default_rng(108)
KEYS, QUERIES = numbers(RNG, H, 2 * SPAN, D), numbers(RNG, H, 2 * SPAN, D)
CONFIGS = [(256, 512), (128, 512), (64, 512), (32, 128), (8, 512), (5, 40)]


def bucketed(buckets, max_position):
    table = np.zeros((1, 2 * buckets, 2), np.float32)
    return DeBERTa(table, table, buckets=buckets, max_position=max_position)


def exact_log_bucket(r, buckets, max_position):
    """The authors' formula in 50 digits; ties are those of a logarithm that is an integer."""
    mid = buckets // 2
    if abs(r) <= mid:
        return r
    with mp.workdps(DIGITS):
        x = mp.log(mp.mpf(abs(r)) / mid) / mp.log(mp.mpf(max_position - 1) / mid) * (mid - 1)
        near = mp.nint(x)
        x = near if abs(x - near) < mp.mpf(10) ** (10 - DIGITS) else x
        return int(np.sign(r)) * (mid + int(mp.ceil(x)))


@pytest.mark.parametrize("config", CONFIGS)
def test_buckets_by_a_50_digit_logarithm(config):
    r = np.arange(-1500, 1501)
    want = np.clip([exact_log_bucket(int(n), *config) for n in r], -config[0], config[0])
    found = bucketed(*config).bucket(r)
    assert (found == want).all(), r[found != want]
    assert (found == -found[::-1]).all()
    assert (np.diff(found) >= 0).all()


def test_buckets_of_the_real_code():
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    r = torch.arange(-511, 512)
    for config in CONFIGS[:4]:
        theirs = make_log_bucket_position(r, *config).numpy()
        held = np.clip(theirs, -config[0], config[0])  # as the rows are, afterwards
        assert (bucketed(*config).bucket(r.numpy()) == held).all()


def row(i, j, config=None):
    r = int(Q_AT[i]) - int(K_AT[j])
    r = r if config is None else exact_log_bucket(r, *config)
    return min(max(r + SPAN, 0), 2 * SPAN - 1)


@pytest.mark.parametrize("config", [None, (SPAN, 30)])
def test_terms_against_a_double_loop(config):
    extra = {} if config is None else {"buckets": config[0], "max_position": config[1]}
    content = {"content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j])}
    c2p = {"content-position": lambda b, h, i, j: dot(q[b, h, i], KEYS[h, row(i, j, config)])}
    p2c = {"position-content": lambda b, h, i, j: dot(k[b, h, j], QUERIES[h, row(i, j, config)])}
    mp_scale = lambda terms: 1 / mp.sqrt(D * (1 + terms))  # noqa: E731
    with mp.workdps(DIGITS):
        check_terms(DeBERTa(KEYS, QUERIES, **extra), content | c2p | p2c, mp_scale(2))
        check_terms(DeBERTa(KEYS, None, **extra), content | c2p, mp_scale(1))
        check_terms(DeBERTa(None, QUERIES, **extra), content | p2c, mp_scale(1))


def test_the_paper_mirrors_position_to_content():
    def mirrored(b, h, i, j):
        r = int(K_AT[j]) - int(Q_AT[i])
        return dot(k[b, h, j], QUERIES[h, min(max(r + SPAN, 0), 2 * SPAN - 1)])

    with mp.workdps(DIGITS):
        check_terms(
            DeBERTa(None, QUERIES, p2c="paper"),
            {
                "content-content": lambda b, h, i, j: dot(q[b, h, i], k[b, h, j]),
                "position-content": mirrored,
            },
            1 / mp.sqrt(2 * D),
        )


def v1(span=16):
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    from transformers.models.deberta.configuration_deberta import DebertaConfig
    from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention

    from .attention import filled, heads, softmax_inputs, tokens

    config = DebertaConfig(
        hidden_size=24,
        num_attention_heads=3,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        max_relative_positions=span,
    )
    module = filled(DisentangledSelfAttention(config))
    x, rel, n = tokens(2, 21, 24), tokens(2 * span, 24, seed=2), 21
    r = torch.arange(n)[:, None] - torch.arange(n)
    with softmax_inputs() as seen:
        module(x, torch.ones(1, 1, n, n), relative_pos=r[None], rel_embeddings=rel)
    q_, k_, _ = module.transpose_for_scores(module.in_proj(x)).chunk(3, dim=-1)
    q_ = q_ + module.transpose_for_scores(module.q_bias[None, None, :])
    keys, queries = (heads(p(rel)[None], 3)[0] for p in (module.pos_proj, module.pos_q_proj))
    return DeBERTa(keys, queries), q_.detach().numpy(), k_.detach().numpy(), seen[0]


def v2(share):
    pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    from transformers.models.deberta_v2.configuration_deberta_v2 import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    from .attention import filled, heads, softmax_inputs, tokens

    config = DebertaV2Config(
        hidden_size=24,
        num_attention_heads=3,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        max_relative_positions=40,
        position_buckets=16,
        share_att_key=share,
    )
    import torch

    module = filled(DisentangledSelfAttention(config))
    n = 45
    x, rel = tokens(2, n, 24), tokens(32, 24, seed=2)
    with softmax_inputs() as seen:
        module(x, torch.ones(1, 1, n, n), rel_embeddings=rel)
    names = ("key_proj", "query_proj") if share else ("pos_key_proj", "pos_query_proj")
    keys, queries = (heads(getattr(module, name)(rel)[None], 3)[0] for name in names)
    q_, k_ = (heads(p(x), 3) for p in (module.query_proj, module.key_proj))
    return DeBERTa(keys, queries, buckets=16, max_position=40), q_, k_, seen[0]


@pytest.mark.parametrize("made", [v1, lambda: v2(True), lambda: v2(False)], ids=["v1", "v2", "v3"])
def test_logits_of_the_real_module(made):
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    encoding, q_, k_, logits = made()
    # The modules divide by a square root taken in float32.
    assert worst_logits(encoding, q_, k_, logits, "float32") <= budget("float32")
    for other in (encoding.replace(p2c="paper"), encoding.replace(relative_queries=None)):
        assert worst_logits(other, q_, k_, logits, "float32") > budget("float32")


def test_values_and_shapes():
    encoding = DeBERTa(KEYS, QUERIES)
    assert from_dict(encoding.to_dict()) == encoding
    assert encoding.span == SPAN
    grouped = np.stack([q, 2 * q], axis=1), np.stack([k, k], axis=1)
    both = scores(encoding, *grouped, Q_AT, K_AT)
    assert both.shape == (B, 2, H, Q, K)
    assert (both[:, 0] == scores(encoding, q, k, Q_AT, K_AT)).all()
    batch = scores(encoding, np.concatenate([q, q]), np.concatenate([k, k]),
                   np.stack([Q_AT, Q_AT + 3]), np.stack([K_AT, K_AT + 3]))  # fmt: skip
    assert (batch[0] == batch[1]).all()
    assert (batch[:1] == scores(encoding, q, k, Q_AT, K_AT)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeBERTa(None, None), "relative_keys or relative_queries must be given"),
        (lambda: DeBERTa(KEYS[:, :7], None), "even number of rows .*, got 7"),
        (lambda: DeBERTa(KEYS, QUERIES[:, :8]), r"relative_queries must have shape \(2, 16, 6\)"),
        (lambda: DeBERTa(KEYS, None, buckets=8), "buckets and max_position must both be given"),
        (
            lambda: DeBERTa(KEYS, None, buckets=6, max_position=30),
            "must be 8, half of the rows, got 6",
        ),
        (lambda: DeBERTa(KEYS, None, p2c="codes"), "did you mean 'code'"),
        (lambda: DeBERTa(KEYS, None).terms(q[..., :4], k, Q_AT, K_AT), r"H = 2 heads and d = 6"),
        (lambda: DeBERTa(KEYS, None).terms(q, k, K_AT, K_AT), "row of q and k, 4 and 5"),
        (lambda: DeBERTa(KEYS, None).terms(q[0], k[0], Q_AT[None], K_AT[None]), r"\(B, \.\.\., H"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    with pytest.raises(TypeError, match="relative_keys must be a real floating array"):
        DeBERTa(KEYS.astype(np.int64), None)
    with pytest.raises(TypeError, match="q_positions must be integers"):
        DeBERTa(KEYS, None).terms(q, k, Q_AT + 0.5, K_AT)
