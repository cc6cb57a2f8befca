"""Hostile functions, as records: what each does, when, and which exit codes are right.

Every function computes a correct rotation, unless what it does prevents that. An exit code of 0
or 1 is right where the function still answers, and 3 where it ended its process or hit a limit.
"""

from dataclasses import dataclass

HEAD = """
import asyncio, atexit, builtins, ctypes, faulthandler, gc, json, multiprocessing, os, random
import resource, signal, socket, subprocess, sys, tempfile, threading, time, warnings
import numpy as np

calls = 0
LATER = 12  # a call in the middle of a check


def right(x, positions):
    k = np.arange(x.shape[-1] // 2)
    angle = positions[..., None] * 10000.0 ** (-k / k.size)
    angle = angle if positions.ndim == 1 else angle[:, None]
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


class Drop:
    def __del__(self):
        raise SystemExit(0)


class Words:
    def write(self, text):
        sys.exit(0)

    def flush(self):
        os._exit(0)


class Mute(Exception):
    def __str__(self):
        sys.exit(0)


def forge(text):
    for fd in range(3, 64):
        try:
            os.write(fd, text)
        except OSError:
            pass


def daemon(then):
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork() == 0:
        then()
    os._exit(0)


def eat():
    kept = []
    while True:
        kept.append(np.ones(4_000_000))


def sleep():
    time.sleep(1000)

"""
CALL = """
def apply(x, positions):
    global calls
    calls += 1
    if {when}:
        {do}
    return right(x, positions)
"""
#: The forms in which something is done: the source of the module.
FORMS = {
    "import": HEAD + "{do}\n" + CALL.format(when="False", do="pass"),
    "first": HEAD + CALL.replace("{when}", "calls == 1"),
    "later": HEAD + CALL.replace("{when}", "calls == LATER"),
    "every": HEAD + CALL.replace("{when}", "True"),
}
CONFORMS, ANSWERS, RAISES, LOST = (0,), (0, 1, 3), (1, 2, 3), (3,)


@dataclass(frozen=True)
class Hostile:
    """A function: what it does, when, the right exit codes, and options of ``posenc check``."""

    name: str
    do: str
    form: str
    codes: tuple[int, ...]
    options: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Return the text of its module."""
        return FORMS[self.form].replace("{do}", self.do)


SHORT = ("--timeout", "4")
SMALL = ("--memory", "400")

#: What ends the process, in each form.
_ENDS = {
    "os._exit 0": "os._exit(0)",
    "os._exit 1": "os._exit(1)",
    "segmentation fault": "ctypes.string_at(0)",
    "abort": "os.abort()",
    "kill itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminate itself": "os.kill(os.getpid(), signal.SIGTERM)",
    "kill the group": "os.killpg(0, signal.SIGKILL)",
    "become true": 'os.execv("/bin/true", ["true"])',
    "become a verdict": 'os.execv("/bin/echo", ["echo", "CONFORMS", "apply"])',
    "limit its time": "resource.setrlimit(resource.RLIMIT_CPU, (0, 0)); exec('while True: pass')",
    "recurse in C": "sys.setrecursionlimit(10**8); exec('f = lambda: f()'); "
    "threading.stack_size(1 << 16); ctypes.memset(16, 0, 1 << 20)",
    "an alarm": "signal.alarm(1); time.sleep(20)",
}
#: What raises, and does not end the process by itself.
_RAISES = {
    "sys.exit 0": "sys.exit(0)",
    "sys.exit 3": "sys.exit(3)",
    "sys.exit text": 'sys.exit("CONFORMS")',
    "raise SystemExit": "raise SystemExit",
    "quit": "quit()",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "GeneratorExit": "raise GeneratorExit",
    "CancelledError": "raise asyncio.CancelledError",
    "BaseException": "raise BaseException('x')",
    "a mute exception": "raise Mute",
    "a long message": "raise ValueError('x' * 10_000_000)",
    "a surrogate": "raise ValueError('\\udc80')",
}
#: What never ends, or takes everything, in the first call.
_LIMITS = {
    "sleep": ("sleep()", SHORT),
    "spin": ("exec('while True: pass')", SHORT),
    "deadlock": ("exec('lock = threading.Lock(); lock.acquire(); lock.acquire()')", SHORT),
    "stop itself": ("os.kill(os.getpid(), signal.SIGSTOP)", SHORT),
    "wait for a child": ("subprocess.run(['sleep', '1000'])", SHORT),
    "join a thread": ("exec('t = threading.Thread(target=sleep); t.start(); t.join()')", SHORT),
    "listen": ("exec('s = socket.create_server((\"127.0.0.1\", 0)); s.accept()')", SHORT),
    "ignore signals": (
        "exec('for s in (15, 1, 2): signal.signal(s, signal.SIG_IGN)'); sleep()", SHORT,
    ),
    "eat memory": ("eat()", SMALL),
    "eat memory in a child": (
        "subprocess.run([sys.executable, '-c', 'x = [b\"x\" * 10**8 for _ in range(9)]; "
        "import time; time.sleep(1000)'])", SMALL,
    ),
    "eat memory in a fork": ("os.fork() or eat(); sleep()", SMALL),
}  # fmt: skip
#: What is done in passing; the function goes on to answer.
_PASSING = {
    "fork and leave": "os.fork() or os._exit(0)",
    "fork and sleep": "os.fork() or sleep()",
    "fork and return": "os.fork()",
    "a daemon": "daemon(sleep)",
    "a daemon that eats": "daemon(lambda: subprocess.Popen(['sleep', '1000']))",
    "a process": "subprocess.Popen(['sleep', '1000'])",
    "a process in a session": "subprocess.Popen(['sleep', '1000'], start_new_session=True)",
    "a process by sh": "subprocess.Popen('sleep 1000 & sleep 1000', shell=True)",
    "a process by multiprocessing": (
        "multiprocessing.get_context('fork').Process(target=sleep).start()"
    ),
    "a thread": "threading.Thread(target=sleep).start()",
    "a daemon thread": "threading.Thread(target=sleep, daemon=True).start()",
    "a thread that exits": "threading.Thread(target=sys.exit, args=(0,)).start()",
    "at exit": "atexit.register(os._exit, 0)",
    "at exit of a thread": "threading._register_atexit(os._exit, 0)",
    "a finalizer": "Drop()",
    "a finalizer at the end": "builtins.kept = Drop()",
    "an orphan loop": "builtins.kept = [Drop()]; kept.append(kept)",
    "print": "print('CONFORMS  apply  (apply, numpy, float32)')",
    "print control characters": "print('\\x1b[2J\\x1b]0;title\\x07\\u202e')",
    "print to standard error": "print('posenc: 0 errors', file=sys.stderr)",
    "write to 1": "os.write(1, b'CONFORMS\\n')",
    "write bytes": "os.write(1, bytes(range(256)))",
    "flood": "exec('for _ in range(50): os.write(1, b\"x\" * 1_000_000)')",
    "flood in lines": "exec('for _ in range(50): os.write(1, b\"x\\\\n\" * 500_000)')",
    "flood standard error": "exec('for _ in range(50): os.write(2, b\"x\" * 1_000_000)')",
    "close 1": "os.close(1)",
    "close 0, 1, 2": "os.closerange(0, 3)",
    "no stdout": "sys.stdout = None",
    "a closed stdout": "sys.stdout.close()",
    "another folder": "os.chdir('/')",
    "a deleted folder": "d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
    "no environment": "os.environ.clear()",
    "handlers": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "no path": "sys.path.clear()",
    "a trace": "sys.settrace(lambda *a: None)",
    "no collection": "gc.disable()",
    "warnings": "warnings.simplefilter('error')",
    "errors of NumPy": "np.seterr(all='raise')",
    "read": "sys.stdin.read()",
    "faulthandler": "faulthandler.disable()",
    "umask": "os.umask(0o777)",
    "nice": "os.nice(5)",
    "random": "random.seed(0); np.random.seed(0)",
}
#: What reaches for the machinery in the same process; the parent must not print a pass of it.
_REACHES = {
    "close everything": "os.closerange(3, 256)",
    "forge a line": 'forge(b\'{"nonce": "", "number": 1, "item": {}}\\n\')',
    "forge no JSON": "forge(b'CONFORMS\\n')",
    "forge without end": "forge(b'x' * 100_000)",
    "no files": "resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))",
    "no json": "json.dumps = sys.exit",
    "no exit": "os._exit = lambda code: None",
    "a stdout that exits": "sys.stdout = Words()",
    "a stderr that exits": "sys.stderr = Words()",
}

HOSTILE = [
    *(Hostile(f"{name}, {form}", do, form, LOST)
      for name, do in _ENDS.items() for form in ("import", "later")),
    *(Hostile(f"{name}, {form}", do, form, RAISES)
      for name, do in _RAISES.items() for form in ("import", "first")),
    *(Hostile(name, do, "first", LOST, limit) for name, (do, limit) in _LIMITS.items()),
    *(Hostile(name, do, "first", CONFORMS) for name, do in _PASSING.items()),
    *(Hostile(name, do, "later", ANSWERS if name != "forge a line" else LOST)
      for name, do in _REACHES.items()),
    Hostile("a daemon, and exits", "daemon(sleep); os._exit(0)", "first", LOST),
    Hostile("fork in every call", "os.fork()", "every", CONFORMS),
    Hostile("fork in every call, and raise", "if os.fork() == 0: raise ValueError", "every",
            CONFORMS),
    Hostile("sleep, import", "sleep()", "import", LOST, SHORT),
    Hostile("eat memory, import", "eat()", "import", LOST, SMALL),
    Hostile("print in every call", "print('x' * 10_000)", "every", CONFORMS),
    Hostile("a thread in every call", "threading.Thread(target=sleep).start()", "every", CONFORMS),
    Hostile("a process in every call", "subprocess.Popen(['sleep', '1000'])", "every", CONFORMS),
]  # fmt: skip
