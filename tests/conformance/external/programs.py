"""Programs in plain Python behind the protocol of docs/any-language.md, as texts.

They share no code with the suite's side of the pipe.
"""

#: Serves whatever encoding hello names, with posenc_ref; reads and writes the lines by itself.
SERVER = """
import json, sys
import numpy as np
import posenc_ref
from posenc_ref.backends import backend

CODES = {"float64": ">f8", "float32": ">f4", "float16": ">f2", "int64": ">i8", "int32": ">i4"}
forget = sys.argv[1:] == ["tires"]


def read(value):
    if isinstance(value, list):
        return [read(v) for v in value]
    if not isinstance(value, dict):
        return value
    name, shape = value["dtype"], value["shape"]
    raw = bytes.fromhex(value["hex"])
    if name == "bfloat16":
        wide = np.frombuffer(raw, ">u2").astype("u4") << 16
        return backend("numpy").asarray(wide.view("f4").reshape(shape), name, None)
    return np.frombuffer(raw, CODES[name]).astype(CODES[name][1:]).reshape(shape)


def write(value):
    if isinstance(value, tuple | list):
        return [write(v) for v in value]
    value = np.asarray(value)
    name, shape = value.dtype.name, list(value.shape)
    if name == "bfloat16":
        raw = (value.astype("f4").view("u4") >> 16).astype(">u2")
    else:
        raw = value.astype(CODES[name])
    return {"hex": raw.tobytes().hex(), "shape": shape, "dtype": name}


def serve(call, *given):
    at = lambda x, offset: encoding.apply(x, offset + np.arange(x.shape[-2]))
    if call == "apply_qk":
        return encoding.apply(given[0], given[2]), encoding.apply(given[1], given[3])
    if call == "apply_vjp":
        return encoding.adjoint(given[2], given[1])
    if call == "apply_offset":
        return at(given[0], given[1][:, None])
    if call in ("decode", "key_cache"):
        return encoding.apply(given[0], np.arange(sum(given[1])))
    if call == "calls":
        return [at(x, offset) for x, offset in given[0]]
    if call == "shift_keys":
        return encoding.shift(*given)
    if call == "slopes":
        return posenc_ref.ALiBi(*given).slopes()
    if call == "bias":
        bias = encoding.bias(range(given[1] - given[0], given[1]), range(given[1]))
        return bias * (1 + (forget and calls > 4))
    return getattr(encoding, call)(*given)


calls = 0
for text in sys.stdin:
    message = json.loads(text)
    if message["call"] == "hello":
        encoding = posenc_ref.from_dict(message["encoding"])
        body = {"protocol": 1}
    else:
        given = [read(v) for v in message["arguments"]]
        calls += 1
        try:
            value = serve(message["call"], *given)
            body = {"result": write(value)}
        except (TypeError, ValueError) as error:
            body = {"refused": str(error) or "no reason"}
    print(json.dumps({"id": message["id"], **body}), flush=True)
"""

#: The identity, misbehaving in one way at a time.
FAKE = """
import json, os, signal, sys
how = sys.argv[1]
count = 0
if how == "prints before hello":
    print("loading the model ...", flush=True)
for text in sys.stdin:
    message = json.loads(text)
    number = message["id"]
    if how == "echoes" or how == "echoes calls" and number:
        print(text, end="", flush=True)
        continue
    if message["call"] == "hello":
        body = {"id": 0, "protocol": 1}
        if how == "another protocol":
            body["protocol"] = 2
        if how == "refuses hello":
            body = {"id": 0, "refused": "no licence"}
        if how == "hello without protocol":
            body = {"id": 0}
        if how == "dies at hello":
            sys.exit("cannot open rope.bin")
        print(json.dumps(body), flush=True)
        continue
    count += 1
    x, positions = message["arguments"]
    answer = {"id": number, "result": x}
    if how == "is killed":
        sys.stderr.write("about to divide by 0\\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "dies at int32" and positions["dtype"] == "int32":
        os._exit(3)
    if how == "ends":
        sys.exit()
    if how == "closes its output":
        os.close(1)
        sys.stdin.read()
    if how == "does not flush":
        continue  # what it wrote is still in its buffer
    if how == "no newline":
        print(json.dumps(answer), end="", flush=True)
        os._exit(0)
    if how == "prints":
        print("call", count, flush=True)
    if how == "answers twice":
        print(json.dumps(answer))
    if how == "another id":
        answer["id"] += 1
    if how == "refuses without a reason":
        answer = {"id": number, "refused": ""}
    if how == "refuses and answers":
        answer["refused"] = "too long"
    if how == "answers nothing":
        answer = {"id": number}
    if how == "null":
        answer["result"] = None
    if how == "plain numbers":
        answer["result"] = [1.0, 2.0]
    if how == "text":
        answer["result"] = "0.5"
    if how == "a list":
        answer = [number]
    if how == "too few digits":
        answer["result"]["hex"] = x["hex"][:-2]
    if how == "no digits":
        answer["result"]["hex"] = "0x" + x["hex"][2:]
    if how == "spaces":
        answer["result"]["hex"] = "  " + x["hex"][2:]
    if how == "unknown dtype":
        answer["result"]["dtype"] = "float8"
    if how == "no shape":
        del answer["result"]["shape"]
    if how == "negative shape":
        answer["result"]["shape"] = [-1, 8]
    print(json.dumps(answer), flush=True)
"""
