"""Write docs/generated/configurations.md: python tools/configurations/configurations_page.py.

It says of every ``model_type`` of the installed transformers, every transformer class of diffusers
and every family of timm whether ``from_config`` reads its encoding, or why not.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from posenc_ref import from_config
from posenc_ref.models.config_facts import table
from posenc_ref.models.other.diffusers import READ
from posenc_ref.models.other.kinds import KINDS, canonical, kind_of, reason

PAGE = Path(__file__).resolve().parents[2] / "docs/generated/configurations.md"
MEANING = {
    "encoding": "the configuration states an encoding, which `from_config` returns",
    "learned": "an encoding with learned numbers, which are in the checkpoint",
    "convolution": "positions that a convolution carries",
    "none": "no positions",
    "parts": "made of other models, which `part=` names",
    "code": "an encoding that the configuration does not determine",
}
HEAD = """\
# Configurations

Made by `python tools/configurations/configurations_page.py` with transformers {transformers},
diffusers {diffusers} and timm {timm}.

`from_config` reads the configurations of these libraries. Each `model_type` of transformers, each
transformer class of diffusers and each family (module) of timm is counted once. Where it reads no
encoding, the error message is the reason below. A family of timm is an `encoding` if at least one
of its architectures has one. Under `encoding`, some default configurations of classes are refused
nevertheless: their sizes do not fit, or they have several parts.
"""


def transformers() -> dict[str, tuple[str, str]]:
    """Return the kind of each model type, and the reason if it has no encoding to read."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    found = {}
    for name in sorted(CONFIG_MAPPING_NAMES):
        kind = kind_of(name)
        assert kind is not None, name
        why = ""
        if kind != "encoding":
            why = reason(canonical(name)) or _raised({"model_type": name})
        found[name] = kind, why
    return found


def diffusers() -> dict[str, tuple[str, str]]:
    """Return the kind of each class of diffusers with its defaults, and the reason."""
    found = {}
    for name, facts in table("diffusers_models")["models"].items():
        kind, why = facts["kind"], facts.get("why", "")
        found[name] = ("encoding", "") if kind in READ else (kind, why)
    return found


def timm() -> dict[str, tuple[str, str]]:
    """Return the kind of each family of timm, and the reason."""
    families = table("timm_models")["families"]
    return {
        name: (v["kind"], "" if v["kind"] == "encoding" else v["why"])
        for name, v in families.items()
    }


def _raised(config: Mapping[str, str]) -> str:
    try:
        from_config(config)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{config} is read")


def section(title: str, found: Mapping[str, tuple[str, str]]) -> Iterable[str]:
    """Yield the lines of one library."""
    counts = Counter(kind for kind, _ in found.values())
    yield f"\n## {title}\n"
    yield "| kind | number | meaning |\n|---|---|---|"
    for kind in KINDS:
        if counts[kind]:
            yield f"| {kind} | {counts[kind]} | {MEANING[kind]} |"
    yield f"| all | {len(found)} | |"
    for kind in KINDS:
        own = {name: why for name, (k, why) in found.items() if k == kind}
        if not own:
            continue
        yield f"\n### {title}: {kind}\n"
        if kind == "encoding":
            yield ", ".join(f"`{name}`" for name in own)
        else:
            yield from (f"- `{name}`: {_short(name, why)}" for name, why in own.items())


def _short(name: str, why: str) -> str:
    """Return a reason without the words that all reasons of its kind share."""
    for prefix in (f"model_type {name!r} ", f"configuration of model_type {name!r}: "):
        why = why.removeprefix(prefix)
    why = why.removeprefix("has a learned encoding, whose numbers are in the checkpoint and in no ")
    return why.removeprefix("configuration: ").removesuffix(
        ". Give the numbers to the class in parentheses"
    )


def text() -> str:
    """Return the page."""
    versions = {
        "transformers": table("text_models")["transformers"],
        "diffusers": table("diffusers_models")["diffusers"],
        "timm": table("timm_models")["timm"],
    }
    lines = [HEAD.format(**versions).rstrip()]
    lines += section("transformers", transformers())
    lines += section("diffusers", diffusers())
    lines += section("timm", timm())
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if it would change")
    if parser.parse_args().check:
        sys.exit(0 if text() == PAGE.read_text(encoding="utf-8") else f"{PAGE} is not up to date")
    PAGE.write_text(text(), encoding="utf-8")
