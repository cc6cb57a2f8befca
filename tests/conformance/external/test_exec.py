"""Programs in any language: what crosses the pipe, and what goes wrong there."""

import json
import sys

import numpy as np
import pytest

import posenc_ref
from posenc_ref import ALiBi, Learned, MultiAxisRoPE, RoPE, Sinusoidal, T5Bias
from posenc_ref.conformance import HarnessError, check, from_command
from posenc_ref.conformance.external import wire as exec_wire
from posenc_ref.conformance.isolation.conversation import Conversation
from tests.conformance.external.programs import FAKE, SERVER
from tests.night import by_day

HALF = RoPE(8, layout="half", base=500000.0)


@pytest.fixture
def program(tmp_path):
    """A function that makes the command of a Python program with arguments."""

    def make(text, *arguments):
        path = tmp_path / "program.py"
        path.write_text(text, encoding="utf-8")
        return [sys.executable, "-X", "utf8", str(path), *arguments]

    return make


# --- the lines ------------------------------------------------------------------------------------


def test_a_request_is_written_as_documented():
    text = exec_wire.request(7, "apply", (np.array([[1.0, -0.0]], np.float32), np.array([-2]), 3))
    assert text == (
        b'{"id":7,"call":"apply","arguments":['
        b'{"dtype":"float32","shape":[1,2],"hex":"3f80000080000000"},'
        b'{"dtype":"int64","shape":[1],"hex":"fffffffffffffffe"},3]}\n'
    )


def test_lists_go_over_whole():
    text = exec_wire.request(1, "calls", ([(np.zeros((), np.int32), 5)],))
    assert json.loads(text)["arguments"] == [[[{"dtype": "int32", "shape": [], "hex": "0" * 8}, 5]]]


@pytest.mark.parametrize("dtype", exec_wire.DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 1, 3)])
def test_every_array_comes_back_bit_for_bit(dtype, shape):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    raw = np.random.default_rng(1).bytes(int(np.prod(shape)) * kind.itemsize)
    bits = np.frombuffer(raw, f"u{kind.itemsize}")
    sent = (bits % 2 if dtype == "bool" else bits).view(kind).reshape(shape)
    got = exec_wire.decode(json.loads(exec_wire.request(1, "f", (sent,)))["arguments"][0])
    assert got.dtype == kind
    assert got.shape == shape
    assert got.tobytes() == sent.tobytes()


def test_what_is_no_array_of_ours_is_not_sent():
    with pytest.raises(TypeError, match="got complex128"):
        exec_wire.request(1, "f", (np.zeros(1, complex),))


# --- surfaces -------------------------------------------------------------------------------------

TABLE = np.random.default_rng(3).standard_normal((64, 8)).astype(np.float32)
BIASES = np.random.default_rng(4).standard_normal((32, 4))
DYNAMIC = RoPE(8, layout="half", scaling=posenc_ref.DynamicNTK(4.0, 256))
SOONER = DYNAMIC.replace(scaling=posenc_ref.DynamicNTK(4.0, 128))
AXES = MultiAxisRoPE(16, sections=(2, 3, 3), layout="half")
#: surface, what the program serves, something else, and the code of the difference.
SERVED = [
    ("apply", HALF, HALF.replace(layout="interleaved"), "layout"),
    ("apply", AXES, AXES.replace(sections=(4, 2, 2)), "sections"),
    *(
        (surface, HALF, HALF.replace(base=10000.0), "base")
        for surface in (
            "apply_qk",
            "apply_vjp",
            "apply_offset",
            "decode",
            "key_cache",
            "calls",
            "shift_keys",
        )
    ),
    ("cos_sin", HALF, HALF.replace(base=10000.0), "base"),
    ("frequencies", HALF, HALF.replace(base=10000.0), "base"),
    ("frequencies", DYNAMIC, SOONER, "scaling-formula"),
    ("table", Sinusoidal(8), Sinusoidal(8, offset=1), "position-origin"),
    ("table", Learned(TABLE), Learned(TABLE[::-1].copy()), "wrong-row"),
    ("slopes", ALiBi(4), ALiBi(4, max_bias=4.0), "slopes"),
    ("bias", ALiBi(4), ALiBi(4, max_bias=4.0), "slopes"),
    ("bucket", T5Bias(BIASES), T5Bias(BIASES, max_distance=64), "bucket-clamp"),
]
#: Surfaces with the kinds of arguments and results that another one of the list has.
ALIKE = {"apply_qk", "apply_vjp", "apply_offset", "decode", "key_cache", "shift_keys", "slopes"}
IDS = [f"{surface}-{type(encoding).__name__}" for surface, encoding, *_ in SERVED]


@pytest.mark.parametrize(
    ("surface", "encoding", "other", "code"),
    [
        pytest.param(*row, id=name, marks=pytest.mark.nightly if row[0] in ALIKE else ())
        for row, name in zip(SERVED, IDS, strict=True)
    ],
)
def test_every_surface_crosses_the_pipe(program, surface, encoding, other, code):
    served = from_command(program(SERVER), surface, encoding)
    report = check(served)
    assert report.verdict == "conforms", report
    assert report.encoding == repr(encoding)
    report = check(served.call, other, surface)
    assert report.verdict == "deviates", report
    assert code in report.codes


def test_a_program_is_run_once(program, tmp_path):
    counter = tmp_path / "starts"
    text = f"open({str(counter)!r}, 'a').write('x')\n"
    served = from_command(program(text + SERVER), "cos_sin", HALF)
    assert check(served).passed
    assert check(served).passed
    assert counter.read_text() == "x"


@pytest.mark.parametrize("dtype", by_day(["float64", "float16", "bfloat16"], {"float16"}))
def test_every_dtype_crosses_the_pipe(program, dtype):
    report = check(from_command(program(SERVER), "apply", HALF), dtype=dtype)
    assert report.verdict == "conforms", report
    assert report.dtype == dtype


def test_a_fresh_instance_is_another_process(program):
    """Five calls tire one instance; neither a fresh one nor its calls have to do with it."""
    one = from_command(program(SERVER, "tires"), "bias", ALiBi(4))
    first, *_, tired = [one(2, 3) for _ in range(5)]
    assert np.array_equal(tired, 2 * first)
    other = one.factory()
    assert np.array_equal(other(2, 3), first)
    assert np.array_equal(one(2, 3), tired)
    assert other.surface == "bias"
    assert other.factory is not None


# --- what goes wrong ------------------------------------------------------------------------------

BROKEN = {
    "prints before hello": ["hello", "is not JSON: 'loading the model ...'", "standard error"],
    "another protocol": ['{"id": 0, "protocol": 1}', '"protocol": 2'],
    "refuses hello": ["refuses to be judged: no licence"],
    "hello without protocol": ['{"id": 0, "protocol": 1}'],
    "dies at hello": ["hello", "exit status 1", "standard error: cannot open rope.bin"],
    "ends": ["ended (exit status 0)", "call 1, apply(float32 (2, 3, 5, 8)", "[0, 1, 2, 3, 4]): it"],
    "closes its output": ["closed its standard output", "call 1"],
    "no newline": ["exit status 0", "unfinished line", "newline after every answer"],
    "does not flush": ["did not answer call 1", "flush", "--timeout"],
    "prints": ["call 1", "'call 1'", "write only answers to standard output"],
    "answers twice": ["call 2", "id 1, not that of the request, 2"],
    "another id": ["call 1", "id 2, not that of the request, 1"],
    "refuses without a reason": ["call 1", '"refused" must be the reason'],
    "refuses and answers": ["call 1", 'one of "result" and "refused", it has refused, result'],
    "answers nothing": ["call 1", "it has nothing"],
    "echoes": ["answered hello with the request itself: it echoes what it reads"],
    "echoes calls": ["answered call 1, apply(float32", "itself: it echoes what it reads"],
    "null": ["call 1", "holds null; an array is"],
    "plain numbers": ["call 1", "holds plain numbers; an array is"],
    "text": ["call 1", 'holds "0.5"; an array is'],
    "a list": ["call 1", "is not a JSON object: '[1]'"],
    "too few digits": ["call 1", "array of 240 float32", "is 1918 digits", "1920 in all"],
    "no digits": ["call 1", "hexadecimal digits: '0x"],
    "spaces": ["call 1", "hexadecimal digits: '  "],
    "unknown dtype": ["call 1", "dtype 'float8'; allowed are float64, float32"],
    "no shape": ["call 1", "an object with dtype, hex; an array is"],
    "negative shape": ["call 1", "shape [-1, 8], not a list of sizes"],
}


#: Enough for Python to start on a busy machine; only what does not flush takes as long.
LONG = 60.0
SHORT = 2.0


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_broken_is_told_apart(program, how):
    limit = SHORT if how == "does not flush" else LONG
    with pytest.raises(HarnessError) as caught:
        check(from_command(program(FAKE, how), "apply", HALF, timeout=limit))
    assert [words for words in BROKEN[how] if words not in str(caught.value)] == []


@pytest.mark.nightly
def test_no_message_is_that_of_another(program):
    """Every expectation is met by its own mistake alone."""
    said = {}
    for how in BROKEN:
        limit = SHORT if how == "does not flush" else LONG
        with pytest.raises(HarnessError) as caught:
            check(from_command(program(FAKE, how), "apply", HALF, timeout=limit))
        said[how] = str(caught.value)
    hello = {"another protocol", "hello without protocol"}  # one cause, two symptoms
    for how, words in BROKEN.items():
        fits = {other for other, text in said.items() if all(word in text for word in words)}
        assert fits <= ({how} | (hello if how in hello else set())), how


def test_a_program_that_is_killed_is_a_finding_not_a_harness_error(program):
    report = check(from_command(program(FAKE, "is killed"), "apply", HALF))
    (finding,) = report.findings
    assert (finding.code, finding.severity) == ("raises", "error")
    assert "killed by SIGSEGV in call 1, apply(float32 (2, 3, 5, 8), int64" in finding.evidence
    assert "standard error: about to divide by 0" in finding.evidence
    assert "refused" in finding.remedy
    assert "sanitizer" in finding.remedy


@pytest.mark.nightly
def test_dying_at_an_optional_input_is_no_refusal(program):
    """The same program, refusing instead, passes with a limit."""
    declared = HALF
    dies = SERVER.replace(
        "    else:\n        given =",
        "    else:\n        if any(a['dtype'] == 'int32' for a in message['arguments']):\n"
        "            DO\n        given =",
    )
    report = check(from_command(program(dies.replace("DO", "sys.exit(3)")), "apply", declared))
    assert report.codes == ["raises"], report
    (finding,) = report.findings
    assert "exit status 3" in finding.evidence
    assert "int32" in finding.evidence
    refuse = "print(json.dumps({'id': message['id'], 'refused': 'no int32'}), flush=True); continue"
    report = check(from_command(program(dies.replace("DO", refuse)), "apply", declared))
    assert report.passed, report
    assert "int32 positions: refused (Refusal: no int32)" in report.limits


def test_problems_are_those_of_one_check(program):
    served = from_command(program(FAKE, "is killed"), "apply", HALF)
    assert check(served).codes == ["raises"]
    assert served.problems() == []
    late = from_command(program(FAKE, "does not flush"), "apply", HALF, timeout=SHORT)
    for _ in range(2):  # the second check starts it anew
        with pytest.raises(HarnessError, match="did not answer call 1"):
            check(late)


def test_a_broken_program_is_not_asked_again(program, monkeypatch):
    asked, ask = [], Conversation.ask
    monkeypatch.setattr(
        Conversation, "ask", lambda talk, *given: asked.append(given) or ask(talk, *given)
    )
    served = from_command(program(FAKE, "prints"), "apply", HALF)
    for _ in range(3):
        with pytest.raises(HarnessError, match="'call 1'"):
            served.call(np.zeros((1, 1, 1, 8), np.float32), np.arange(1))
    assert len(asked) == 2  # hello, and the call that it answers wrongly


def test_no_process_outlives_its_function(program):
    served = from_command(program(SERVER), "cos_sin", HALF)
    process = served.call._talk.group.process
    assert process.poll() is None
    del served
    assert process.poll() == 0


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        ("./rope --fast", TypeError, "list of words"),
        ([], ValueError, "name a program"),
        (["./no-such-program"], HarnessError, "cannot be started: No such file"),
        ([__file__], HarnessError, "cannot be started: Permission denied"),
    ],
)
def test_a_command_that_is_none(command, error, words):
    with pytest.raises(error, match=words):
        from_command(command, "apply")


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_that_is_none(timeout):
    with pytest.raises(ValueError, match="positive number of seconds"):
        from_command(["true"], "apply", timeout=timeout)


def test_all_calls_of_a_slow_program_have_a_limit(program):
    slow = (
        'import time\nprint(\'{"id": 0, "protocol": 1}\', flush=True)\n'
        "input()\ninput()\ntime.sleep(20)\n"
    )
    served = from_command(program(slow), "apply", HALF)
    served.call.program.begin -= 600.0  # as after many slow answers
    with pytest.raises(HarnessError, match=r"took more than 600 s for all calls, until call 1"):
        check(served, HALF)
