"""Time rotary embeddings of posenc_ref and other libraries on one CPU thread, some on two.

    python benchmarks/rope.py                         # [1, 32, 4096, 128], a few minutes
    OMP_NUM_THREADS=2 python benchmarks/rope.py       # ours and transformers, all on two threads
    python benchmarks/rope.py --shape 1,8,512,64 --rounds 5 --markdown out.md --json out.json

Each row has the largest error against exact angles, over the first and the last 32 positions.
Candidates that can keep tables get them beforehand, as in attention layers.  Missing libraries are
named and left out; this installs all of them:

    python -m pip install -e ".[torch,jax,peers,runtimes,plots]" -c constraints-test.txt
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

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
    positive,
    publish,
    record,
    table,
)
from ways import CORES, SEVERAL, THREADS, by, copy, multiply, with_numba

import posenc_ref as pr
from posenc_ref.backends import fused

LAYOUTS = ("interleaved", "half")
PACKAGES = ("numpy", "numba", "torch", "transformers", "x-transformers", "rotary-embedding-torch",
            "onnxruntime", "mlx", "jax")  # fmt: skip


class Case:
    """x of one shape and dtype, its exact rotation, and the candidates."""

    def __init__(self, shape, dtype):
        import ml_dtypes

        self.shape, self.dtype = shape, dtype
        self.heads, self.length, self.dim = shape[1:]
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        self.x = x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        n = self.length
        self.rows = np.unique(np.r_[: min(32, n), max(0, n - 32) : n])
        self.encodings = {name: pr.RoPE(self.dim, layout=name) for name in LAYOUTS}
        some = self.x[:, :, self.rows].astype(np.float64)
        self.true = {name: e.apply(some, self.rows) for name, e in self.encodings.items()}
        self.candidates = []

    def add(self, name, call, layout=None, host=None):
        """Add a candidate; ``host`` converts its result to NumPy (B, H, S, D)."""
        made = Candidate(name, call)
        if layout is not None:
            got = np.asarray((host or np.asarray)(call())).astype(np.float64)
            made.error = float(np.abs(got[:, :, self.rows] - self.true[layout]).max())
        self.candidates.append(made)

    def tensor(self):
        """Return x as a torch tensor."""
        import torch

        if self.dtype == "bfloat16":
            return torch.from_numpy(self.x.astype(np.float32)).bfloat16()
        return torch.from_numpy(self.x.copy())


def limits(case):
    out = np.empty_like(case.x)
    case.add("limit: np.copyto", lambda: copy(case.x, out))
    if case.dtype == "float32":
        case.add("limit: one-pass multiply", lambda: multiply(case.x, out))
        if THREADS < SEVERAL <= CORES:
            name = f"limit: one-pass multiply, {SEVERAL} threads"
            case.add(name, lambda: multiply(case.x, out, SEVERAL))
        case.add("limit: fresh copy", lambda: copy(case.x, np.empty_like(case.x)))


def ours_numpy(case):
    out = np.empty_like(case.x)
    for layout, encoding in case.encodings.items():
        path = partial(fused(encoding), case.x, range(case.length), explain=True)
        ways = (False, True)[: 1 + with_numba(lambda p=path: p()[1])]
        for several in (THREADS, SEVERAL)[: 1 + (THREADS < SEVERAL <= CORES)]:
            ready = fused(encoding, threads=several).prepare(range(case.length), like=case.x)
            ending = "" if several == THREADS else f", {several} threads"
            for numba in ways:
                name = f"ours {'Numba' if numba else 'NumPy'} {layout}"
                there = by(numba, lambda r=ready: r(case.x, out=out))
                case.add(f"{name}, out={ending}", there, layout)
                if several == THREADS:
                    case.add(f"{name}, fresh", by(numba, lambda r=ready: r(case.x)), layout)


def ours_torch(case, compiled):
    import torch

    x = case.tensor()
    out = torch.empty_like(x)
    torch.set_grad_enabled(False)
    case.add("limit: torch fresh copy", lambda: x.clone())
    for layout, encoding in case.encodings.items():
        ready = fused(encoding).prepare(range(case.length), like=x)
        name = f"ours torch {layout}"
        case.add(f"{name}, out=", lambda r=ready: r(x, out=out), layout, _torch)
        case.add(f"{name}, fresh", lambda r=ready: r(x), layout, _torch)
        if compiled:
            whole = torch.compile(lambda x, r=ready: r(x), fullgraph=True)
            case.add(f"{name}, compiled", lambda w=whole: w(x), layout, _torch)
            case.add(f"{name}, compiled, and backward", _both(whole, x))


def _both(whole, x):
    """Return a call forward and backward; its gradient is a new tensor."""
    import torch

    some, upstream = x.clone().requires_grad_(), torch.ones_like(x)

    def run():
        with torch.enable_grad():
            return torch.autograd.grad(whole(some), some, upstream)

    return run


def transformers(case, compiled):
    import torch
    from transformers import LlamaConfig
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as turn_gptj
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
    from transformers.models.llama import modeling_llama

    x = case.tensor()
    config = LlamaConfig(
        hidden_size=case.heads * case.dim, num_attention_heads=case.heads,
        max_position_embeddings=case.length,
    )  # fmt: skip
    module = modeling_llama.LlamaRotaryEmbedding(config)
    cos, sin = module(x, torch.arange(case.length)[None])
    one = x[:, :1, :1]  # the function rotates q and k; this k is tiny

    def llama(x):
        return modeling_llama.apply_rotary_pos_emb(x, one, cos, sin)[0]

    case.add("transformers Llama (half), fresh", lambda: llama(x), "half", _torch)
    if compiled:
        whole = torch.compile(llama)
        case.add("transformers Llama (half), compiled", lambda: whole(x), "half", _torch)
        case.add("transformers Llama (half), compiled, and backward", _both(whole, x))
    table = create_sinusoidal_positions(case.length, case.dim)
    sine, cosine = table[None].to(x.dtype).chunk(2, dim=-1)
    swapped = x.transpose(1, 2).contiguous()  # GPT-J has (B, S, H, D)
    case.add(
        "transformers GPT-J (interleaved), fresh",
        lambda: turn_gptj(swapped, sine, cosine), "interleaved",
        lambda y: _torch(y.transpose(1, 2)),
    )  # fmt: skip


def x_transformers(case):
    import torch
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    x = case.tensor()
    freqs, _ = RotaryEmbedding(case.dim)(torch.arange(case.length))
    case.add(
        "x-transformers (interleaved), fresh",
        lambda: apply_rotary_pos_emb(x, freqs), "interleaved", _torch,
    )  # fmt: skip


def rotary_embedding_torch(case):
    import torch
    from rotary_embedding_torch import RotaryEmbedding

    x, module = case.tensor(), RotaryEmbedding(case.dim)
    module.requires_grad_(False)
    with torch.no_grad():
        case.add(
            "rotary-embedding-torch (interleaved), fresh",
            lambda: module.rotate_queries_or_keys(x), "interleaved", _torch,
        )  # fmt: skip


def onnxruntime(case):
    import onnxruntime as ort
    from onnx import TensorProto, helper

    for layout in LAYOUTS:
        kind = TensorProto.FLOAT
        node = helper.make_node(
            "RotaryEmbedding", ["x", "at", "cos", "sin"], ["y"], domain="com.microsoft",
            interleaved=int(layout == "interleaved"),
        )  # fmt: skip
        shape = list(case.shape)
        graph = helper.make_graph(
            [node], "rope",
            [helper.make_tensor_value_info("x", kind, shape),
             helper.make_tensor_value_info("at", TensorProto.INT64, [1, case.length]),
             helper.make_tensor_value_info("cos", kind, [case.length, case.dim // 2]),
             helper.make_tensor_value_info("sin", kind, [case.length, case.dim // 2])],
            [helper.make_tensor_value_info("y", kind, shape)],
        )  # fmt: skip
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
            ir_version=9,
        )
        options = ort.SessionOptions()
        options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        cos, sin = case.encodings[layout].cos_sin(np.arange(case.length), dtype=np.float32)
        feed = {"x": case.x, "at": np.arange(case.length)[None], "cos": cos, "sin": sin}
        case.add(
            f"onnxruntime ({layout}), fresh",
            lambda s=session, f=feed: s.run(None, f)[0], layout,
        )  # fmt: skip


def mlx(case):
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    x = mx.array(case.x)
    for layout in LAYOUTS:

        def call(traditional=layout == "interleaved"):
            y = mx.fast.rope(
                x, case.dim, traditional=traditional, base=10000.0, scale=1.0, offset=0
            )
            mx.eval(y)
            return y

        case.add(f"MLX fast.rope ({layout}), fresh", call, layout)


def jax(case):
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(case.x)
    plus = jax.jit(lambda x: x + 1)
    case.add("limit: JAX jitted x + 1", lambda: plus(x).block_until_ready())
    for layout, encoding in case.encodings.items():
        ready = fused(encoding).prepare(range(case.length), like=x)
        ours = jax.jit(lambda x, r=ready: r(x))
        case.add(f"ours JAX {layout}, jitted", lambda f=ours: f(x).block_until_ready(), layout)
    cos, sin = (
        jnp.asarray(t)
        for t in case.encodings["half"].cos_sin(np.arange(case.length), dtype="float32")
    )

    def concatenated(x):
        x1, x2 = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)

    turned = jax.jit(concatenated)
    case.add("JAX jitted halves, concatenated", lambda: turned(x).block_until_ready(), "half")


def _torch(y):
    return y.float().numpy()


def decode(rounds):
    """Time a prepared call for one token, [1, 32, 1, 128].

    Other libraries rotate it to position 0, which is the same work; their errors are not shown.
    """
    case = Case((1, 32, 1, 128), "float32")
    out = np.empty_like(case.x)
    case.add("limit: np.copyto", lambda: np.copyto(out, case.x))
    for layout, encoding in case.encodings.items():
        ready = fused(encoding).prepare(range(4096), like=case.x)
        case.add(f"ours NumPy {layout}, out=", lambda r=ready: r(case.x, 4000, out=out))
    transformers(case, False)
    for candidate in case.candidates:
        candidate.error = None
    return measure(case.candidates, rounds, least=0.02)


def run(shape, dtype, rounds, compiled):
    case = Case(shape, dtype)
    missing = []
    jobs = [limits, ours_numpy, lambda c: ours_torch(c, compiled),
            lambda c: transformers(c, compiled)]  # fmt: skip
    if dtype == "float32" and THREADS == 1:
        jobs += [x_transformers, rotary_embedding_torch, onnxruntime, mlx, jax]
    for job in jobs:
        try:
            job(case)
        except ImportError as error:
            missing.append(f"{error}")
    return measure(case.candidates, rounds), missing


def four(text):
    """Parse a shape (B, H, S, D)."""
    shape = tuple(map(positive, text.split(",")))
    if len(shape) != 4 or shape[-1] % 2:
        raise argparse.ArgumentTypeError(f"must be B,H,S,D with an even D, got {text!r}")
    return shape


def main():
    parser = arguments(__doc__, rounds=15)
    parser.add_argument("--shape", type=four, default="1,32,4096,128", help="B,H,S,D")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    needed("torch", "ml_dtypes")
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    shape = options.shape
    facts = environment(*PACKAGES)
    facts["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    parts = [heading(facts), ""]
    data = {"environment": facts, "shape": shape}
    for dtype in ("float32", "bfloat16"):
        print(f"{dtype} {list(shape)} ...", file=sys.stderr)
        found, missing = run(shape, dtype, options.rounds, not options.no_compile)
        names = {c.name for c in found}
        against = ["limit: one-pass multiply"] if dtype == "float32" else ["limit: np.copyto"]
        peers = ("transformers Llama (half), fresh", "limit: JAX jitted x + 1")
        against += [name for name in peers if name in names]
        parts += [f"### {dtype} {list(shape)}", "", table(found, against), ""]
        parts += [f"Left out: {text}" for text in missing]
        data[dtype] = record(found)
    if THREADS == 1:  # one token takes one thread
        print("decode ...", file=sys.stderr)
        found = decode(options.rounds)
        parts += ["### one token, float32 [1, 32, 1, 128]", "", table(found, [], unit="us"), ""]
        data["decode"] = record(found)
    publish(options, parts, data)


if __name__ == "__main__":
    main()
