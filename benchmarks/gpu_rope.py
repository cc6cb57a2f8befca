"""Test rotary embeddings on a GPU, and time them; less than ten minutes.

    python benchmarks/gpu_rope.py            # writes docs/generated/gpu-report.{md,json}

It needs a CUDA device, CuPy, and for the comparison torch and transformers.  Speeds are compared
with a copy of the same bytes in the same run.  A failing section becomes a line in the report, and
no section starts after the deadline.  The report names the device, the versions and the digests of
the sources, which a test compares with today's.
"""

import argparse
import datetime
import functools
import hashlib
import json
import os
import statistics
import sys
import time
import traceback
from pathlib import Path

import gpu_right
import numpy as np
from gpu_right import CUDA, DIM, LAYOUTS, ROOT
from timing import environment

import posenc_ref as pr
from posenc_ref.backends import fused

SOURCES = (
    "cupy_angles.py", "cupy_device.py", "fused_cupy.py", "fused_rotary.py", "prepared.py",
    "rotary_tables.py", "rotation.py", "torch_graph.py", "kernels/device_positions.py",
    "kernels/pair_runs.py", "kernels/phasors.py", "kernels/rotary.cu", "kernels/rotary_launch.py",
    "kernels/torch_rotary.py", "kernels/triton_rotary.py",
)  # fmt: skip
PACKAGES = ("cupy-cuda13x", "ml_dtypes", "numpy", "torch", "transformers", "triton")
SHAPES = {"training": (1, 32, 32, 8192), "grouped": (4, 32, 8, 4096)}  # B, Hq, Hk, S
#: Goals of the first shape: name, minimum, and a ratio of two rows or to the copy.
GOALS = [
    goal for layout in LAYOUTS for goal in (
        (f"CuPy {layout}, out=, of a copy's speed", 0.9, f"ours CuPy {layout}, out=", None),
        (f"torch {layout}, fresh, of a copy's speed", 0.9, f"ours torch {layout}, fresh", None),
        (f"transformers eager / CuPy {layout}", 6, f"ours CuPy {layout}, out=",
         "transformers eager"),
        (f"transformers eager / torch {layout}", 6, f"ours torch {layout}, fresh",
         "transformers eager"),
    )
]  # fmt: skip


def digests():
    """Return the SHA-256 of every source that the report covers."""
    folder = ROOT / "backends"
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in SOURCES}


class Report:
    """The results so far."""

    def __init__(self, deadline):
        self.deadline = time.monotonic() + deadline
        self.rows, self.checks, self.goals = [], [], []
        self.about = environment(*PACKAGES)

    def check(self, name, passed, note=""):
        self.checks.append({"name": name, "passed": bool(passed), "note": note})
        print("passed" if passed else "FAILED", name, note, flush=True)

    def row(self, case, what, seconds, moved=None, copy=None):
        """Add a timing; ``moved``: bytes read and written, ``copy``: seconds of a copy."""
        row = {"case": case, "what": what, "us": seconds * 1e6,
               "tb_per_s": moved and moved / seconds / 1e12,
               "of_copy": copy and copy / seconds}  # fmt: skip
        self.rows.append(row)
        print(row, flush=True)

    def judge(self):
        """Compare the rows with the goals."""
        found = {row["what"]: row for row in self.rows if row["case"] == next(iter(SHAPES))}
        self.goals = []
        for name, least, ours, theirs in GOALS:
            if ours not in found or (theirs and theirs not in found):
                measured = None
            elif theirs:
                measured = found[theirs]["us"] / found[ours]["us"]
            else:
                measured = found[ours]["of_copy"]
            self.goals.append({"goal": name, "least": least, "measured": measured})

    def late(self, name):
        """Return whether it is too late to start ``name``, which then counts as failed."""
        passed = time.monotonic() > self.deadline
        if passed:
            self.check(name, False, "not started: the deadline has passed")
        return passed

    def section(self, run):
        name = getattr(run, "func", run).__name__.replace("_", " ")
        if self.late(name):
            return
        try:
            run(self)
        except Exception as error:  # the others go on; the report says so
            traceback.print_exc()
            self.check(name, False, f"{type(error).__name__}: {str(error)[:300]}")

    def save(self, json_path, markdown_path):
        """Write the report, after every section: an interrupted run keeps its results."""
        self.judge()
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        data = {"date": now, "environment": self.about, "sources": digests(),
                "checks": self.checks, "goals": self.goals, "timings": self.rows}  # fmt: skip
        json_path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        lines = ["# Rotary embeddings on a GPU", "", f"{now}, by `benchmarks/gpu_rope.py`.", ""]
        lines += [f"- {key}: {value}" for key, value in self.about.items()]
        lines += ["", "| goal | at least | measured | |", "|---|---:|---:|---|"]
        for g in self.goals:
            value = "" if g["measured"] is None else f"{g['measured']:.2f}"
            met = g["measured"] is not None and g["measured"] >= g["least"]
            lines.append(
                f"| {g['goal']} | {g['least']} | {value} | {'' if met else '**missed**'} |"
            )
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
    """Return the median over ``rounds`` of device seconds for one of ``times`` queued calls."""
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
    """Return the wall time of one of many calls, which decoding waits for."""
    import cupy

    for _ in range(20):
        call()
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    for _ in range(times):
        call()
    cupy.cuda.Device().synchronize()
    return (time.perf_counter() - start) / times


def the_machine(report):
    import cupy

    found = cupy.cuda.runtime.getDeviceProperties(0)
    report.about["device"] = found["name"].decode()
    report.about["driver, runtime, NVRTC"] = str((
        cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion(),
        cupy.cuda.nvrtc.getVersion(),
    ))  # fmt: skip


# -- how fast? --------------------------------------------------------------------------------


def queries_and_keys(shape):
    """Return bfloat16 tensors of torch, and CuPy arrays on the same memory."""
    import cupy
    import torch

    b, hq, hk, s = shape
    q, k = (torch.randn(b, h, s, DIM, device=CUDA, dtype=torch.bfloat16) for h in (hq, hk))
    return q, k, cupy.from_dlpack(q), cupy.from_dlpack(k)


def bandwidth(report, name):
    import cupy
    import torch
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    torch._dynamo.reset()  # no graphs for sizes that change: each shape has its own
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
        whole = torch.compile(lambda q, k, t=ready: (t(q), t(k)), fullgraph=True)
        calls[f"ours torch {layout}, fresh"] = lambda t=ready: (t(q), t(k))
        calls[f"ours torch {layout}, compiled"] = lambda w=whole: w(q, k)
        with torch.no_grad():
            for what, call in calls.items():
                report.row(name, what, device_seconds(call), moved, copy)
    angles = pr.RoPE(DIM, layout="half").cos_sin(np.arange(s))
    cos, sin = (torch.tensor(np.tile(t, 2)[None], device=CUDA).bfloat16() for t in angles)
    peers = {"transformers eager": apply_rotary_pos_emb}
    peers["transformers compiled"] = torch.compile(apply_rotary_pos_emb)
    for what, peer in peers.items():
        seconds = device_seconds(lambda p=peer: p(q, k, cos, sin))
        report.row(name, what, seconds, moved, copy)
    report.row(name, "CuPy eager", device_seconds(lambda: cupy_eager(cq, ck, cos, sin)), moved,
               copy)  # fmt: skip


def cupy_eager(q, k, cos, sin):
    """Rotate in plain CuPy: float32 inside, one rounding."""
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
    beside = fast.prepare(range(4096), like=q)
    cos = q[:, 0].float().cos().bfloat16()
    calls = {
        "ours CuPy, q and k, position on the device": lambda: fast.qk(cq, ck, at, out=(cq, ck)),
        "ours CuPy, q and k, position on the host": lambda: fast.qk(cq, ck, [4000], out=(cq, ck)),
        "ours CuPy, q, prepared": lambda: ready(cq, 4000, out=cq),
        "ours torch, q and k, prepared": lambda: (beside(q, 4000), beside(k, 4000)),
        "transformers eager": lambda: apply_rotary_pos_emb(q, k, cos, cos),
    }
    for what, call in calls.items():
        report.row("decode [64, 32+8, 1, 128], wall", what, host_seconds(call))


def sections():
    """Return the sections in order; those that only a GPU can settle come first."""
    return [
        the_machine, gpu_right.the_bits_of_the_model, gpu_right.bounds_streams_and_graphs,
        *[functools.partial(bandwidth, name=name) for name in SHAPES],
        decoding, gpu_right.more_than_two_to_the_31_elements, gpu_right.exact_at_every_position,
        gpu_right.graphs_of_torch, gpu_right.conformance,
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    docs = ROOT / "docs" / "generated"
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
        gpu_right.model_bits(given.model_bits)
        return 0
    from posenc_ref.backends import backend

    reason = backend("cupy").missing()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    report = Report(given.deadline)
    for run in sections():
        report.section(run)
        report.save(given.json, given.markdown)
    return 0 if all(c["passed"] for c in report.checks) else 1


if __name__ == "__main__":
    sys.exit(main())
