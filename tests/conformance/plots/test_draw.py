"""Files of pictures, ``posenc plot`` and ``posenc report --html``."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from posenc_ref import ALiBi, RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.cli import app
from posenc_ref.conformance.plots.draw import drawn
from posenc_ref.conformance.plots.encodings import pictures

ROPE = '{"encoding": "RoPE", "head_dim": 16, "layout": "half"}'


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_an_svg_says_what_it_shows_and_is_the_same_each_time():
    rows = [("ALiBi, 8 heads", pictures(ALiBi(8), length=16))]
    svg = drawn(rows)
    assert drawn(rows) == svg
    texts = "".join(ElementTree.fromstring(svg).itertext())
    for words in ("ALiBi, 8 heads", "Bias of head 0", "key position - query position", "head 7"):
        assert words in texts


def test_a_png_is_drawn_too():
    assert drawn([("", pictures(ALiBi(8), length=4))], "png").startswith(b"\x89PNG")


def test_the_command_writes_a_new_file(tmp_path):
    file = tmp_path / "a.svg"
    done = run("plot", "alibi", "-o", file, "--picture", "distances")
    assert (done.exit_code, done.output) == (0, f"{file}: distances\n")
    assert file.read_bytes().count(b"Bias by offset") == 1
    again = run("plot", "alibi", "-o", file)
    assert again.exit_code == 2
    assert "exists already" in again.output


def test_the_command_prints_numbers():
    done = run("plot", ROPE, "--json", "--picture", "decay", "--length", "3")
    (row,) = json.loads(done.output)
    assert row["title"] == "RoPE(16, layout='half')"
    assert row["pictures"][0]["lines"][0]["x"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("alibi",), "give -o FILE"),
        (("alibi", "-o", "a.gif"), "must end in .svg, .png or .pdf"),
        (("alibi", "--json", "--picture", "wheel"), "--picture must be one of"),
        (("alibi", "--json", "--picture", "decay"), "has no picture decay"),
        (("alibi", ROPE, "--json"), "no picture in common"),
        (("gemma-3-4b", "llama-3-8b", "--json"), "has several layer types: pass --layer-type"),
        (("llama-3-8b", "--json", "--layer-type", "x"), "--layer-type must be one of"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments, said):
    done = run("plot", *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_a_function_is_judged_and_its_errors_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def apply(x, positions):\n"
        "    w = 10000.0 ** (-np.arange(8) / 8)\n"
        "    a = (positions[:, None] * w.astype(np.float16)).astype(np.float64)\n"
        "    c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)\n"
        "    l, r = x[..., :8], x[..., 8:]\n"
        "    return np.concatenate([l * c - r * s, r * c + l * s], -1)\n"
    )
    done = run("plot", "mine.py:apply", "--encoding", ROPE, "--json")
    (row,) = json.loads(done.stdout)
    assert row["title"].startswith("mine.py:apply deviates (")
    line = row["pictures"][0]["lines"][0]
    assert line["label"] == "mine.py:apply"
    assert max(line["y"]) > 0.1


class Outside(HTMLParser):
    """Collects what a page would load."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        loads = given.get("src"), given.get("href") if tag in ("link", "use", "image") else None
        self.found += [one for one in loads if one and not one.startswith("#")]
        if tag in ("script", "iframe", "object"):
            self.found.append(tag)


@pytest.fixture
def recorded(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def apply(x, positions):\n    return x\n")
    done = run("check", f"{file}:apply", "--encoding", ROPE, "--ndjson", tmp_path / "r.ndjson")
    assert done.exit_code == 1
    return tmp_path / "r.ndjson"


def test_a_page_has_everything_inside(recorded, tmp_path):
    done = run("report", recorded, "--html", tmp_path / "r.html")
    assert done.exit_code == 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    outside = Outside()
    outside.feed(text)
    assert outside.found == []
    assert "<h2>Positional encodings</h2>" in text
    assert "<td>deviates" in text
    assert "<td>✗</td>" in text  # a narrow window hides the last column; few fonts have emoji
    assert not re.search("[\u2600-\u26ff\u2705\u274c\U0001f000-\U0001ffff]", text)
    assert re.search(
        r"<figure role=\"img\" aria-label=\"Error by position of .*mine.py:apply\">", text
    )
    again = run("report", recorded, "--html", tmp_path / "r.html")
    assert again.exit_code == 2
    assert "exists already" in again.output


def test_foreign_names_cannot_write_html(tmp_path):
    from posenc_ref.conformance.plots.page import page
    from posenc_ref.conformance.surveys.ndjson import Recorded

    report = check(
        lambda x, positions: x, RoPE(16, layout="half"), "apply", name="<script>a</script>"
    )
    header = {"versions": {"numpy": "<b>2</b>"}, "platform": "<i>", "backend": "numpy"}
    text = page([Recorded(header, {}, report)])
    assert "<script" not in text
    assert "<b>2" not in text
    assert "<i>" not in text
