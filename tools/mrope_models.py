"""Write docs/generated/mrope-models.md: python tools/mrope_models.py [--check].

Judges the position ids of every model of the installed transformers that makes them from images,
videos or audio.  The table is the expected one: a nightly test compares it.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from posenc_ref import MRoPEPositions, mrope_rule  # noqa: E402
from posenc_ref.conformance import check  # noqa: E402
from posenc_ref.conformance.adapters.transformers_mrope import MODES, mrope_model  # noqa: E402
from posenc_ref.mrope_rules import RULES  # noqa: E402
from tools.claims import claims  # noqa: E402

PAGE = ROOT / "docs/generated/mrope-models.md"
#: Models that make such position ids and are not judged, with the reason.
UNJUDGED = {
    "KeyeVL1_5": "not in transformers: the rule is that of vLLM",
    "neomme": "its processor makes ids with two axes, which no rule here describes",
}
#: The scripts of the claims that a finding means.
NOTES = {
    "media-extent": ("text_after_video.py",),
    "media-extent, sound": ("short_video_with_sound.py",),
    "media-extent, newlines": ("newline_after_an_image.py",),
    "media-grid, no padding": ("talker_without_padding.py",),
    "row-offset": ("images_of_a_batch.py",),
    "row-offset, padding": ("images_of_a_batch.py", "decode_after_padding.py"),
    "raises": ("cache_and_mask.py",),
    "raises, audio": ("talker_with_audio.py",),
    "state": ("text_after_drawing.py",),
}
#: A word of a finding that tells it from others of the same code, and its name.
_WORDS = {
    "sound": "sound", "newlines": "newlines", "without padding": "no padding",
    "padding included": "padding", "audio_config": "audio",
}  # fmt: skip
HEAD = """# Position ids of models

Made by `python tools/mrope_models.py` with transformers {version}.

Every model of transformers whose code makes position ids of text, images, videos or audio, judged
against its rule ([multimodal.md](../multimodal.md)). Each is built without weights and runs:
`forward` with a prompt and then token by token with a cache, and `generate`. The ids are those that
reach the rotary embedding. The calls are batches of text, one and several images, videos, audio,
with padding on the left and on the right, each with two generated tokens, or with all tokens of the
images that GLM-Image generates; `generate` takes no padding on the right.

| model | rule | forward | generate |
|---|---|---|---|
"""


def judged(model, mode):
    """Return what the table says of one model, and the notes that it refers to."""
    made = mrope_model(model, mode)
    report = check(made, made.encoding)
    notes = [_note(finding) for finding in report.findings if finding.severity == "error"]
    said = ", ".join(notes) or report.verdict
    return f"{said} ({report.executed['values']} calls)", notes


def _note(finding):
    told = f"{finding.message} {finding.evidence}"
    return ", ".join([finding.code, *(name for word, name in _WORDS.items() if word in told)][:2])


def meaning(name):
    """Return the claims that a finding means, with links."""
    every = {claim.script.split("/")[1]: (n, claim) for n, claim in enumerate(claims(), 1)}
    found = (every[script] for script in NOTES[name])
    return "; ".join(
        f"{claim.entry.title} ([claim {n}](claims.md#claim-{n}), {claim.entry.claim})"
        for n, claim in found
    )


def _rule(rule):
    if type(rule) is not MRoPEPositions:
        return f"`{rule!r}`"
    body = repr(rule).removeprefix("MRoPEPositions(").removesuffix(")")
    return f"`{body}`" if body else "the default"


def document():
    """Return the page."""
    import transformers

    rows, used = [], set()
    for model in (name for name in RULES if name not in UNJUDGED):
        cells = [model, _rule(mrope_rule(model))]
        for mode in MODES:
            said, notes = judged(model, mode)
            cells.append(said)
            used |= set(notes)
        rows.append(f"| {' | '.join(cells)} |")
    parts = [HEAD.format(version=transformers.__version__) + "\n".join(rows)]
    parts.append("\n".join(f"- **{name}:** {meaning(name)}." for name in sorted(used)))
    parts.append("Not judged:")
    parts.append("\n".join(f"- {name}: {why}." for name, why in sorted(UNJUDGED.items())))
    return "\n\n".join(parts) + "\n"


def makers():
    """Return the model types of the installed transformers whose code has a ``get_rope_index``."""
    import transformers

    files = Path(transformers.__file__).parent.glob("models/*/modeling_*.py")
    found = re.compile(r"def get_rope_index\(")
    return sorted(file.parent.name for file in files if found.search(file.read_text("utf-8")))


def main():
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    made = document()
    if parser.parse_args().check:
        return 0 if PAGE.read_text("utf-8") == made else 1
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
