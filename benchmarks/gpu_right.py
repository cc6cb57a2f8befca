"""Correctness checks on a GPU, which ``gpu_rope.py`` runs before it times anything."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.backends import cupy_device, fused
from posenc_ref.conformance import check

ROOT = Path(__file__).resolve().parents[1]
CUDA = "cuda"
DIM = 128
LAYOUTS = ("half", "interleaved")
DTYPES = ("float64", "float32", "float16", "bfloat16")
#: Roundings of the size of a pair, as in tests/backends/kernels/rotary_cases.py.
MOST = {"float32": 4, "float16": 1.01}
#: The number of first positions checked, how many at a time, and the end of the far ones.
FIRST, CHUNK, FAR = 2**20, 2**16, 2**38
#: More than 2**31 elements.
LARGE = (1, 33, 2**19 + 3, DIM)


def conformance(report):
    for backend in ("cupy", "torch"):
        for layout in LAYOUTS:
            for dtype in DTYPES:
                name = f"{backend} {layout} {dtype} conforms"
                if report.late(name):
                    continue
                encoding = pr.RoPE(64, layout=layout, rotary_dim=48, scaling=pr.YaRN(8.0, 512))
                fast = fused(encoding)
                device = CUDA if backend == "torch" else None
                options = {"backend": backend, "dtype": dtype, "device": device}
                result = check(lambda x, p, f=fast: f(x, p), encoding, "apply", **options)
                report.check(name, result.passed, result.verdict)


def bit_cases():
    """Return inputs for which the GPU and its model on the CPU must agree bit for bit."""
    import ml_dtypes

    generator = np.random.default_rng(1)
    at = generator.integers(-(2**30), 2**30, 33)
    for dtype in DTYPES:
        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        for layout in LAYOUTS:
            for dim, rotary in ((128, 128), (80, 20), (24, 6)):
                x = generator.standard_normal((2, 5, 33, dim))
                x[0, 0, 0, :3] = np.inf, 1e-40, -0.0
                encoding = pr.RoPE(dim, layout=layout, rotary_dim=rotary)
                with np.errstate(over="ignore"):
                    yield f"{dtype} {layout} {dim}/{rotary}", encoding, x.astype(kind), at


def model_bits(path):
    """Write the model's results for :func:`bit_cases`, in a process without CuPy."""
    sys.path.insert(0, str(ROOT))
    from tests.backends.kernels import rotary_model

    with tempfile.TemporaryDirectory() as folder:
        rotary_model.install(rotary_model.build(folder))
        found = {name: fused(e)(rotary_model.Array(x), at).host.view(np.uint8)
                 for name, e, x, at in bit_cases()}  # fmt: skip
    np.savez(path, **found)


def the_bits_of_the_model(report):
    import cupy

    script = Path(__file__).with_name("gpu_rope.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        subprocess.run([sys.executable, str(script), "--model-bits", str(path)], check=True)
        expected = dict(np.load(path))
    for name, encoding, x, at in bit_cases():
        got = cupy.asnumpy(fused(encoding)(cupy.asarray(x), at)).view(np.uint8)
        report.check(f"bits of the CPU model: {name}", np.array_equal(got, expected[name]))


def exact_at_every_position(report):
    """Compare cos and sin of the kernels with the specification."""
    import cupy
    import torch

    for layout in LAYOUTS:
        encoding = pr.RoPE(DIM, layout=layout)
        fast, (first, second) = fused(encoding), encoding.pairs()
        x = np.zeros((CHUNK, DIM), np.float32)
        x[:, first] = 1
        homes = {"CuPy": cupy.asarray(x), "torch": torch.from_numpy(x).to(CUDA)}
        worst = dict.fromkeys(homes, 0.0)
        for start in (*range(0, FIRST, CHUNK), FAR - CHUNK):
            true = np.concatenate(encoding.cos_sin(range(start, start + CHUNK)), axis=-1)
            truth = Truth(true, np.ones_like(true), np.zeros(()))
            for name, home in homes.items():
                got = fast(home, range(start, start + CHUNK))
                got = cupy.asnumpy(got) if name == "CuPy" else got.cpu().numpy()
                got = np.concatenate([got[:, first], got[:, second]], axis=-1)
                score = truth.score(got, dtype="float32").max()
                worst[name] = max(worst[name], float(score))
        for name, score in worst.items():
            what = f"{name} {layout}: every position below {FIRST}, and {CHUNK} below {FAR}"
            report.check(what, score <= MOST["float32"], f"{score:.2f} roundings")


def bounds_streams_and_graphs(report):
    import cupy

    encoding = pr.RoPE(DIM, layout="half")
    fast = fused(encoding)
    x = cupy.asarray(np.random.default_rng(2).standard_normal((2, 4, 64, DIM)).astype(np.float32))
    at = cupy.asarray(np.arange(64))
    expected = fast(x, at)
    cupy_device.out_of_bounds()
    y = cupy.asnumpy(fast(x, cupy.asarray(np.full(64, 2**60))))
    report.check("a position beyond the domain is NaN and raises the flag",
                 np.isnan(y).all() and cupy_device.out_of_bounds())  # fmt: skip
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        out = cupy.empty_like(x)
        fast(x, at, out=out)
        stream.synchronize()
        report.check("another stream", bool((out == expected).all()))
        out[...] = 0
        stream.begin_capture()
        fast(x, at, out=out)
        graph = stream.end_capture()
        x *= 2  # the graph must read x anew
        graph.launch(stream)
        stream.synchronize()
        report.check("a captured graph", bool((out == 2 * expected).all()))


def graphs_of_torch(report):
    import torch

    fast = fused(pr.RoPE(DIM, layout="half"))
    x = torch.randn(2, 4, 64, DIM, device=CUDA)
    ready, out = fast.prepare(range(64), like=x), torch.empty_like(x)
    expected = ready(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        ready(x, out=out)  # compiles
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ready(x, out=out)
    x *= 2
    graph.replay()
    torch.cuda.synchronize()
    report.check("torch: a captured graph", torch.equal(out, 2 * expected))
    compiled = torch.compile(lambda x, at: fast(x, at), fullgraph=True, mode="reduce-overhead")
    at, wide = torch.arange(64, device=CUDA), (2 * expected).double().cpu().numpy()
    truth = Truth(wide, np.linalg.norm(wide, axis=-1, keepdims=True) + 0 * wide, np.zeros(()))
    worst = max(float(truth.score(compiled(x, at).cpu().numpy()).max()) for _ in range(4))
    passed = worst <= MOST["float32"]
    report.check(
        "torch: positions on the device, reduce-overhead", passed, f"{worst:.2f} roundings"
    )


def more_than_two_to_the_31_elements(report):
    import cupy

    free = cupy.cuda.runtime.memGetInfo()[0]
    if free < 1.2 * 2 * np.prod(LARGE, dtype=np.int64):
        report.check("more than 2**31 elements", False, "not enough free memory")
        return
    row = np.random.default_rng(3).standard_normal(DIM).astype(np.float16)
    x = cupy.empty(LARGE, np.float16)
    x[...] = cupy.asarray(row)
    row = row.astype(np.float64)
    heads, length = LARGE[1:3]
    fused(pr.RoPE(DIM, layout="half"))(x, range(length), out=x)
    size = np.abs(row) + np.abs(np.roll(row, DIM // 2))
    worst = 0.0
    for head, s in ((0, 1), (0, length - 1), (heads - 2, length // 2), (heads - 1, 0),
                    (heads - 1, length - 1)):  # fmt: skip
        true = pr.RoPE(DIM, layout="half").apply(row[None], [s])[0]
        found = Truth(true, size, np.zeros(())).score(cupy.asnumpy(x[0, head, s]), dtype="float16")
        worst = max(worst, float(found.max()))
    passed = worst <= MOST["float16"]
    report.check("more than 2**31 elements", passed, f"{worst:.2f} roundings")
