"""Compare every verdict with the frozen ones: python tools/freeze.py.

Judges all functions of tests/mutants, tests/named and tests/authors, identifies every function of
the gallery and sweeps the models below, then prints what differs from tests/frozen.json and exits
with 1 if anything does::

    python tools/freeze.py                 # compare everything, some twenty minutes on two cores
    python tools/freeze.py corpus named    # compare these sections only
    python tools/freeze.py --write         # accept today's verdicts as the frozen ones

Run it after every change that should change no verdict and no word. Scores and durations are left
out, because they differ between machines.
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FROZEN = ROOT / "tests" / "frozen.json"
#: Swept as configured, the function that rotates.
ROTARY = [
    "llama", "qwen2", "qwen2_vl", "qwen3", "gemma3", "gpt_neox", "gptj", "glm4", "phi3",
    "deepseek_v3", "gpt_oss", "cohere2", "falcon", "mistral", "mixtral", "olmo2", "pixtral",
    "hunyuan_vl", "stablelm", "vjepa2",
]  # fmt: skip
#: Swept for tables, biases and scores.
OTHER = [
    "bert", "t5", "gpt2", "swin", "mpt", "deberta_v2", "vit", "bart", "wav2vec2_conformer", "beit",
]  # fmt: skip


def verdict(report):
    """The verdict, and where the judge itself broke off."""
    broken = [text for text in report.limits if "broke off" in text]
    return {"verdict": report.verdict} | ({"broken": broken} if broken else {})


def first(report):
    """The verdict, the codes and the first message of a report."""
    codes = [f"{f.severity} {f.code}" for f in report.findings]
    return {
        **verdict(report),
        "codes": codes,
        "message": report.findings[0].message if report.findings else "",
    }


def judge_corpus(name):
    """Judge one function of tests/mutants."""
    import posenc_ref
    from posenc_ref.conformance import check
    from tests.mutants import CORRECT, WRONG

    case = next(c for c in WRONG + CORRECT if c.name == name)
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    report = check(case.make(), encoding, case.surface, name=name, factory=case.make, **case.kwargs)
    return name, first(report)


def judge_named(name):
    """Judge one function of tests/named."""
    import posenc_ref
    from posenc_ref.conformance import check
    from tests.named import CASES

    case = next(c for c in CASES if c.name == name)
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    return name, first(check(case.function, encoding, case.surface, name=name, **case.kwargs))


def judge_authors(name):
    """Judge one function of tests/authors; its words are not kept."""
    from posenc_ref.conformance import check
    from tests.authors import cases

    case = cases()[name]
    settings = case.get("settings", {})
    report = check(case["fn"], case["encoding"], case["surface"], name=name, **settings)
    return name, verdict(report)


def _pool(function, names):
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        return dict(pool.map(function, names, chunksize=8))


def corpus():
    """Every function of tests/mutants."""
    from tests.mutants import CORRECT, WRONG

    return _pool(judge_corpus, [case.name for case in WRONG + CORRECT])


def named():
    """Every function of tests/named."""
    from tests.named import CASES

    return _pool(judge_named, [case.name for case in CASES])


def authors():
    """Every function of tests/authors."""
    from tests.authors import cases

    return _pool(judge_authors, list(cases()))


def _posenc(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "posenc_ref.conformance", *arguments, "--json", str(path)]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        return path.read_text(encoding="utf-8")


def gallery():
    """Every card, without its scores."""
    entries = json.loads(_posenc("gallery"))["entries"]
    cards = [entry["outcome"] for entry in entries if entry["outcome"]]  # None: not installed
    for card in cards:
        del card["seconds"], card["score"]
        words = " ".join(card["card"].split())  # without line breaks, which move with the numbers
        card["card"] = re.sub(r"[0-9.e+-]+ units", "N units", words)
    return {card.pop("name"): card for card in cards}


def sweep():
    """The rows of the models above, without their scores."""
    kept = ("outcome", "encoding", "reason", "codes", "messages", "notes")
    found = {}
    for names, options in ((ROTARY, []), (OTHER, _families("table", "bias", "score"))):
        only = [text for name in names for text in ("--only", name)]
        for text in _posenc("sweep", *only, *options).splitlines():
            line = json.loads(text)
            if "case" in line:
                found[line["name"]] = {key: line[key] for key in kept}
    return found


def _families(*names):
    return [text for name in names for text in ("--family", name)]


SECTIONS = {
    "corpus": corpus,
    "named": named,
    "authors": authors,
    "gallery": gallery,
    "sweep": sweep,
}


def main():
    """Compare, or write."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--write", action="store_true", help="write tests/frozen.json")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = str(ROOT)
    chosen = options.sections or list(SECTIONS)
    old = json.loads(FROZEN.read_text(encoding="utf-8")) if FROZEN.exists() else {}
    new = dict(old)
    for name in chosen:
        new[name] = SECTIONS[name]()
        if options.write:
            FROZEN.write_text(_text(new), encoding="utf-8")
    lines = list(difflib.unified_diff(_text(old).splitlines(), _text(new).splitlines(), n=2))
    if not options.write:
        print("\n".join(lines))
    print(f"{sum(len(new[name]) for name in chosen)} cases compared, {len(lines)} lines differ")
    sys.exit(bool(lines) and not options.write)


def _text(found):
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
