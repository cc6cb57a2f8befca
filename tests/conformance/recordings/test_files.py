"""Recordings in files: their formats, the roles of the tensors, and the layers."""

import zipfile

import ml_dtypes
import numpy as np
import pytest

from posenc_ref import ModelEncoding, RoPE
from posenc_ref.conformance import check_recorded, check_recorded_file
from posenc_ref.conformance.recordings.files import Tensor, read
from posenc_ref.conformance.recordings.roles import layers, role_of
from tests.conformance.handwritten import rope

BF16 = ml_dtypes.bfloat16
DIM = 16
HALF = RoPE(DIM, layout="half")
P = np.arange(40)
X = np.random.default_rng(0).standard_normal((1, 2, 40, DIM)).astype(np.float32)
RIGHT = {"q_before": X, "q_after": rope()(X, P), "position_ids": P}
WRONG = RIGHT | {"q_after": rope(base=5e5)(X, P)}


def npz(folder, tensors):
    np.savez(folder / "recorded.npz", **tensors)
    return folder / "recorded.npz"


def npy(folder, tensors):
    for name, tensor in tensors.items():
        np.save(folder / f"{name}.npy", tensor)
    return folder


def safetensors(folder, tensors):
    numpy = pytest.importorskip("safetensors.numpy", reason="the package safetensors is needed")
    numpy.save_file(tensors, folder / "recorded.safetensors")
    return folder / "recorded.safetensors"


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("write", [npz, npy, safetensors])
def test_every_format_is_read(tmp_path, write, dtype):
    x = X.astype(dtype)
    right = {"q_before": x, "q_after": rope()(x, P), "position_ids": P}
    report = check_recorded_file(write(tmp_path, right), HALF)
    assert report.verdict == "conforms", report
    assert report.dtype == np.dtype(dtype).name
    wrong = right | {"q_after": rope(base=5e5)(x, P)}
    assert check_recorded_file(write(tmp_path, wrong), HALF).codes == ["base"]


def test_bfloat16_tensors_of_torch_are_read():
    torch = pytest.importorskip("torch", reason="a test of tensors of PyTorch")
    x = torch.tensor(X).to(torch.bfloat16).requires_grad_()
    tensor = Tensor.of("q", x)
    assert tensor.dtype == "bfloat16"
    assert np.array_equal(tensor.values, X.astype(BF16).astype(np.float64))
    y = torch.tensor(rope()(X, P))
    assert check_recorded(torch.tensor(X), y, torch.arange(40), HALF).verdict == "conforms"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.npz", None, "there is no file or folder"),
        ("torn.npz", b"PK\3\4 and no more", "torn.npz cannot be read as a .npz file"),
        ("torn.safetensors", b"\0" * 4, "torn.safetensors cannot be read as a .safetensors file"),
        ("tensors.pt", b"", r"got '.pt'; to convert tensors of PyTorch: safetensors"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, name, content, words):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors", reason="the package safetensors is needed")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read(tmp_path / name)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_are_refused(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "packed.npz", "w", method) as archive:
        archive.writestr("q_before.npy", b"\0" * 99)
    with pytest.raises(ValueError, match=rf"'q_before.npy' must be stored .* method {method}$"):
        read(tmp_path / "packed.npz")


def test_bad_arrays_are_refused_by_name(tmp_path):
    np.savez(tmp_path / "pickled.npz", q_before=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"pickled.npz: .* it holds Python objects"):
        read(tmp_path / "pickled.npz")
    with pytest.raises(ValueError, match=r"pickled.npz: .* it holds Python objects"):
        read(tmp_path)
    (tmp_path / "q.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"q\.npy cannot be read as an array"):
        read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"must hold \.npy, \.npz or"):
        read(tmp_path / "empty")


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("q", ("q_before", "")),
        ("query_states", ("q_before", "")),
        ("q_pre_rope", ("q_before", "")),
        ("k_post_rope", ("k_after", "")),
        ("q_embed", ("q_after", "")),
        ("qrot", ("q_after", "")),
        ("xq_out", ("q_after", "")),
        ("x", ("x_before", "")),
        ("y", ("x_after", "")),
        ("model.layers.3.self_attn.k_rotated", ("k_after", "model.layers.3")),
        ("layer_12/q_before", ("q_before", "layer.12")),
        ("position_ids", ("positions", "")),
        ("cache_position", ("positions", "")),
        ("q_positions", ("q_positions", "")),
        ("q_proj.weight", None),
        ("v_before", None),
        ("attention_mask", None),
    ],
)
def test_names_give_roles(name, role):
    assert role_of(name) == role


def test_roles_can_be_given(tmp_path):
    path = npz(tmp_path, {"a": X, "b": rope()(X, P), "c": P, "q": -X, "q_rot": X})
    roles = {"q_before": "a", "q_after": "b", "positions": "c"}
    assert check_recorded_file(path, HALF, roles=roles).verdict == "conforms"
    assert check_recorded_file(path, HALF).verdict == "deviates"


def test_a_star_stands_for_the_layer(tmp_path):
    tensors = {f"h.{n}.{name}": RIGHT[role] for n in (2, 10) for name, role in
               (("in", "q_before"), ("out", "q_after"))}  # fmt: skip
    found = layers(tensors, {"q_before": "h.*.in", "q_after": "h.*.out"}, "here")
    assert [layer.number for layer in found] == [2, 10]


@pytest.mark.parametrize(
    ("tensors", "roles", "words"),
    [
        ({"a": X}, {}, r"holds no tensor both before and after .*it has a \(1, 2, 40, 16\)"),
        (RIGHT, {"r": "q"}, "role must be one of q_before, .*got 'r'"),
        (RIGHT, {"q_before": "Q"}, "has no tensor 'Q' .*it has q_before, q_after, position_ids"),
        (RIGHT | {"q": X}, {}, "both 'q_before' and 'q' look like q_before"),
    ],
)
def test_unclear_roles_are_refused(tensors, roles, words):
    with pytest.raises(ValueError, match=words):
        layers(tensors, roles, "here")


def layered(*bases):
    """Return a recording with one base a layer."""
    found = {"positions": P + 5}
    for n, base in enumerate(bases):
        found |= {f"layers.{n}.q": X, f"layers.{n}.q_rot": rope(base=base)(X, P + 5)}
    return found


def test_each_layer_is_judged(tmp_path):
    report = check_recorded_file(npz(tmp_path, layered(1e4, 5e5, 5e5)), HALF)
    assert report.codes == ["base"]
    assert report.findings[0].evidence.startswith("layers.1: ")
    assert report.findings[0].evidence.endswith("also in layers.2")
    assert report.executed == {"values": 3}
    assert len(report.controls) == 6


def test_layers_of_a_model_have_their_own_encoding(tmp_path):
    model = ModelEncoding(
        "two bases",
        encodings={"local": HALF, "global": HALF.replace(base=5e5), "none": None},
        layer_types=("local", "local", "global", "none"),
    )
    right = npz(tmp_path, layered(1e4, 1e4, 5e5, 1e4))
    assert check_recorded_file(right, model).executed == {"values": 3}  # the last has no encoding
    wrong = check_recorded_file(npz(tmp_path, layered(1e4, 1e4, 1e4)), model)
    assert wrong.codes == ["base"]
    assert wrong.findings[0].evidence.startswith("layers.2")
    right = npz(tmp_path, layered(1e4, 5e5))
    assert check_recorded_file(right, model, layer_type="local").codes == ["base"]
    with pytest.raises(ValueError, match="layer_type must be one of local, global, none"):
        check_recorded_file(right, model, layer_type="full")
    with pytest.raises(ValueError, match="layer 4 is past the last layer"):
        check_recorded_file(npz(tmp_path, layered(*[1e4] * 5)), model)
    with pytest.raises(ValueError, match="several encodings"):
        check_recorded_file(npz(tmp_path, RIGHT), model)
