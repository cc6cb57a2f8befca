"""Hostile programs behind ``--exec``, as records: what each does, and which exit codes are right.

All serve the identity over the pipe until they do what their name says. The exit code is 1 where
they are judged (the identity is no rotation, and a crash is a finding), else 3.
"""

from dataclasses import dataclass

PROGRAM = """
import ctypes, json, os, resource, signal, subprocess, sys, time

LATER = 5


def sleep():
    time.sleep(1000)


def eat():
    kept = []
    while True:
        kept.append(b"x" * 10_000_000)


def out(data):
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        pass


def answer(number, **body):
    out(json.dumps({"id": number, **body}).encode() + b"\\n")


def daemon(then):
    if os.fork():
        return os.wait()
    os.setsid()
    if os.fork() == 0:
        then()
    os._exit(0)


count = 0
for text in sys.stdin:
    message = json.loads(text)
    number = message["id"]
    if message["call"] == "hello":
        HELLO
        answer(0, protocol=1)
        continue
    count += 1
    x, positions = message["arguments"]
    if count == LATER:
        CALL
    answer(number, result=x)
"""
JUDGED, LOST = (1,), (3,)


@dataclass(frozen=True)
class Hostile:
    """A program: what it does at the first request and in a call, and the right exit codes.

    ``shell`` is a script that runs the program, which it calls ``$PROGRAM``.
    """

    name: str
    call: str = "pass"
    hello: str = "pass"
    codes: tuple[int, ...] = JUDGED
    shell: str = ""
    options: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Return the text of the program."""
        return PROGRAM.replace("HELLO", self.hello).replace("CALL", self.call)


SHORT = ("--timeout", "3")
SMALL = ("--memory", "300")
_FLOOD = "while True: out(b'x' * 1_000_000)"

HOSTILE = [
    Hostile("the identity"),
    # Ends, in a call: a finding of the call that is not answered, unless the status is 0.
    Hostile("exits with 0", "sys.exit(0)", codes=LOST),
    Hostile("exits with 1", "sys.exit(1)"),
    Hostile("exits with text", "sys.exit('CONFORMS')"),
    Hostile("os._exit 0", "os._exit(0)", codes=LOST),
    Hostile("raises", "raise ValueError"),
    Hostile("crashes", "ctypes.string_at(0)"),
    Hostile("aborts", "os.abort()"),
    Hostile("kills itself", "os.kill(os.getpid(), signal.SIGKILL)"),
    Hostile("kills its group", "os.killpg(0, signal.SIGTERM)"),
    Hostile("limits its time", "resource.setrlimit(resource.RLIMIT_CPU, (0, 0))\n"
            "        while True: pass"),
    Hostile("becomes true", "os.execv('/bin/true', ['true'])", codes=LOST),
    Hostile("becomes cat", "os.execv('/bin/cat', ['cat'])", codes=LOST, options=SHORT),
    # Ends, at the first request.
    Hostile("does not say hello", hello="sys.exit(0)", codes=LOST),
    Hostile("crashes at hello", hello="ctypes.string_at(0)", codes=LOST),
    Hostile("sleeps at hello", hello="sleep()", codes=LOST, options=SHORT),
    Hostile("floods at hello", hello=_FLOOD, codes=LOST, options=SHORT),
    # Never answers.
    Hostile("sleeps", "sleep()", codes=LOST, options=SHORT),
    Hostile("spins", "while True: pass", codes=LOST, options=SHORT),
    Hostile("stops itself", "os.kill(os.getpid(), signal.SIGSTOP)", codes=LOST, options=SHORT),
    Hostile("ignores signals", "for n in (1, 15): signal.signal(n, signal.SIG_IGN)\n"
            "        sleep()", codes=LOST, options=SHORT),
    Hostile("waits for a child", "subprocess.run(['sleep', '1000'])", codes=LOST, options=SHORT),
    Hostile("reads on", "sys.stdin.read()", codes=LOST, options=SHORT),
    Hostile("closes its input and sleeps", "os.close(0); sleep()", codes=LOST, options=SHORT),
    Hostile("closes its output and sleeps", "os.close(1); sleep()", codes=LOST, options=SHORT),
    Hostile("closes everything and sleeps", "os.closerange(0, 64); sleep()", codes=LOST,
            options=SHORT),
    Hostile("answers byte by byte", "for byte in b'{\"id\": 5,' + b' ' * 1000:\n"
            "            out(bytes([byte])); time.sleep(0.05)", codes=LOST, options=SHORT),
    # Writes too much.
    Hostile("floods without a newline", _FLOOD, codes=LOST, options=("--timeout", "20")),
    Hostile("floods in lines", "while True: out(b'x\\n' * 500_000)", codes=LOST, options=SHORT),
    Hostile("floods in empty lines", "while True: out(b'\\n' * 500_000)", codes=LOST,
            options=SHORT),
    Hostile("floods standard error", "for _ in range(300): os.write(2, b'x' * 1_000_000)"),
    Hostile("floods standard error and sleeps",
            "while True: os.write(2, b'x\\n' * 500_000)", codes=LOST, options=SHORT),
    Hostile("eats memory", "eat()", codes=LOST, options=SMALL),
    Hostile("eats memory in a child", "os.fork() or eat(); sleep()", codes=LOST, options=SMALL),
    # Starts processes.
    Hostile("leaves a child", "subprocess.Popen(['sleep', '1000'])"),
    Hostile("leaves a child in a session",
            "subprocess.Popen(['sleep', '1000'], start_new_session=True)"),
    Hostile("leaves a daemon", "daemon(sleep)"),
    Hostile("leaves a daemon and crashes", "daemon(sleep); ctypes.string_at(0)"),
    Hostile("forks, and both answer", "os.fork()", codes=LOST),
    Hostile("forks, and the child answers", "if os.fork(): sleep()"),
    # Scripts, as in the issue: the shell is the process that posenc starts.
    Hostile("sh", shell="$PROGRAM"),
    Hostile("sh with a child that sleeps", "sleep()", codes=LOST, shell="$PROGRAM\ntrue",
            options=("--timeout", "1")),
    Hostile("sh with a child in the background", shell="sleep 1000 &\n$PROGRAM"),
    Hostile("sh with a child without environment", "sleep()", codes=LOST,
            shell="env -i sleep 1000 &\n$PROGRAM\ntrue", options=("--timeout", "1")),
    Hostile("sh that outlives the program", codes=LOST, call="sys.exit(0)",
            shell="$PROGRAM\nsleep 1000", options=SHORT),
    Hostile("sh that starts another session", shell="setsid sleep 1000 &\n$PROGRAM"),
    Hostile("sh that traps", codes=LOST, call="sleep()",
            shell="trap '' TERM HUP INT\n$PROGRAM\nsleep 1000", options=SHORT),
    # Writes what is no answer.
    Hostile("answers no JSON", "out(b'CONFORMS\\n')", codes=LOST),
    Hostile("answers no UTF-8", "out(b'\\xff\\xfe\\n')", codes=LOST),
    Hostile("answers a deep list", "out(b'[' * 100_000 + b'\\n')", codes=LOST),
    Hostile("answers a long number", "out(b'{\"id\": ' + b'9' * 100_000 + b'}\\n')", codes=LOST),
    Hostile("answers NaN as its id", "out(b'{\"id\": NaN}\\n')", codes=LOST),
    Hostile("answers a huge shape", "answer(number, result={'dtype': 'float32', 'shape': "
            "[2**62, 2**62], 'hex': ''})\n        continue", codes=LOST),
    Hostile("answers control characters", "answer(number, refused='\\x1b[2J\\u202eCONFORMS')\n"
            "        continue"),
    Hostile("answers a surrogate", "out(b'{\"id\": 5, \"refused\": \"\\\\udc80\"}\\n')\n"
            "        continue"),
    Hostile("is named like a verdict", hello="out(json.dumps({'id': 0, 'protocol': 1, 'name': "
            "'x\\nCONFORMS  rope'}).encode() + b'\\n'); continue"),
]  # fmt: skip
