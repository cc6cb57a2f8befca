"""Write the page of libraries as HTML: python tools/conformance_page.py FOLDER [REPORT ...].

FOLDER gets index.html, which needs no other file, and a badge for each library in badges/.  The
reports are files of `python tools/libraries.py` or `posenc verify --ndjson`; the default is
`docs/generated/libraries.ndjson`.  It needs ``pip install -e ".[site]"``.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: E402
from markupsafe import Markup  # noqa: E402

from posenc_ref.conformance.harness.codes import CODES  # noqa: E402
from posenc_ref.conformance.harness.plural import plural  # noqa: E402
from posenc_ref.conformance.surveys.expected import CLAIMS  # noqa: E402
from posenc_ref.conformance.surveys.ndjson import read_ndjson  # noqa: E402
from posenc_ref.conformance.surveys.show import NONE  # noqa: E402
from tools.claims import GENERATED, REPORT, claims  # noqa: E402
from tools.libraries_page import spanned  # noqa: E402
from tools.survey_page import rows, words  # noqa: E402
from tools.survey_page.badges import badge  # noqa: E402
from tools.survey_page.reading import survey as survey_of  # noqa: E402

PARTS = ROOT / "tools" / "survey_page"


def script(path: str) -> str:
    """Return the text of a script of a claim."""
    return (GENERATED / path).read_text(encoding="utf-8").strip()


def page(survey: rows.Survey, home: str = "") -> str:
    """Return the page; ``home`` is the address of the page above it, if there is one."""
    environment = Environment(
        loader=FileSystemLoader(PARTS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    judged = {r.judged for one in survey.libraries for r in one.releases if r.judged}
    text = environment.get_template("page.html").render(
        survey=survey,
        home=home,
        days=sorted(judged),
        badges={one.anchor: badge(one) for one in survey.libraries},
        addresses=words.addresses(),
        form=words.FORM,
        codes=CODES,
        kinds=CLAIMS,
        words=words.OF_FUNCTIONS,
        of_scripts=words.OF_SCRIPTS,
        marks=words.mark,
        marked=words.MARKS,
        most=words.MOST,
        meanings=words.MEANINGS,
        unmeasured=NONE,
        claims_of=lambda library: [
            one for one in survey.deviations if one.library == library.name and one.outcomes
        ],
        dtype_of=rows.dtype_of,
        firsts_of=lambda library: " and ".join(
            dict.fromkeys(function.dtypes[0] for function in library.functions)
        ),
        first_visible=words.first_visible,
        has_angles=words.has_angles,
        lines=words.lines,
        limited=words.limit,
        link_to=_link,
        plural=plural,
        prose=words.prose,
        score=words.score,
        short=words.short,
        slug=rows.slug,
        spanned=spanned,
        summed=words.summed,
        verdicts_now=lambda library, function: {
            dtype: function.verdict(library.newest.name, dtype) for dtype in function.dtypes
        },
        verdicts_of=lambda library: rows.counted(
            o.verdict for function in library.functions for o in function.outcomes
        ),
        css=Markup((PARTS / "page.css").read_text(encoding="utf-8")),
        js=Markup((PARTS / "page.js").read_text(encoding="utf-8")),
    )
    # Attributes are in double quotes, so apostrophes are themselves everywhere.
    return text.replace("&#39;", "'")


def _link(subject: rows.Function | rows.Deviation) -> Markup:
    """Return a link to a function, or to a claim with its kind."""
    if isinstance(subject, rows.Function):
        return Markup('<a href="#{}">{}</a>').format(subject.anchor, subject.name)
    title, kind = words.prose(subject.entries[0].title), subject.entries[0].claim
    return Markup('<a href="#{}">{}</a> ({})').format(subject.anchor, title, kind)


def write(folder: Path, reports: Sequence[Path] = (REPORT,), home: str = "") -> None:
    """Write the page and the badges to a new or empty folder.

    Raises
    ------
    ValueError
        If the folder has files, or a report cannot be shown.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"FOLDER must be new or empty, got {folder}, which has files")
    survey = survey_of([read_ndjson(path) for path in reports], claims(), script)
    text = page(survey, home)
    (folder / "badges").mkdir(parents=True)
    (folder / "index.html").write_text(text, encoding="utf-8")
    for library in survey.libraries:
        content = json.dumps(badge(library), indent=1, ensure_ascii=False) + "\n"
        (folder / "badges" / f"{library.anchor}.json").write_text(content, encoding="utf-8")


def main() -> None:
    """Run the command line."""
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or empty folder")
    parser.add_argument("reports", type=Path, nargs="*", metavar="REPORT", default=[REPORT])
    args = parser.parse_args()
    try:
        write(args.folder, args.reports)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(args.folder / "index.html")


if __name__ == "__main__":
    main()
