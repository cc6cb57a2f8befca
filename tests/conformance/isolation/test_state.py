"""A function that changes the process of its judge: the next file gets another process."""

import contextlib
import shlex
import sys

import numpy as np
import pytest

import posenc_ref
from posenc_ref.conformance.cli.options import apart
from posenc_ref.conformance.isolation import state
from posenc_ref.conformance.isolation.judge import Raised
from posenc_ref.conformance.isolation.state import Judge

from .running import ENCODING, posenc


def test_what_a_function_takes_from_its_judge_is_named(monkeypatch):
    judge = Judge.now()
    with monkeypatch.context() as changed:
        changed.setattr(np, "abs", lambda x: x)
        assert judge.harmed() == "numpy.abs"
    with monkeypatch.context() as changed:
        changed.setattr(posenc_ref.RoPE, "apply", lambda self, x, positions: x)
        assert judge.harmed() == "RoPE.apply"
    with monkeypatch.context() as changed:
        changed.delitem(sys.modules, "numpy.linalg")
        assert judge.harmed() == "the imported module numpy.linalg"
    with monkeypatch.context() as changed:
        changed.setattr(state, "_limits", lambda: dict.fromkeys(judge.limits, -1))
        assert ("setrlimit" in judge.harmed()) == bool(judge.limits)
    with monkeypatch.context() as changed:  # what is added does no harm
        changed.setattr(np, "of_the_function", 1, raising=False)
        changed.setitem(sys.modules, "numpy.of_the_function", np)
        assert judge.harmed() == ""


class Fake:
    """A process whose function raises, after what ``harmed`` says."""

    def __init__(self, harmed=""):
        self.harmed, self.closed = harmed, 0
        self.items, self.error = [], None

    def run(self, *arguments, **settings):
        yield from self.items
        if self.error:
            raise self.error

    def close(self):
        self.closed += 1


@pytest.fixture
def judging():
    yield apart.judge_apart
    apart.judge_apart(None)


@pytest.mark.parametrize("harmed", ["", "numpy.abs"])
@pytest.mark.parametrize("ends", ["raised", "usage"])
def test_an_error_after_harm_is_no_error_of_posenc(judging, harmed, ends):
    child = Fake(harmed)
    if ends == "raised":
        child.error = Raised("KeyError: 3", "", False)
    else:
        child.items = [{"usage": "[Errno 24] Too many open files"}]
    judging(child)
    own = apart.InternalError if ends == "raised" else apart.UsageError
    with pytest.raises(apart.NoVerdict if harmed else own) as found:
        apart.judged(lambda: None, {"target": "a.py:f"})
    assert not harmed or "changed numpy.abs, so it could not be judged" in str(found.value)


def test_a_new_file_gets_a_new_process(judging):
    child = Fake()
    judging(child)
    counts = []
    for target in ("a.py:f", "a.py:g", "b.py:f", "a.py:f"):
        with contextlib.suppress(apart.NoVerdict):
            apart.judged(lambda: None, {"target": target})
        counts.append(child.closed)
    assert counts == [0, 0, 1, 2]


GOOD = "import numpy as np\nimport posenc_ref\ndef f(x, positions):\n    {}\n    return {}\n"
RIGHT = "posenc_ref.RoPE(8, layout='half').apply(x, positions)"
HARM = {
    "patch": ("posenc_ref.RoPE.apply = lambda self, x, *a, **k: x; np.abs = np.zeros_like", "x"),
    "clear": ("import sys; sys.modules.clear()", RIGHT),
    "files": ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))", RIGHT),
}


@pytest.mark.nightly
def test_no_function_changes_the_verdict_of_the_next(tmp_path):
    tables = []
    for n, (name, parts) in enumerate(HARM.items()):
        (tmp_path / f"{name}.py").write_text(GOOD.format(*parts))
        (tmp_path / f"good{n}.py").write_text(GOOD.format("pass", RIGHT))
        (tmp_path / f"bad{n}.py").write_text(GOOD.format("pass", "x"))
        names = (name, f"good{n}", f"bad{n}")
        tables += [f"[[check]]\ntarget = '{one}.py:f'\nencoding = '{ENCODING}'" for one in names]
    (tmp_path / "posenc.toml").write_text("\n".join(tables))
    ran = posenc(*shlex.split("ci"), cwd=tmp_path)
    for n in range(len(HARM)):
        assert f"good{n}.py:f conforms" in ran.err
        assert f"bad{n}.py:f deviates" in ran.err
    alone = posenc("check", "clear.py:f", "--encoding", ENCODING, cwd=tmp_path)
    assert alone.code == 3, alone
    alone = posenc("check", "files.py:f", "--encoding", ENCODING, cwd=tmp_path)
    assert alone.code == 3, alone
