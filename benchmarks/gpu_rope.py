"""Rotary embeddings on a GPU: are they right, and how fast?  One run, less than ten minutes.

    python benchmarks/gpu_rope.py            # writes docs/gpu-report.md and docs/gpu-report.json

Needs a CUDA device, CuPy, and for the comparison torch and transformers.  Speeds are held against
a copy of the same bytes in the same run.  A section that fails is a line in the report, and no new
one starts after the deadline.  The report names the device, the versions and the digests of the
sources; a test compares these with today's.
"""

import argparse
import datetime
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from timing import environment

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.backends import cupy_device, fused
from posenc_ref.conformance import check

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    "cupy_angles.py", "cupy_device.py", "fused_cupy.py", "fused_rotary.py", "fused_torch.py",
    "pair_runs.py", "phasors.py", "rotary.cu", "rotary_launch.py", "triton_rotary.py",
)  # fmt: skip
PACKAGES = ("cupy-cuda13x", "ml_dtypes", "numpy", "torch", "transformers", "triton")
SHAPES = {"training": (1, 32, 32, 8192), "grouped": (4, 32, 8, 4096)}  # B, Hq, Hk, S
DIM = 128
LAYOUTS = ("half", "interleaved")
DTYPES = ("float64", "float32", "float16", "bfloat16")


def digests():
    """SHA-256 of every source that the report speaks of."""
    folder = ROOT / "backends"
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in SOURCES}


class Report:
    """What has been found so far."""

    def __init__(self, deadline):
        self.deadline = time.monotonic() + deadline
        self.rows, self.checks = [], []
        self.about = environment(*PACKAGES)

    def check(self, name, passed, note=""):
        self.checks.append({"name": name, "passed": bool(passed), "note": note})
        print("passed" if passed else "FAILED", name, note, flush=True)

    def row(self, case, what, seconds, moved=None, copy=None):
        """``moved`` are the bytes that must be read and written, ``copy`` a copy's seconds."""
        row = {"case": case, "what": what, "us": seconds * 1e6,
               "tb_per_s": moved and moved / seconds / 1e12,
               "of_copy": copy and copy / seconds}  # fmt: skip
        self.rows.append(row)
        print(row, flush=True)

    def late(self, name):
        """Whether it is too late to start ``name``, which then counts as failed."""
        passed = time.monotonic() > self.deadline
        if passed:
            self.check(name, False, "not started: the deadline has passed")
        return passed

    def section(self, run, *given):
        name = run.__name__.replace("_", " ")
        if self.late(name):
            return
        try:
            run(self, *given)
        except Exception as error:  # the others go on; the report says so
            traceback.print_exc()
            self.check(name, False, f"{type(error).__name__}: {str(error)[:300]}")

    def save(self, json_path, markdown_path):
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        data = {"date": now, "environment": self.about, "sources": digests(),
                "checks": self.checks, "timings": self.rows}  # fmt: skip
        json_path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        lines = ["# Rotary embeddings on a GPU", "", f"{now}, by `benchmarks/gpu_rope.py`.", ""]
        lines += [f"- {key}: {value}" for key, value in self.about.items()]
        lines += ["", "| case | what | us | TB/s of the least bytes | of a copy |",
                  "|---|---|---:|---:|---:|"]  # fmt: skip
        for r in self.rows:
            speed = "" if r["tb_per_s"] is None else f"{r['tb_per_s']:.2f}"
            share = "" if r["of_copy"] is None else f"{r['of_copy']:.0%}"
            lines.append(f"| {r['case']} | {r['what']} | {r['us']:.1f} | {speed} | {share} |")
        lines += ["", "| check | result | |", "|---|---|---|"]
        lines += [f"| {c['name']} | {'passed' if c['passed'] else 'FAILED'} | {c['note']} |"
                  for c in self.checks]  # fmt: skip
        lines += ["", "Sources (SHA-256):", ""]
        lines += [f"- `backends/{name}` {digest}" for name, digest in digests().items()]
        markdown_path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def device_seconds(call, times=20, rounds=9):
    """The median of ``rounds``: seconds on the device for one of ``times`` queued calls."""
    import cupy

    for _ in range(3):
        call()
    found = []
    for _ in range(rounds):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        for _ in range(times):
            call()
        last.record()
        last.synchronize()
        found.append(cupy.cuda.get_elapsed_time(first, last) / 1e3 / times)
    return statistics.median(found)


def host_seconds(call, times=500):
    """Wall time of one of many calls: what decoding waits for."""
    import cupy

    for _ in range(20):
        call()
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    for _ in range(times):
        call()
    cupy.cuda.Device().synchronize()
    return (time.perf_counter() - start) / times


# -- is it right? -----------------------------------------------------------------------------


def the_machine(report):
    import cupy

    found = cupy.cuda.runtime.getDeviceProperties(0)
    report.about["device"] = found["name"].decode()
    report.about["driver, runtime, NVRTC"] = str((
        cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion(),
        cupy.cuda.nvrtc.getVersion(),
    ))  # fmt: skip


def conformance(report):
    for backend in ("cupy", "torch"):
        for layout in LAYOUTS:
            for dtype in DTYPES:
                name = f"{backend} {layout} {dtype} conforms"
                if report.late(name):
                    continue
                encoding = pr.RoPE(64, layout=layout, rotary_dim=48, scaling=pr.YaRN(8.0, 512))
                fast = fused(encoding)
                device = "cuda" if backend == "torch" else None
                options = {"backend": backend, "dtype": dtype, "device": device}
                result = check(lambda x, p, f=fast: f(x, p), encoding, "apply", **options)
                report.check(name, result.passed, result.verdict)


def bit_cases():
    """Inputs for which the GPU and the model of it on the CPU must agree bit for bit."""
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
    """In a process without CuPy: what the model says of :func:`bit_cases`."""
    sys.path.insert(0, str(ROOT))
    from tests.backends import rotary_model

    with tempfile.TemporaryDirectory() as folder:
        rotary_model.install(rotary_model.build(folder))
        found = {name: fused(e)(rotary_model.Array(x), at).host.view(np.uint8)
                 for name, e, x, at in bit_cases()}  # fmt: skip
    np.savez(path, **found)


def the_bits_of_the_model(report):
    import cupy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        subprocess.run([sys.executable, __file__, "--model-bits", str(path)], check=True)
        expected = np.load(path)
        for name, encoding, x, at in bit_cases():
            got = cupy.asnumpy(fused(encoding)(cupy.asarray(x), at)).view(np.uint8)
            report.check(f"bits of the CPU model: {name}", np.array_equal(got, expected[name]))


def bounds_streams_and_graphs(report):
    import cupy

    encoding = pr.RoPE(DIM, layout="half")
    fast = fused(encoding)
    x = cupy.random.standard_normal((2, 4, 64, DIM), dtype=cupy.float32)
    at = cupy.arange(64)
    expected = fast(x, at)
    cupy_device.out_of_bounds()
    y = fast(x, cupy.full(64, 2**60))
    report.check("a position beyond the domain is NaN and raises the flag",
                 bool(cupy.isnan(y).all()) and cupy_device.out_of_bounds())  # fmt: skip
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


def more_than_two_to_the_31_elements(report):
    import cupy

    free = cupy.cuda.runtime.memGetInfo()[0]
    shape = (1, 33, 2**19 + 3, DIM)
    if free < 1.2 * 2 * np.prod(shape, dtype=np.int64):
        report.check("more than 2**31 elements", False, "not enough free memory")
        return
    x = cupy.empty(shape, np.float16)
    x[...] = cupy.random.standard_normal(DIM, dtype=cupy.float32).astype(np.float16)
    row = cupy.asnumpy(x[0, 0, 0]).astype(np.float64)
    fused(pr.RoPE(DIM, layout="half"))(x, range(shape[2]), out=x)
    size = np.abs(row) + np.abs(np.roll(row, DIM // 2))
    worst = 0.0
    for head, s in ((0, 1), (0, shape[2] - 1), (31, 2**19 - 1), (32, 0), (32, shape[2] - 1)):
        true = pr.RoPE(DIM, layout="half").apply(row[None], [s])[0]
        got = cupy.asnumpy(x[0, head, s])
        found = Truth(true, size, np.zeros(())).score(got, dtype="float16").max()
        worst = max(worst, float(found))
    report.check("more than 2**31 elements", worst <= 1.01, f"{worst:.2f} roundings")


# -- how fast? --------------------------------------------------------------------------------


def queries_and_keys(shape):
    """bfloat16, as torch tensors and as CuPy arrays on the same memory."""
    import cupy
    import torch

    b, hq, hk, s = shape
    q, k = (torch.randn(b, h, s, DIM, device="cuda", dtype=torch.bfloat16) for h in (hq, hk))
    return q, k, cupy.from_dlpack(q), cupy.from_dlpack(k)


def bandwidth(report, name):
    import cupy
    import torch
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k, cq, ck = queries_and_keys(SHAPES[name])
    moved = 2 * (q.nbytes + k.nbytes)
    s = q.shape[2]
    goal = torch.empty_like(q), torch.empty_like(k)
    copy = device_seconds(lambda: (goal[0].copy_(q), goal[1].copy_(k)))
    report.row(name, "copy of q and k", copy, moved, copy)
    outs = tuple(cupy.empty_like(a) for a in (cq, ck))
    for layout in LAYOUTS:
        fast = fused(pr.RoPE(DIM, layout=layout))
        calls = {
            f"ours CuPy {layout}, out=": lambda f=fast: f.qk(cq, ck, range(s), out=outs),
            f"ours CuPy {layout}, in place": lambda f=fast: f.qk(cq, ck, range(s), out=(cq, ck)),
        }
        table = fast.prepare(range(s), like=cq)
        calls[f"ours CuPy {layout}, table, q then k"] = lambda t=table: (
            t(cq, out=outs[0]), t(ck, out=outs[1]))  # fmt: skip
        ready = fast.prepare(range(s), like=q)
        with torch.no_grad():
            calls[f"ours torch {layout}, fresh"] = lambda t=ready: (t(q), t(k))
            whole = torch.compile(lambda q, k, t=ready: (t(q), t(k)), fullgraph=True)
            calls[f"ours torch {layout}, compiled"] = lambda w=whole: w(q, k)
            for what, call in calls.items():
                report.row(name, what, device_seconds(call), moved, copy)
    angles = pr.RoPE(DIM, layout="half").cos_sin(np.arange(s))
    cos, sin = (torch.tensor(np.tile(t, 2)[None], device="cuda").bfloat16() for t in angles)
    peers = {"transformers eager": apply_rotary_pos_emb}
    peers["transformers compiled"] = torch.compile(apply_rotary_pos_emb)
    for what, peer in peers.items():
        seconds = device_seconds(lambda p=peer: p(q, k, cos, sin))
        report.row(name, what, seconds, moved, copy)
    report.row(name, "CuPy eager", device_seconds(lambda: cupy_eager(cq, ck, cos, sin)), moved,
               copy)  # fmt: skip


def cupy_eager(q, k, cos, sin):
    """What one writes in CuPy without a kernel: float32 inside, one rounding."""
    import cupy

    c, s = (cupy.from_dlpack(t).astype(np.float32)[:, None] for t in (cos, sin))
    found = []
    for x in (q, k):
        wide = x.astype(np.float32)
        x1, x2 = wide[..., : DIM // 2], wide[..., DIM // 2 :]
        found.append((wide * c + cupy.concatenate((-x2, x1), axis=-1) * s).astype(x.dtype))
    return found


def decoding(report):
    import cupy
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k, cq, ck = queries_and_keys((64, 32, 8, 1))
    fast = fused(pr.RoPE(DIM, layout="half"))
    ready, at = fast.prepare(range(4096), like=cq), cupy.asarray([4000])
    cos = q[:, 0].float().cos().bfloat16()
    calls = {
        "ours CuPy, q and k, position on the device": lambda: fast.qk(cq, ck, at, out=(cq, ck)),
        "ours CuPy, q and k, position on the host": lambda: fast.qk(cq, ck, [4000], out=(cq, ck)),
        "ours CuPy, q, prepared": lambda: ready(cq, 4000, out=cq),
        "transformers eager": lambda: apply_rotary_pos_emb(q, k, cos, cos),
    }
    for what, call in calls.items():
        report.row("decode [64, 32+8, 1, 128], wall", what, host_seconds(call))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    docs = ROOT / "docs"
    parser.add_argument("--json", type=Path, default=docs / "gpu-report.json")
    parser.add_argument("--markdown", type=Path, default=docs / "gpu-report.md")
    parser.add_argument("--deadline", type=float, default=520, help="seconds (default 520)")
    parser.add_argument("--digests", action="store_true", help="print today's digests and stop")
    parser.add_argument("--model-bits", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.digests:
        print(json.dumps(digests()))
        return 0
    if given.model_bits:
        model_bits(given.model_bits)
        return 0
    from posenc_ref.backends import backend

    reason = backend("cupy").missing()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    report = Report(given.deadline)
    for run in (the_machine, the_bits_of_the_model, bounds_streams_and_graphs):
        report.section(run)
    for name in SHAPES:
        report.section(bandwidth, name)
    for run in (decoding, more_than_two_to_the_31_elements, conformance):
        report.section(run)
    report.save(given.json, given.markdown)
    return 0 if all(c["passed"] for c in report.checks) else 1


if __name__ == "__main__":
    sys.exit(main())
