"""Files are written as a whole or not at all."""

import os
import stat

import pytest

from posenc_ref.conformance.harness import whole
from posenc_ref.conformance.harness.whole import write_whole


def test_text_and_bytes(tmp_path):
    path = tmp_path / "report.xml"
    for data in ("\N{GREEK SMALL LETTER THETA}", b"abc"):
        write_whole(path, data)
        assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "report.xml"
    path.write_text("old")

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(whole.os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions and links")
def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "report.xml", tmp_path / "link.xml"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
def test_a_pipe_is_written_directly(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(path, "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_an_error_names_the_file_and_not_the_one_beside_it(tmp_path):
    goal = tmp_path / "absent" / "x.xml"
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(goal, "text")
    assert caught.value.filename == str(goal)
