"""Time tables and relative biases of posenc_ref and other libraries on a CPU.

    python benchmarks/tables.py                       # a few minutes and 5 GiB
    python benchmarks/tables.py --scale 0.1           # smaller
    OMP_NUM_THREADS=2 python benchmarks/tables.py     # ours and T5 of transformers on two threads

The limit is writing the result once (``fill``), into an existing or a new array.  Errors are
absolute, at the last 32 positions.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from functools import partial

import numpy as np
from timing import (
    Candidate,
    arguments,
    environment,
    heading,
    measure,
    needed,
    publish,
    record,
    table,
)
from ways import THREADS, by, fill, fill_fresh, with_numba

import posenc_ref as pr
from posenc_ref.backends import fused, toeplitz_view

PACKAGES = ("numpy", "numba", "torch", "transformers", "x-transformers")


def both_ways(there, fresh=None):
    """Return candidates with Numba, if it serves these calls, and with NumPy only."""
    calls = {"out=": there, "fresh": fresh}
    found = []
    for name, numba in (("ours with Numba", True), ("ours NumPy alone", False)):
        for kind, call in calls.items():
            if call and (not numba or with_numba(lambda c=call: c(explain=True)[1])):
                found.append(Candidate(f"{name}, {kind}", by(numba, call)))
    return found


def error_of(encoding, rows, positions):
    true = encoding.table(positions)
    return float(np.abs(np.asarray(rows)[-32:].astype(np.float64) - true[-32:]).max())


def sinusoidal(length, dim):
    """PE [length, dim] in float32."""
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions

    encoding = pr.Sinusoidal(dim, layout="concat")
    fast, out = fused(encoding), np.empty((length, dim), np.float32)
    at = np.arange(length)
    w32 = encoding.frequencies().astype(np.float32)
    w64 = encoding.frequencies()

    def textbook(w, kind):
        angles = np.arange(length, dtype=kind)[:, None] * w
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32)

    found = [
        Candidate("limit: fill", lambda: fill(out)),
        Candidate("limit: fresh fill", lambda: fill_fresh(out)),
        *both_ways(partial(fast, at, out=out), partial(fast, at, dtype=np.float32)),
        Candidate("NumPy, float64 angles", lambda: textbook(w64, np.float64)),
        Candidate("NumPy, float32 angles", lambda: textbook(w32, np.float32)),
        Candidate(
            "transformers GPT-J, float32 angles",
            lambda: create_sinusoidal_positions(length, dim).numpy(),
        ),
    ]
    for c in found[2:]:
        rows = c.call()
        c.error = error_of(encoding, rows, at[-32:])
    return found


def rotary(length, dim):
    """cos and sin [length, dim/2], float32."""
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    encoding = pr.RoPE(dim, layout="half")
    at = np.arange(length)
    fast = fused(encoding)
    cos, sin = (np.empty((length, dim // 2), np.float32) for _ in range(2))
    values = at.astype(np.float64)
    w = encoding.frequencies()
    config = LlamaConfig(hidden_size=dim, num_attention_heads=1, max_position_embeddings=length)
    module, x, ids = LlamaRotaryEmbedding(config), torch.zeros(1), torch.arange(length)[None]

    def textbook():
        angles = values[:, None] * w
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    found = [
        Candidate("limit: fill", lambda: fill(cos, sin)),
        Candidate("limit: fresh fill", lambda: fill_fresh(cos, sin)),
        *both_ways(
            partial(fast.cos_sin, at, out=(cos, sin)), partial(fast.cos_sin, at, dtype=np.float32)
        ),
        Candidate("NumPy, float64 angles", textbook),
        Candidate(
            "transformers Llama, float32 angles (twice as wide)",
            lambda: tuple(t[0].numpy()[:, : dim // 2] for t in module(x, ids)),
        ),
    ]
    true = encoding.cos_sin(at[-32:])
    for c in found[2:]:
        rows = c.call()
        c.error = max(
            float(np.abs(a[-32:].astype(np.float64) - b).max())
            for a, b in zip(rows, true, strict=True)
        )
    return found


def alibi(heads, length):
    """ALiBi [heads, length, length], float32."""
    import torch
    from x_transformers.x_transformers import AlibiPositionalBias

    encoding = pr.ALiBi(heads)
    fast, out = fused(encoding), np.empty((heads, length, length), np.float32)
    peer = AlibiPositionalBias(heads)
    slopes = encoding.slopes().astype(np.float32)[:, None, None]

    def textbook():
        at = np.arange(length, dtype=np.float32)
        return -slopes * np.abs(at[None, :] - at[:, None])

    with torch.no_grad():
        return [
            Candidate("limit: fill", lambda: fill(out)),
            Candidate("ours, a view", lambda: fast(length, length, dtype=np.float32)),
            *both_ways(partial(fast, length, length, out=out)),
            Candidate("NumPy, |j - i| times slopes", textbook),
            Candidate("x-transformers", lambda: _fresh(peer, length)),
        ]


def _fresh(module, length):
    module.bias = None  # it caches its result
    return module(length, length)


def t5(length):
    """T5 [8, length, length], float32."""
    import torch
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    module = T5Attention(T5Config(num_heads=8), has_relative_attention_bias=True)
    encoding = pr.T5Bias(module.relative_attention_bias.weight.numpy().copy())
    fast, out = fused(encoding), np.empty((8, length, length), np.float32)
    peer = module.compute_bias(length, length)[0].numpy()
    same = np.array_equal(fast(length, length, dtype=np.float32), peer)
    print(f"T5: equal to transformers bit for bit: {same}", file=sys.stderr)
    return [
        Candidate("limit: fill", lambda: fill(out)),
        Candidate("ours, a view", lambda: fast(length, length, dtype=np.float32)),
        *both_ways(partial(fast, length, length, out=out)),
        Candidate("transformers", lambda: module.compute_bias(length, length)),
    ]


def swin(side, heads=32):
    """Swin [heads, side**2, side**2], float32."""
    import torch

    rows = (2 * side - 1) ** 2
    learned = np.random.default_rng(0).standard_normal((rows, heads)).astype(np.float32)
    encoding, n = pr.SwinBias(learned, window=(side, side)), side**2
    fast, out = fused(encoding), np.empty((heads, n, n), np.float32)
    weights, index = torch.from_numpy(learned), torch.from_numpy(pr.relative_index(side).ravel())

    def theirs():  # as Swin's code and transformers do in each call
        return weights[index].view(n, n, -1).permute(2, 0, 1).contiguous()

    same = np.array_equal(fast(n, n, dtype=np.float32), theirs().numpy())
    print(f"Swin: equal to its code bit for bit: {same}", file=sys.stderr)
    return [
        Candidate("limit: fill", lambda: fill(out)),
        Candidate("limit: fresh fill", lambda: fill_fresh(out)),
        *both_ways(partial(fast, n, n, out=out), partial(fast, n, n, dtype=np.float32)),
        Candidate("Swin's code, by torch", theirs),
    ]


def deberta(length):
    """DeBERTa-v2's buckets [length, length] of query minus key, int64."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

    some = np.zeros((1, 512, 2), np.float32)
    encoding = pr.DeBERTa(some, some, buckets=256, max_position=512)
    out, like = np.empty((length, length), np.int64), np.empty((1, length, 1), np.float32)

    def view(out=None):
        row = encoding.bucket(np.arange(length - 1, -length, -1))
        return toeplitz_view(row, length, length, out=out)

    import torch

    token = torch.from_numpy(like)

    def theirs():
        return build_relative_position(token, token, 256, 512)

    held = np.clip(theirs()[0].numpy(), -256, 256)  # as DeBERTa does for the lookup
    same = np.array_equal(view(), held)
    print(f"DeBERTa-v2: equal to transformers: {same}", file=sys.stderr)
    return [
        Candidate("limit: fill", lambda: fill(out)),
        Candidate("ours, a view", view),
        Candidate("ours, out=", lambda: view(out)),
        Candidate("transformers", theirs),
    ]


def main():
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers in each result")
    options = parser.parse_args()
    needed("torch", "transformers", "x_transformers")
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def scaled(n, axes=1, least=64):
        return max(least, round(n * options.scale ** (1 / axes)))

    t5_length = scaled(2048, 2, least=1024)  # for less, Numba leaves the bias to NumPy

    jobs = {
        f"sinusoidal [{scaled(131072)}, 1024]": lambda: sinusoidal(scaled(131072), 1024),
        f"rotary cos and sin [{scaled(2**20)}, 64] x 2": lambda: rotary(scaled(2**20), 128),
        f"ALiBi [32, {scaled(4096, 2)}, {scaled(4096, 2)}]": lambda: alibi(32, scaled(4096, 2)),
        f"T5 [8, {t5_length}, {t5_length}]": lambda: t5(t5_length),
        "Swin [32, 576, 576]": lambda: swin(24),
        "DeBERTa buckets [2048, 2048]": lambda: deberta(2048),
    }
    facts = environment(*PACKAGES)
    parts = [heading(facts), ""]
    data = {"environment": facts}
    for title, job in jobs.items():
        print(f"{title} ...", file=sys.stderr)
        found = job()
        if THREADS > 1:  # the others take one thread all the same, or seconds
            found = [c for c in found if c.name.startswith(("limit", "ours")) or "T5" in title]
        found = measure(found, options.rounds, warm=1)
        parts += [f"### {title}", "", table(found, ["limit: fill"]), ""]
        data[title] = record(found)
    publish(options, parts, data)


if __name__ == "__main__":
    main()
