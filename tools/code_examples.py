"""Write docs/generated/code-examples.json: python tools/code_examples.py [CODE ...].

For every code of a finding it has a short wrong implementation in tests/mutants whose report names
that code first, with the report; the site shows them. With codes, only their examples are
made again.
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import posenc_ref  # noqa: E402
from posenc_ref.conformance import CODES, check  # noqa: E402
from tests.mutants import CORRECT, WRONG  # noqa: E402
from tools.website.corpus import EXAMPLES, OWN, examples, source  # noqa: E402

#: Encodings that most readers know: their examples are preferred.
WELL_KNOWN = {"RoPE", "Sinusoidal", "ALiBi", "T5Bias", "Learned"}


def ordered(code):
    """Return the cases with the code, those that show it best first.

    Its encoding is well known, it is the best diagnosis of a short case. Correct cases come last:
    some of their reports have notes.
    """

    def order(case):
        known = str((case.encoding or {}).get("encoding")) in WELL_KNOWN
        return case.expected[:1] != (code,), not known, len(source(case))

    named = [case for case in [*WRONG, *OWN] if code in case.expected]
    return [*sorted(named, key=order), *sorted(CORRECT, key=lambda case: len(source(case)))]


def judge(case):
    """Return the report on a case."""
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    how = {"name": case.name, "factory": case.make, **case.kwargs}
    return check(case.make(), encoding, case.surface, **how)


def example(code):
    """Return the first case whose report has this code alone, else the code first."""
    second = None
    for case in ordered(code):
        report = judge(case)
        found = [finding.code for finding in report.findings]
        if found[:1] == [code]:
            made = {"case": case.name, "report": str(report)}
            if len(found) == 1:
                return made
            second = second or made
        if second and code not in case.expected:
            break
    return second


def write(found):
    """Write the examples, in the order of the codes."""
    codes = {code: found[code] for code in CODES if found.get(code)}
    head = "python tools/code_examples.py"
    text = json.dumps({"made by": head, "codes": codes}, indent=1, ensure_ascii=False)
    EXAMPLES.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", nargs="*", metavar="CODE", choices=[*CODES, []])
    chosen = parser.parse_args().codes
    made = examples() if chosen else {}
    for one in chosen or CODES:
        made[one] = example(one)
        print(f"{one}: {made[one] and made[one]['case']}", flush=True)
    write(made)
