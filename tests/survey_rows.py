"""A report of made-up libraries and claims about them, for tests of the page of libraries."""

from posenc_ref.conformance.surveys.expected import Expected
from posenc_ref.conformance.surveys.record import Outcome
from tests.tool import tool

libraries, claims = tool("libraries"), tool("claims")

#: A name that is HTML, in every place where the page shows foreign text.
FOREIGN = "<script>fail()</script> & \"quoted\" 'text' {{ braces }}"
#: The days of some releases.
DAYS = {"1.0": "2025-01-31", "2.0": "2026-02-28"}
#: The versions of other packages, where they are not those of the rest.
OTHERS = {"1.0": {"python": "3.11.7", "numpy": "1.26.4"}, "7": {}}
SCRIPTS = {"made-up/wrong.py": "print('<b>' & 1)", "made-up/old.py": "raise SystemExit"}


def environments():
    """Yield two libraries: one with four releases, one that could not be installed at first."""
    versions = {"python": "3.11.7", "numpy": "2.4.6"}
    for library, releases in (("alpha", ("1.0", "1.1", "2.0", "2.1")), ("beta-x", ("7", "8"))):
        for release in releases:
            days = {"released": DAYS[release], "judged": "2026-11-23"} if release in DAYS else {}
            yield {
                "library": library, "release": release,
                "versions": OTHERS.get(release, versions),
                "install_seconds": 1.0, "seconds": 2.0, **days,
            }  # fmt: skip


def outcomes():
    """Return outcomes of every kind; nothing of them is computed."""
    found = []

    def add(library, label, release, verdict, dtype="float32", *codes, **more):
        kind = more.pop("kind", "library")
        judged = verdict in ("conforms", "deviates")
        score = {"worst": 2.5, "budget": 128.0, "executed": 7} if judged and dtype else {}
        said = {"codes": codes, "messages": tuple(f"{code} is wrong" for code in codes)}
        found.append(
            Outcome(
                kind, library, release, label, dtype=dtype, verdict=verdict, **said | score | more
            )
        )

    rope = {"surface": "apply", "encoding": "RoPE(64, layout='half')", "source": "rope.py: rope",
            "precision": "float32 angles", "errors": {4096: 1e-4}}  # fmt: skip
    lost = "cannot be built: no such class"
    add("alpha", "rope", "1.0", "undrivable", reason=lost)
    add("alpha", "rope", "1.1", "conforms", **rope)
    add("alpha", "rope", "2.0", "deviates", "float32", "base", **rope | {"degrades_at": 33})
    add("alpha", "rope", "2.1", "conforms", **rope)
    add("alpha", "rope", "2.1", "deviates", "bfloat16", "inaccurate", **rope)
    bias = {"surface": "bias", "encoding": "ALiBi(8)", "source": "bias.py: bias"}
    for release in ("1.0", "1.1", "2.0", "2.1"):
        add("alpha", FOREIGN, release, "gap", reason=f"none for {FOREIGN}", source=FOREIGN)
        add("alpha", "bias", release, "conforms", limits=(f"limit of {FOREIGN}",), **bias)
    for release, shown in (("1.0", "undrivable"), ("1.1", "conforms"), ("2.0", "deviates")):
        why = "" if shown == "deviates" else FOREIGN
        add("alpha", "made-up/wrong.py", release, shown, "", kind="script", reason=why)
    add("alpha", "made-up/gone.py", "2.0", "deviates", "", kind="script")
    add("beta-x", "", "7", "skipped", "", reason="cannot be installed: no wheel")
    table = {"surface": "table", "encoding": "Sinusoidal(64)", "source": "table.py: table"}
    add("beta-x", "table", "8", "conforms", **table)
    add("beta-x", "table, learned", "8", "error", reason="ended with exit code 11")
    add("beta-x", "table 3", "8", "inconclusive", reason="not executed: positions")
    add("gamma", "", "", "skipped", "", reason="gamma is not installed; pip install gamma")
    add("numpy", "rope", "2.4.6", "conforms", kind="backend")
    return found


def known_claims():
    """Return three claims, two of which share a script."""

    def claim(title, script, kind, *codes, patterns=("nothing",)):
        said = {name: f"{name} of {title}" for name in ("reason", "evidence", "reach", "effect")}
        entry = Expected(
            patterns, title, "deviates", codes=codes, claim=kind, script=script.split("/")[1],
            upstream="<i>, owner/made.up#12, `code`; see https://made-up.example/a?b=1.", **said,
        )  # fmt: skip
        return claims.Claim("alpha", script, entry)

    return [
        claim(FOREIGN, "made-up/wrong.py", "bug", "base", patterns=("alpha * rope float32",)),
        claim("The same in logits", "made-up/wrong.py", "latent"),
        claim("An old one", "made-up/old.py", "convention"),
    ]


def write(path):
    """Write the report, as tools/libraries.py does."""
    found = {}
    for one in environments():
        name = f"{one['library']} {one['release']}"
        own = [o for o in outcomes() if f"{o.group} {o.version}" == name]
        found[name] = libraries.Judged(one, own)
    # posenc_ref itself, and a library that is not installed, have no environment.
    first = next(iter(found.values()))
    first.outcomes += [o for o in outcomes() if o.ours or o.group == "gamma"]
    libraries.write(path, found, list(found))
    return path
