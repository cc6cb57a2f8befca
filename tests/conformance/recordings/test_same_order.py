"""q and k that are written to other channels than declared, both in the same order."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref import RoPE
from posenc_ref.conformance import check_recorded, check_recorded_file, cli
from tests.conformance.handwritten import rope

DIM = 16
HALF = RoPE(DIM, layout="half")
P = np.arange(40)
RNG = np.random.default_rng(0)
Q = RNG.standard_normal((1, 4, 40, DIM)).astype(np.float32)
K = RNG.standard_normal((1, 2, 40, DIM)).astype(np.float32)
BEFORE = {"q": Q, "k": K}
#: From half-split to interleaved pairs.
PAIRS = np.arange(DIM).reshape(2, -1).T.ravel()


def pairs(x, p=P, **changes):
    """Rotate half-split pairs, and write them interleaved."""
    return rope(**changes)(x, p)[..., PAIRS]


SAME = {"q": pairs(Q), "k": pairs(K)}


def test_the_same_order_of_q_and_k_conforms_with_a_note():
    report = check_recorded(BEFORE, SAME, P, HALF)
    assert (report.verdict, report.exit_code) == ("conforms", 0)
    (note,) = report.findings
    assert (note.code, note.severity) == ("harmless-convention", "note")
    assert note.message == (
        "tensors differ from the declared ones, logits do not, because q and k have the same order "
        "of channels: pairs are written to other channels than they are read from: read half, "
        "written interleaved"
    )
    assert "with the channels put back every case conforms" in note.evidence
    assert "also in k" in note.evidence
    assert report.accuracy.worst <= report.accuracy.budget


def test_a_strict_check_compares_tensors():
    report = check_recorded(BEFORE, SAME, P, HALF, strict=True)
    assert report.codes == ["output-layout"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BEFORE, SAME | {"k": rope()(K, P)}),
        (BEFORE, SAME | {"q": rope()(Q, P)}),
        (BEFORE, SAME | {"k": rope()(K, P)[..., np.roll(PAIRS, 2)]}),
        ({"q": Q}, {"q": SAME["q"]}),
    ],
)
def test_another_order_of_one_of_them_deviates(before, after):
    assert "output-layout" in check_recorded(before, after, P, HALF).codes


def test_other_mistakes_remain():
    after = {"q": pairs(Q), "k": pairs(K, base=5e5)}
    report = check_recorded(BEFORE, after, P, HALF)
    assert report.codes == ["base"]
    assert "the order of the channels changes no logit" in str(report)
    both = {"q": pairs(Q, P + 2), "k": pairs(K, P + 2)}
    assert check_recorded(BEFORE, both, P, HALF).codes == ["position-origin"]
    element = SAME["k"].copy()
    element[0, 1, 20, 3] += 1e-2
    assert check_recorded(BEFORE, SAME | {"k": element}, P, HALF).verdict == "deviates"


def test_one_token_at_an_unknown_position_stays_open():
    before = {name: t[:, :, :1] for name, t in BEFORE.items()}
    after = {name: pairs(t, np.array([9])) for name, t in before.items()}
    report = check_recorded(before, after, None, HALF)
    assert report.verdict == "inconclusive"
    assert check_recorded(before, after, 9, HALF).verdict == "conforms"


def test_on_the_command_line(tmp_path: Path):
    path = tmp_path / "r.npz"
    tensors = {f"{t}_{when}": x for when, of in (("before", BEFORE), ("after", SAME))
               for t, x in of.items()}  # fmt: skip
    np.savez(
        path, positions=P, **{f"layers.{n}.{t}": x for n in (0, 1) for t, x in tensors.items()}
    )
    assert check_recorded_file(path, HALF).verdict == "conforms"
    command = ["check", "--recorded", str(path), "--encoding", "RoPE(16, layout='half')"]
    assert CliRunner().invoke(cli.app, command).exit_code == 0
    strict = CliRunner().invoke(cli.app, [*command, "--strict"])
    assert strict.exit_code == 1
    assert "error: output-layout" in strict.output
