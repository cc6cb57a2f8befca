"""GGUF files: the bytes that tensors need, and errors that name the file."""

import re

import numpy as np
import pytest

from posenc_ref.conformance.adapters.gguf import from_gguf
from posenc_ref.conformance.adapters.gguf_structure import require_sound

gguf = pytest.importorskip("gguf", reason="it writes the files")


@pytest.fixture
def path(tmp_path):
    """A file with one tensor of 8 numbers, and no facts of a model."""
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "model.gguf"


def test_a_tensor_has_all_its_bytes(path):
    whole = path.read_bytes()
    end = whole.rindex(np.ones(8, np.float32).tobytes()) + 32
    path.write_bytes(whole[:end])
    require_sound(path)
    path.write_bytes(whole[: end - 1])
    with pytest.raises(ValueError, match=r"'rope_freqs.weight' needs 32 bytes at byte \d+"):
        require_sound(path)


def test_what_the_metadata_lack_is_said_with_the_file(path):
    with pytest.raises(ValueError, match=rf"\A{re.escape(str(path))}: "):
        from_gguf(path)
