"""The lines that reproduce a failure do: they run, and print what the report says."""

import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import posenc_ref
from posenc_ref import GivenFrequencies, LinearScaling, MultiAxisRoPE, RoPE, YaRN
from posenc_ref.conformance import bind, check
from posenc_ref.conformance.cli.options.loading import load_target
from posenc_ref.conformance.harness.implementation import Implementation
from tests.mutants import WRONG
from tests.night import by_day

HALF = RoPE(32, layout="half", base=500000.0)


def run(lines, **names):
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(lines, names)
    return [float(n) for n in printed.getvalue().split()]


def said(lines):
    return [float(n) for n in lines.rpartition("#")[2].split()]


@pytest.mark.parametrize(
    ("wrong", "declared"),
    [
        (RoPE(32, layout="half"), HALF),
        (RoPE(32, layout="interleaved", base=500000.0), HALF),
        (HALF.replace(sign=-1), HALF),
        (HALF, HALF.replace(scaling=LinearScaling(4.0))),
        (HALF, HALF.replace(scaling=YaRN(4.0, 4096))),
    ],
    ids=["base", "layout", "sign", "linear", "yarn"],
)
def test_they_print_what_they_say(wrong, declared):
    report = check(wrong.apply, declared, "apply")
    lines = report.findings[0].reproduce
    assert lines.count("\n") < 10
    got, expected = run(lines, fn=wrong.apply)
    assert [float(f"{v:.7g}") for v in (got, expected)] == said(lines)
    assert got != expected
    assert "print(got[" in str(report)


def test_positions_of_several_axes():
    axial = MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")

    def fn(x, positions):
        return axial.apply(x, positions[::-1] if positions.ndim > 2 else positions)

    lines = check(fn, axial, "apply", max_position=128).findings[0].reproduce
    assert "fn(x, np.array([[[0]], [[1]]]))" in lines
    got, expected = run(lines, fn=fn)
    assert [float(f"{v:.7g}") for v in (got, expected)] == said(lines)
    assert got != expected


def test_they_show_the_mistake_not_the_order_of_the_channels():
    def fn(x, positions):
        return RoPE(32, layout="half").apply(x, positions)[..., np.r_[0:32:2, 1:32:2]]

    report = check(fn, HALF, "apply", max_position=1023)
    assert report.codes == ["base"]
    lines = report.findings[0].reproduce
    assert [float(f"{v:.7g}") for v in run(lines, fn=fn)] == said(lines)
    assert "np.array([0]))" not in lines  # at position 0 only the order shows


@pytest.mark.nightly
def test_functions_that_count_from_zero_get_whole_calls():
    """Only calls from position 0 on are accepted: the token sits at the end of one."""

    def from_zero(x, positions):
        if positions[0] != 0 or (np.diff(positions) != 1).any():
            raise ValueError("from 0")
        return RoPE(32, layout="half").apply(x, positions)

    report = check(from_zero, HALF, "apply")
    assert "np.arange(" in report.findings[0].reproduce
    got, expected = run(report.findings[0].reproduce, fn=from_zero)
    assert got != expected


@pytest.mark.nightly
def test_a_token_at_position_0_on_the_other_axes_shows_a_wrong_axis():
    case = next(c for c in WRONG if c.name == "mrope-time-turns-every-pair")
    report = check(case.make(), posenc_ref.from_dict(case.encoding), case.surface)
    lines = report.findings[0].reproduce
    assert [float(f"{v:.7g}") for v in run(lines, fn=case.make())] == said(lines)


SEVERAL = posenc_ref.MultiAxisRoPE(32, sections=(4, 6, 6), layout="half")


@pytest.mark.parametrize("encoding", [HALF, SEVERAL], ids=["one axis", "three axes"])
def test_what_one_token_does_not_show_has_no_lines(encoding):
    """The first row of every batch is right, and a token alone is in the first row."""

    def first_row_only(x, positions):
        return np.concatenate([encoding.apply(x, positions)[:1], x[1:]]).astype(x.dtype)

    report = check(first_row_only, encoding, "apply")
    assert report.verdict == "deviates"
    assert report.findings[0].reproduce == ""
    right = check(HALF.apply, HALF, "apply")
    assert right.findings == []


#: x in a tensor layout, with its heads, as (B, H, S, D); and the result back.
MERGED = {
    "bshd": lambda x: x.transpose(0, 2, 1, 3),
    "sbhd": lambda x: x.transpose(1, 2, 0, 3),
    "thd": lambda x: x.transpose(1, 0, 2)[None],
    "bs(hd)": lambda x: x.reshape(*x.shape[:2], -1, 32).transpose(0, 2, 1, 3),
}


@pytest.mark.parametrize("layout", MERGED)
def test_they_run_in_every_tensor_layout(layout):
    wrong, back = RoPE(32, layout="half"), {"sbhd": (2, 0, 1, 3)}.get(layout, (0, 2, 1, 3))

    def fn(x, positions):
        return wrong.apply(MERGED[layout](x), positions).transpose(back).reshape(x.shape)

    report = check(fn, HALF, "apply", tensor_layout=layout, max_position=255)
    lines = report.findings[0].reproduce
    assert [float(f"{v:.7g}") for v in run(lines, fn=fn)] == said(lines)


@pytest.mark.parametrize(
    ("library", "dtype"),
    [
        ("torch", "float32"),
        ("torch", "bfloat16"),
        pytest.param("jax", "float32", marks=pytest.mark.nightly),
    ],
)
def test_they_run_with_arrays_of_other_libraries(library, dtype):
    pytest.importorskip(library, reason="the arrays of this library are what is tried")
    wrong = RoPE(32, layout="half")

    def fn(x, positions):
        assert library in type(x).__module__
        assert dtype in str(x.dtype)
        return wrong.apply(x, positions)

    report = check(fn, HALF, "apply", backend=library, dtype=dtype, max_position=255)
    lines = report.findings[0].reproduce
    assert [float(f"{v:.7g}") for v in run(lines, theirs=fn)] == said(lines)


WRONG_BASE = """
import numpy as np
from posenc_ref import RoPE

def rotate(x, positions):
    return RoPE(32, layout="half").apply(x, positions)

class Rotary:
    @staticmethod
    def apply(x, positions):
        return rotate(x, positions)

    def __call__(self, x, positions):
        return rotate(x, positions)

    def turn(self, x, positions):
        return rotate(x, positions)

rope = Rotary()
"""


@pytest.mark.parametrize("name", ["rotate", "Rotary.apply", "rope", "rope.turn"])
@pytest.mark.parametrize("inside", ["", "folder/"])
def test_they_import_the_function_that_a_user_named(name, inside, tmp_path, monkeypatch):
    path = tmp_path / f"{inside}port_of_rope.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(WRONG_BASE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "port_of_rope", raising=False)
    fn = load_target(f"{inside}port_of_rope.py:{name}")
    report = check(Implementation(fn, "apply", name), HALF, "apply", max_position=255)
    lines = report.findings[0].reproduce
    monkeypatch.setattr(sys, "path", [p for p in sys.path if "folder" not in p])
    monkeypatch.delitem(sys.modules, "port_of_rope")
    assert [float(f"{v:.7g}") for v in run(lines)] == said(lines)
    assert f"sys.path.insert(0, '{inside[:-1] or '.'}')" in lines


PORTS = Path(__file__).parents[2] / "ports"
MEGATRON = "libraries.py:MegatronRotaryEmbedding"


@pytest.mark.parametrize(
    ("target", "table", "layout"),
    [
        ("numpy_ports.py:rope_minus", None, "half"),
        ("libraries.py:apply_rotary_pos_emb_megatron", MEGATRON, "interleaved"),
        pytest.param("serving.py:StyleIgnored", None, "interleaved", marks=pytest.mark.nightly),
        pytest.param(
            "libraries.py:RotaryEmbedding.rotate_queries_or_keys",
            None,
            "half",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_they_bind_a_function_again_as_it_was_judged(target, table, layout, monkeypatch):
    if "numpy" not in target:
        pytest.importorskip("torch", reason="the ports take its tensors")
    encoding = RoPE(64, layout=layout)
    module = target.partition(".")[0]
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, module, raising=False)
    fn = load_target(f"{PORTS}/{target}")
    tables = load_target(f"{PORTS}/{table}") if table else None
    report = check(bind(fn, encoding, table=tables), encoding, max_position=255)
    lines = report.findings[0].reproduce
    monkeypatch.delitem(sys.modules, module)
    assert [float(f"{v:.7g}") for v in run(lines)] == said(lines)


def test_a_file_that_no_import_finds_is_loaded_by_its_path(tmp_path, monkeypatch):
    path = tmp_path / "my-port.py"
    path.write_text(WRONG_BASE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    report = check(load_target(f"{path}:rotate"), HALF, "apply", max_position=255)
    lines = report.findings[0].reproduce
    assert [float(f"{v:.7g}") for v in run(lines)] == said(lines)
    assert "load_target(" in lines
    monkeypatch.delitem(sys.modules, "my-port")


def test_long_lists_of_an_encoding_are_written_in_full():
    frequencies = tuple(np.geomspace(1.0, 1e-3, 16).tolist())
    declared = RoPE(32, layout="half", scaling=GivenFrequencies(frequencies))
    report = check(RoPE(32, layout="half").apply, declared, "apply", max_position=255)
    lines = report.findings[0].reproduce
    assert [float(f"{v:.7g}") for v in run(lines, fn=RoPE(32, layout="half").apply)] == said(lines)


FILE = """
from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance.harness.signatures import SURFACES

own = SURFACES[{surface!r}].own
one = own(RoPE(32, layout="half"), "float32")
axes = own(MultiAxisRoPE(32, sections=(8, 8), layout="interleaved"), "float32")
"""
RUNNING = [
    *(f"{s} one" for s in ("apply_offset", "decode", "key_cache")),
    *(f"{s} {n}" for s in ("apply", "apply_qk", "apply_vjp", "calls", "shift_keys")
      for n in ("one", "axes")),
]  # fmt: skip


@pytest.mark.parametrize("case", by_day(RUNNING, ["apply one", "apply_vjp one"]))
def test_they_run_in_a_new_process(case, tmp_path, monkeypatch):
    surface, name = case.split()
    declared = HALF if name == "one" else MultiAxisRoPE(32, sections=(8, 8), layout="half")
    (tmp_path / "my_rope.py").write_text(FILE.format(surface=surface), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_rope", raising=False)
    fn = load_target(f"my_rope.py:{name}")
    lines = check(fn, declared, surface, max_position=2048).findings[0].reproduce
    command = [sys.executable, "-c", lines]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [float(f"{float(v):.7g}") for v in made.stdout.split()] == said(lines)
    monkeypatch.delitem(sys.modules, "my_rope")


class Stale:
    """Its table starts at the offset of the call that made it, and is made again if too short."""

    def __init__(self, exact=False):
        self.exact, self.made = exact, np.empty(0)

    def __call__(self, x, offset=0):
        n = x.shape[-2]
        if n != self.made.size if self.exact else n > self.made.size:
            self.made = np.arange(offset, offset + n)
        return RoPE(32, layout="half").apply(x, self.made[:n])


@pytest.mark.parametrize("exact", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_they_make_the_earlier_calls_that_a_stale_result_needs(exact):
    """One call alone is right in a new process, where the same call was wrong after others."""
    declared = RoPE(32, layout="half")
    report = check(bind(Stale, declared, init={"exact": exact}), declared, max_position=2200)
    assert report.codes == ["state"]
    assert report.measured == ""
    finding = report.findings[0]
    until = "a call of another length comes" if exact else "a longer call comes"
    assert finding.message.endswith(until)
    got, expected = run(finding.reproduce)
    assert [float(f"{v:.7g}") for v in (got, expected)] == said(finding.reproduce)
    assert got != expected
    alone = "\n".join(line for line in finding.reproduce.splitlines() if "# an earlier" not in line)
    got, expected = run(alone)
    assert np.float32(got) == np.float32(expected)


@pytest.mark.nightly
def test_a_stale_object_that_cannot_be_made_again_has_none():
    """What a new process would print is not known."""
    declared = RoPE(32, layout="half")
    report = check(Stale(), declared, max_position=4095)
    assert report.codes == ["state"]
    assert report.findings[0].reproduce == ""
