"""``posenc ci``: what a manifest may say, what is refused, and the result of many functions."""

import json
import sys
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from posenc_ref.conformance import cli
from posenc_ref.conformance.cli.ci import _check
from posenc_ref.conformance.cli.options.loading import UsageError
from posenc_ref.conformance.cli.options.manifest import Keys, read_manifest
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from tests.conformance.cli.conftest import MINE

HEAD = '[defaults]\nmax-position = 128\nencoding = "@half.json"\n'
RIGHT = '[[check]]\ntarget = "port.py:half"\n'
WRONG = '[[check]]\ntarget = "port.py:other_base"\n'
KNOWN = WRONG + 'expect = "base"\nreason = "issue 12"\n'


@pytest.fixture
def ci(manifest):
    """Return a function that runs ``posenc ci`` on a manifest with this text."""

    def run(text, *arguments):
        words = ["ci", str(manifest(text)), *map(str, arguments)]
        return CliRunner().invoke(cli.app, words)

    return run


def rows(result):
    """Return the verdict of every line of the table, by name."""
    lines = result.stdout.splitlines()
    first = next(n for n, line in enumerate(lines) if "  surface  " in line) + 1
    table = lines[first : lines.index("", first)]
    return {line.split("  ")[0]: line.split("  ")[-1].strip() for line in table}


# --- results --------------------------------------------------------------------------------------


def test_one_report_of_many_functions(ci, tmp_path):
    text = (
        HEAD
        + RIGHT
        + KNOWN
        + '[[check]]\ntarget = "port.py:slopes"\nsurface = "slopes"\n'
        + 'encoding = {encoding = "ALiBi", num_heads = 8}\n'
        + '[[check]]\ntarget = "port.py:halve"\n'
        + '[[check]]\ntarget = "quits.py:half"\n'
        + RIGHT.replace("port", "absent")
    )
    result = ci(text, "--junit", tmp_path / "r.xml", "--ndjson", tmp_path / "r.ndjson")
    assert result.exit_code == 1, result.output  # slopes: 12 heads are no power of two
    assert rows(result) == {
        "port.py:half": "ok",
        "port.py:other_base": "expected base",
        "port.py:slopes": "DEVIATES slopes",
        "port.py:halve": "ERROR",
        "quits.py:half": "ERROR",
        "absent.py:half": "ERROR",
    }
    assert "did you mean half?" in result.stdout
    assert "it ended Python (SystemExit: 3)" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        "6 in all: 1 conforming, 1 deviating as expected, 1 deviating, 3 in error"
    )
    assert "noise" not in result.stdout
    suites = ET.parse(tmp_path / "r.xml").getroot()
    assert [suite.get("name") for suite in suites] == list(rows(result))
    recorded = read_ndjson(tmp_path / "r.ndjson")
    assert [case.name for case in recorded.result.checked] == list(rows(result))
    shown = CliRunner().invoke(cli.app, ["report", str(tmp_path / "r.ndjson")])
    assert (shown.exit_code, shown.stdout) == (0, result.stdout)


@pytest.mark.parametrize(
    ("tables", "exit_code"),
    [
        (RIGHT, 0),
        (KNOWN, 0),
        (RIGHT + KNOWN, 0),
        (RIGHT + WRONG, 1),
        (RIGHT + 'expect = "base"\nreason = "issue 12"\n', 1),
        (WRONG + 'expect = ["base", "sign"]\nreason = "issue 12"\n', 1),
        (RIGHT + '[[check]]\ntarget = "port.py:nothing"\n', 2),
        (WRONG + '[[check]]\ntarget = "port.py:nothing"\n', 1),
        (
            '[[check]]\ntarget = "port.py:refusing"\nsurface = "apply"\n'
            'expect = "raises"\nreason = "issue 12"\n',
            0,
        ),
        (RIGHT + WRONG.replace("other_base", "nothing") + 'expect = "base"\nreason = "n"\n', 2),
    ],
)
def test_the_exit_code(ci, tables, exit_code):
    result = ci(HEAD + tables)
    assert result.exit_code == exit_code, result.output


def test_a_line_for_each_function_appears_as_soon_as_it_is_judged(ci):
    result = ci(HEAD + RIGHT + WRONG)
    lines = result.stderr.splitlines()
    assert "checks to run: 2" in lines[0]
    assert [line for line in lines if line.startswith("posenc: 1/2 port.py:half conforms, ")]
    assert lines[-1].startswith("posenc: 2/2 port.py:other_base deviates, ")
    assert "base: the base is 500, declared 10000" in lines[-1]


def test_one_json_document(ci):
    result = ci(HEAD + RIGHT + KNOWN + '[[check]]\ntarget = "port.py:halve"\n', "--json")
    body = json.loads(result.stdout)
    assert body["exit_code"] == result.exit_code == 2
    assert [case["verdict"] for case in body["cases"]] == ["conforms", "expected", "error"]
    assert body["cases"][1]["report"]["expected"] == {"code": ["base"], "reason": "issue 12"}
    assert body["cases"][2]["report"] is None


def test_a_selection(ci):
    result = ci(HEAD + RIGHT + WRONG, "--select", "HALF")
    assert (result.exit_code, rows(result)) == (0, {"port.py:half": "ok"})
    nothing = ci(HEAD + RIGHT + WRONG, "--select", "quarter")
    assert nothing.exit_code == 2
    assert "'quarter' matches none of" in nothing.stderr
    assert "port.py:half, port.py:other_base" in nothing.stderr


def test_a_program_is_judged_with_exec(ci, tmp_path):
    program = tmp_path / "project" / "src" / "fake.py"
    program.write_text("raise SystemExit(1)\n", encoding="utf-8")
    result = ci(HEAD + f'[[check]]\nexec = "{sys.executable} src/fake.py"\n')
    assert result.exit_code == 3
    assert 'did not answer "hello": ended with exit status 1' in result.stdout


def test_each_file_imports_the_modules_beside_it(ci, tmp_path):
    for name, base in (("a", 10000.0), ("b", 500.0)):
        folder = tmp_path / "project" / name
        (folder / "parts").mkdir(parents=True)
        (folder / "parts" / "__init__.py").touch()
        (folder / "parts" / "base.py").write_text(f"BASE = {base}\n", encoding="utf-8")
        (folder / "helpers.py").write_text("from parts.base import BASE\n", encoding="utf-8")
        text = MINE.replace("import numpy as np", "import numpy as np\nfrom helpers import BASE")
        text = text.replace(", base=10000.0)", ")").replace("* base **", "* BASE **")
        (folder / "port.py").write_text(text, encoding="utf-8")
    before, path = set(sys.modules), [*sys.path]
    result = ci(HEAD + RIGHT.replace("port", "a/port") + RIGHT.replace("port", "b/port"))
    assert rows(result) == {"a/port.py:half": "ok", "b/port.py:half": "DEVIATES base"}
    assert sys.path == path
    assert {"helpers", "parts", "parts.base", "port"}.isdisjoint(set(sys.modules) - before)


def test_libraries_below_the_folder_stay_imported(ci, tmp_path):
    library = tmp_path / "project" / ".venv" / "lib"
    library.mkdir(parents=True)
    (library / "heavy.py").write_text("import builtins\n", encoding="utf-8")
    text = f"import sys\nsys.path.append({str(library)!r})\nimport heavy\nsys.path.pop()\n{MINE}"
    (tmp_path / "project" / "uses.py").write_text(text, encoding="utf-8")
    try:
        result = ci(HEAD + RIGHT.replace("port", "uses"))
        assert (result.exit_code, "heavy" in sys.modules) == (0, True)
    finally:
        sys.modules.pop("heavy", None)


# --- the manifest ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys():
    return Keys.of(_check())


def names(asked):
    return [one.name for one in asked]


def test_the_keys_are_the_options_of_check(keys):
    from posenc_ref.conformance.cli import app

    options = {
        name.removeprefix("--")
        for option in typer.main.get_command(app).commands["check"].params
        for name in option.opts
        if name.startswith("--")
    }
    assert {*keys.every} == (options - {"help", "json", "junit", "ndjson", "in-process"}) | {
        "target"
    }
    assert {"preset", "dtype", "surface", "expect", "reason", "head-dim"} <= {*keys.every}


def test_names_tell_the_checks_apart(manifest, keys):
    text = (
        '[[check]]\ntarget = "a.py:f"\ndtype = ["float32", "float64"]\n'
        'expect = "base"\nreason = "n"\n'
        '[[check]]\ntarget = "b.py:f"\npreset = "llama-2-7b"\ninplace = false\n'
        '[[check]]\ntarget = "b.py:f"\npreset = "llama-3.1-8b"\ninplace = false\n'
        '[[check]]\ntarget = "c.py:f"\n[[check]]\ntarget = "c.py:f"\nexpect = "base"\n'
    )
    asked = read_manifest(manifest(text), keys)
    assert names(asked) == [
        "a.py:f [float32]",
        "a.py:f [float64]",
        "b.py:f [llama-2-7b]",
        "b.py:f [llama-3.1-8b]",
        "c.py:f",
        "c.py:f #2",
    ]
    assert asked[0].arguments == ("--dtype=float32", "--expect=base", "--reason=n", "--", "a.py:f")
    assert asked[2].arguments == ("--preset=llama-2-7b", "--", "b.py:f")


def test_a_check_replaces_the_declaration_of_the_defaults(manifest, keys):
    text = '[defaults]\npreset = "llama-2-7b"\ndtype = "float64"\n' + RIGHT + 'config = "c.json"\n'
    (asked,) = read_manifest(manifest(text), keys)
    assert asked.arguments == ("--dtype=float64", "--config=c.json", "--", "port.py:half")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[check]\n", "is not TOML"),
        ("", "has no check"),
        ("[check]\ntarget = 'a:b'\n", "write [[check]] with two brackets"),
        ("[[chekc]]\ntarget = 'a:b'\n", "unknown table 'chekc'; did you mean check? allowed: def"),
        (RIGHT + 'presett = "x"\n', "[[check]] 1: unknown key 'presett'; did you mean preset?"),
        (RIGHT + RIGHT + "head_dim = 8\n", "[[check]] 2: unknown key 'head_dim'; did you mean h"),
        (RIGHT + 'junit = "x.xml"\n', "unknown key 'junit'"),
        ('[defaults]\ntarget = "a:b"\n' + RIGHT, "[defaults]: unknown key 'target'"),
        ("defaults = 3\n" + RIGHT, "[defaults] must be a table, got 3"),
        ('[[check]]\ndtype = "float32"\n', "give either target or exec"),
        (RIGHT + 'exec = "./rope"\n', "give either target or exec"),
        (RIGHT + "inplace = 1\n", "key 'inplace': must be true or false, got 1"),
        (RIGHT + 'surface = ["apply"]\n', "key 'surface': must be one text or number"),
        (RIGHT + "surface = true\n", "key 'surface': must be one text or number, got True"),
        (RIGHT + "dtype = []\n", "key 'dtype': the list is empty"),
        ("[[check]]\ntarget = 3.5\n", "must be a text, got 3.5: quote it"),
    ],
)
def test_a_wrong_manifest_is_refused_with_file_table_and_key(ci, text, said):
    result = ci(text)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert "posenc.toml" in result.stderr


def test_a_value_of_a_wrong_type_is_refused_before_anything_is_judged(ci):
    result = ci(HEAD + RIGHT + RIGHT + 'head-dim = "eight"\n')
    assert result.exit_code == 2
    assert "[[check]] 2, key 'head-dim': Input should be a valid integer" in result.stderr
    assert "conforms" not in result.stderr


def test_a_manifest_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.app, ["ci"])
    assert result.exit_code == 2
    assert "there is no manifest posenc.toml: name another file, or write one" in result.stderr


def test_keys_of_a_command_are_sorted_by_kind():
    def option(name, **facts):
        plain = {"param_type_name": "option", "is_flag": False, "multiple": False}
        return SimpleNamespace(opts=["-x", f"--{name}"], **plain | facts)

    command = SimpleNamespace(
        params=[
            option("one"),
            option("many", multiple=True),
            option("flag", is_flag=True),
            option("help", is_flag=True),
            option("target", param_type_name="argument"),
        ]
    )
    assert Keys.of(command) == Keys(frozenset({"flag"}), frozenset({"many"}), frozenset({"one"}))


# --- posenc check ---------------------------------------------------------------------------------


def test_a_list_for_an_option_that_takes_one_is_refused(manifest, keys):
    with pytest.raises(UsageError, match="only dtype and options that may be repeated"):
        read_manifest(manifest(RIGHT + 'preset = ["a", "b"]\n'), keys)
