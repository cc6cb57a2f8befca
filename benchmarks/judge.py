"""Time the judge from the start of a process: imports, `posenc check`, `identify` and `verify`.

    python benchmarks/judge.py            # four minutes
    python benchmarks/judge.py --quick    # NumPy only

Each command runs three times after a first, in which Python compiles modules, the slow ones once;
numbers are medians.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import arguments, environment, heading, publish

ROOT = Path(__file__).resolve().parents[1]
IMPORTS = (
    "import time; a = time.perf_counter(); import numpy; b = time.perf_counter(); "
    "import posenc_ref; print((time.perf_counter() - b) / (b - a))"
)
POSENC = [sys.executable, "-c", "from posenc_ref.conformance.__main__ import main; main()"]
EXAMPLE = str(ROOT / "examples" / "my_rope.py") + ":apply"
OWN = str(Path(__file__).resolve())
ENCODING = ["--encoding", "@" + str(ROOT / "examples" / "my_rope.json")]
#: Goal, its limit in seconds, the command, and how often it runs.
COMMANDS = [
    ("posenc check on NumPy, seconds", 1, ["check", EXAMPLE, *ENCODING], 3),
    ("posenc identify, seconds", 1.5, ["identify", EXAMPLE], 3),
    (
        "posenc check on torch, seconds", 4,
        ["check", f"{OWN}:with_torch", *ENCODING, "--backend", "torch"], 3,
    ),
    (
        "posenc check on eager JAX, seconds", 10,
        ["check", f"{OWN}:with_jax", *ENCODING, "--backend", "jax"], 1,
    ),
    ("posenc verify, seconds", 60, ["verify"], 1),
]  # fmt: skip
QUICK = 2


def _turned(x, positions, xp):
    """Rotate half-split pairs, base 500000, by angles that NumPy computes."""
    import numpy as np

    dim = x.shape[-1]
    angle = np.asarray(positions, np.float64)[..., None] * 500000.0 ** (-np.arange(0, dim, 2) / dim)
    angle = angle if angle.ndim == 2 else angle[:, None]
    cos, sin = (xp.asarray(f(angle)) for f in (np.cos, np.sin))
    x1, x2 = x[..., : dim // 2], x[..., dim // 2 :]
    return x1 * cos - x2 * sin, x2 * cos + x1 * sin


def with_torch(x, positions):
    """Rotate a torch tensor."""
    import torch

    return torch.cat(_turned(x, positions, torch), dim=-1).to(x.dtype)


def with_jax(x, positions):
    """Rotate a JAX array."""
    import jax.numpy as jnp

    return jnp.concatenate(_turned(x, positions, jnp), axis=-1).astype(x.dtype)


def seconds(command, cache):
    """Return how long a command of posenc takes; exit if it cannot be called so.

    Python keeps compiled modules in the folder ``cache``, as it does for a user.
    """
    kept = {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    run = subprocess.run(
        [*POSENC, *command], capture_output=True, text=True, check=False,
        env={**os.environ, **kept},
    )  # fmt: skip
    took = time.perf_counter() - start
    if run.returncode > 1:  # not a verdict: a usage error, or a check that could not run
        sys.exit(f"posenc {' '.join(command)} ended with {run.returncode}\n{run.stderr}")
    return took


def main():
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--quick", action="store_true", help="NumPy only")
    options = parser.parse_args()
    facts = environment("numpy", "torch", "jax")

    def one_import():
        run = [sys.executable, "-c", IMPORTS]
        return float(subprocess.run(run, capture_output=True, text=True, check=True).stdout)

    imports = [one_import() for _ in range(5)]
    rows = [{"goal": "import posenc_ref / import numpy", "limit": 0.3, "samples": imports}]
    for goal, limit, command, rounds in COMMANDS[: QUICK if options.quick else None]:
        print(f"{goal} ...", file=sys.stderr)
        with tempfile.TemporaryDirectory() as cache:
            seconds(command, cache)
            samples = [seconds(command, cache) for _ in range(min(rounds, options.rounds))]
        rows.append({"goal": goal, "limit": limit, "samples": samples})
    parts = [heading(facts), "", "| what | median | best | runs |", "|---|---:|---:|---:|"]
    for row in rows:
        row["measured"] = statistics.median(row["samples"])
        shown = f"{row['measured']:.3g} | {min(row['samples']):.3g} | {len(row['samples'])}"
        parts.append(f"| {row['goal']} | {shown} |")
    publish(options, parts, {"environment": facts, "rows": rows})


if __name__ == "__main__":
    main()
