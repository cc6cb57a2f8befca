"""Valid inputs, which the fuzzers change."""

import functools
import hashlib
import io
import json
from pathlib import Path

import numpy as np

import posenc_ref as pr
from posenc_ref._registry import CLASSES, classes
from posenc_ref.models.config_facts import table
from tests.fuzz.mutate import dumped

ROOT = Path(__file__).parents[2]
#: A configuration with an entry of each kind, for models that state none of their own.
_COMMON = {
    "num_hidden_layers": 8,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
}
_SCALINGS = (
    None,
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    {
        "rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32,
        "original_max_position_embeddings": 1024,
    },
    {"type": "default", "mrope_section": [8, 12, 12]},
)  # fmt: skip


@functools.cache
def configurations():
    """Return a configuration of every known model type, and of Llama with every scaling."""
    facts = table("config_defaults")["models"]
    names = [*table("text_models")["models"], *table("vision_models")["models"]]
    found = [{"model_type": n, **_COMMON, **facts.get(n, {}).get("defaults", {})} for n in names]
    found += [{"model_type": n, **_COMMON} for n in (*names, *table("other_models")["models"])]
    found += [
        {"model_type": n, **_COMMON, "rope_theta": 5e5, "rope_scaling": s}
        for n in ("llama", "qwen2", "qwen2_vl_text", "phi3", "mistral", "deepseek_v3")
        for s in _SCALINGS
    ]
    found += [
        {"model_type": n, part: {**_COMMON, "model_type": inner}, "architectures": ["A"]}
        for n, parts in table("config_defaults")["parts"].items()
        for part, inner in parts.items()
    ]
    return found


@functools.cache
def config_keys():
    """Return the names of entries that readers know."""
    known = {"rope_theta", "rope_parameters", "per_layer_config", "text_config", "swa_head_dim"}
    known |= {"layer_rope_theta", "no_rope_layers", "block_types", "attn_layer_indices", "factor"}
    known |= {"partial_rotary_factor", "partial_rotary_factors", "original_max_position_embeddings"}
    for config in configurations():
        known |= set(config)
    for name in ("text_models", "vision_models"):
        for model in table(name)["models"].values():
            known |= {v for v in model.values() if isinstance(v, str) and v.isidentifier()}
            known |= {n for v in model.values() if isinstance(v, list) for n in v if type(n) is str}
    return sorted(known | set(table("config_keys")["keys"]))


@functools.cache
def metadata():
    """Return the metadata of a GGUF file of every known architecture."""
    found = []
    for name in table("gguf_architectures")["architectures"]:
        found.append({
            "general.architecture": name, "general.name": "A model", f"{name}.block_count": 4,
            f"{name}.context_length": 8192, f"{name}.embedding_length": 256,
            f"{name}.attention.head_count": 4, f"{name}.attention.head_count_kv": 2,
            f"{name}.attention.key_length": 64, f"{name}.rope.dimension_count": 64,
            f"{name}.rope.freq_base": 500000.0, f"{name}.rope.dimension_sections": [16, 8, 8, 0],
            f"{name}.rope.scaling.type": "yarn", f"{name}.rope.scaling.factor": 4.0,
            f"{name}.rope.scaling.original_context_length": 2048,
            f"{name}.attention.sliding_window": 512,
        })  # fmt: skip
        found.append({key: v for key, v in found[-1].items() if "scaling" not in key})
    return found


@functools.cache
def metadata_keys():
    """Return the keys that readers of GGUF files know."""
    from posenc_ref.models.gguf_schedule import KEYS

    more = ("attention.scale", "attention.key_length_mla", "rope.scaling.yarn_log_multiplier")
    names = ("llama", "gemma3", "deepseek2", "qwen2vl", "gpt-oss", "phi3")
    return [f"{name}.{key}" for name in names for key in (*KEYS, *more)]


@functools.cache
def values():
    """Return the JSON form of every example of the registry, and of some models."""
    from posenc_ref.conformance.registry import entries

    found = [value.to_dict() for entry in entries() for value in entry.examples.values()]
    found += [pr.preset(n).to_dict() for n in ("llama-3.1-8b", "gemma-3-4b", "deepseek-v3")]
    found += [s.to_dict() for s in (pr.YaRN(4.0, 1024), pr.LinearScaling(2.0), pr.NTKScaling(2.0))]
    return json.loads(json.dumps(found))


@functools.cache
def value_keys():
    """Return the names of fields of every class."""
    known = {
        field for kind in CLASSES for c in classes(kind).values() for field in c.__annotations__
    }
    return sorted(known | {"encoding", "scaling", "model", "dtype", "shape", "hex"})


@functools.cache
def vectors():
    """Return files of golden vectors with a few small cases, and their manifest."""
    folder = ROOT / "conformance/vectors/v0"
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    found = []
    for name in manifest["files"]:
        document = json.loads((folder / name).read_text())
        for group in document["groups"]:
            cases = sorted(group["cases"], key=lambda case: len(json.dumps(case)))[:1]
            if len(json.dumps(cases)) < 4000:
                few = {**document, "groups": [{**group, "cases": cases}]}
                used = {flag for case in cases for flag in case["flags"]}
                few["flags"] = {k: v for k, v in document["flags"].items() if k in used}
                listed = {"few.json": {"sha256": "", "bytes": 0, "cases": 1}}
                found.append({"few.json": few, "MANIFEST.json": {**manifest, "files": listed}})
    return found


def vector_keys():
    """Return names in files of golden vectors."""
    return ["few.json", "../few.json", "cases", "hex", "values", "shape", "dtype", "groups", "id"]


@functools.cache
def reports():
    """Return recorded reports: of check, of verify and of ci."""
    found = [json_lines for kind in ("check", "ci") for json_lines in _recorded(kind)]
    return found


def _recorded(kind):
    """Return the lines of one recorded report as JSON values."""
    import tempfile

    from posenc_ref.conformance import check
    from posenc_ref.conformance.surveys.batch import Batch, Checked
    from posenc_ref.conformance.surveys.ndjson_writer import recording

    right = pr.RoPE(8, layout="half")
    for wrong in (right, pr.RoPE(8, layout="interleaved")):
        report = check(lambda x, p, e=wrong: e.apply(x, p), right)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.ndjson"
            facts = {
                "subject": "f", "surface": "apply", "declared": repr(right), "backend": "numpy",
                "backend_version": "", "dtype": "float32",
            }  # fmt: skip
            with recording(path, kind, right, **facts) as record:
                if kind == "check":
                    record.report(report, 0.1)
                else:
                    one = Checked.of("f", report, 0.1)
                    record.case(one)
                    record.batch(Batch([one], 0.1))
            yield [json.loads(line) for line in path.read_text().splitlines()]


def report_keys():
    """Return names in recorded reports."""
    return [
        "event",
        "id",
        "kind",
        "name",
        "executed",
        "code",
        "message",
        "codes",
        "report",
        "counts",
    ]


def sealed(lines):
    """Return recorded lines as a file whose digest and counts agree, as a forger would write it."""
    body = b"".join(mutated_line(line) for line in lines[:-1])
    last = lines[-1] if lines and isinstance(lines[-1], dict) else {}
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    return body + mutated_line({**last, "digest": digest})


def mutated_line(value):
    """Return one JSON value as a line."""
    return dumped(value) + b"\n"


@functools.cache
def recordings():
    """Return recordings of tensors as .npz and .safetensors files, by suffix."""
    from safetensors.numpy import save

    rng = np.random.default_rng(0)
    encoding = pr.RoPE(8, layout="half")
    before = rng.normal(size=(1, 2, 6, 8)).astype(np.float32)
    tensors = {
        "q_before": before, "q_after": encoding.apply(before, np.arange(6)),
        "positions": np.arange(6),
    }  # fmt: skip
    buffer = io.BytesIO()
    np.savez(buffer, **tensors)
    one = io.BytesIO()
    np.save(one, before)
    return [
        (".npz", buffer.getvalue()),
        (".safetensors", save(tensors)),
        (".npy", one.getvalue()),
    ]


@functools.cache
def gguf_files():
    """Return small GGUF files."""
    import tempfile

    import gguf

    found = []
    for divisors in (None, np.ones(32, np.float32)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "small.gguf"
            writer = gguf.GGUFWriter(path, "llama")
            writer.add_name("small llama")
            writer.add_block_count(2)
            writer.add_context_length(131072)
            writer.add_embedding_length(256)
            writer.add_head_count(4)
            writer.add_head_count_kv([2, 2])
            writer.add_rope_freq_base(500000.0)
            writer.add_rope_dimension_count(64)
            writer.add_token_list(["a", "b"])
            if divisors is not None:
                writer.add_tensor("rope_freqs.weight", divisors)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            found.append(path.read_bytes())
    return found


@functools.cache
def manifests():
    """Return manifests of posenc ci."""
    return [
        b'[defaults]\ndtype = ["float32", "float16"]\n\n[[check]]\ntarget = "a.py:f"\n'
        b"encoding = \"RoPE(8, layout='half')\"\nstrict = true\n",
        b'[[check]]\nexec = "sh x.sh"\npreset = "llama-3.1-8b"\nmax-position = 10\n',
    ]


def onnx_files():
    """Return the bytes of an ONNX model."""
    return [(ROOT / "examples/onnx/two_layers.onnx").read_bytes()]


def texts():
    """Return declarations as they stand on a command line."""
    return [
        'RoPE(64, layout="half", scaling=YaRN(4.0, 32768))', "ALiBi(8)", "Sinusoidal(16)",
        '{"encoding": "RoPE", "head_dim": 8, "layout": "half"}',
    ]  # fmt: skip


def overridden():
    """Return a configuration that overrides change."""
    return {"model_type": "llama", **_COMMON, "rope_theta": 5e5}


def overrides():
    """Return overrides of a configuration."""
    scalings = [{"rope_scaling": s} for s in _SCALINGS if s and "rope_type" in s]
    return [*scalings, _SCALINGS[1], {"head_dim": 128, "rope_theta": 1e6, "rope_parameters": {}}]


def answers():
    """Return answers of a program to request 1."""
    array = b'{"dtype":"float32","shape":[1,1,1,2],"hex":"3f0a51403f576aa4"}'
    return [
        b'{"id":1,"result":' + array + b"}", b'{"id":1,"refused":"too long"}',
        b'{"id":1,"result":[' + array + b", " + array + b"]}",
    ]  # fmt: skip
