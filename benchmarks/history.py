"""Keep the last reports of a machine, and name the candidates that became slower.

A candidate is compared by its processor time, and by the ratio to that of the limit, which runs
right after it for as long.  It became slower if both are greater than before: the time alone grows
when other processes use the memory, and the ratio alone when they no longer do.  Greater means that
most values are above nearly all earlier ones, and their median clearly above that of every earlier
report.  It is named if the report before shows the same, since the place of its arrays in memory
or another process can make a whole run slower.
"""

import datetime
import json
import re
import statistics

#: The reports of the same measurement that are kept, and the number that a comparison needs.
KEPT, LEAST = 10, 3
#: The most that a median may grow without being named.
GROWTH = 1.1
#: The names of the reports; no other file of the folder is read or deleted.
NAME = re.compile(r"\d{8}T\d{12}Z\.json")


def rounds(data):
    """Return {candidate: (its ratios to the limit, its times)}, both round by round."""
    return {
        f"{group}: {row['name']}": (
            [own / limit for own, limit in row["paired"]],
            [own for own, _ in row["paired"]],
        )
        for script in ("rope", "tables")
        for group, rows in data[script].items()
        if group not in ("environment", "shape")
        for row in rows
        if row["paired"]
    }


def measurement(data):
    """Return the facts that comparable reports share: the machine, the sizes and the rounds."""
    facts = data["rope"]["environment"]
    rows = data["rope"]["float32"]
    where = [facts.get(name) for name in ("machine", "cpu", "cores", "threads")]
    return [*where, data["rope"]["shape"], sorted(data["tables"]), len(rows[0]["samples_s"])]


def slower(data, earlier):
    """Return (name, ratio now, ratio before) of what grew in this report and in the last one."""
    *before, last = earlier
    twice = {name for name, *_ in grown(last, before)}
    return [row for row in grown(data, before) if row[0] in twice]


def grown(data, earlier):
    """Return (name, ratio now, ratio before) of the candidates with greater numbers than before."""
    before = {}
    for one in earlier:
        for name, values in rounds(one).items():
            before.setdefault(name, []).append(values)
    found = []
    for name, values in rounds(data).items():
        old = before.get(name, [])
        if len(old) >= LEAST - 1 and all(map(_greater, values, zip(*old, strict=True))):
            then = statistics.median(statistics.median(ratios) for ratios, _ in old)
            found.append((name, statistics.median(values[0]), then))
    return found


def _greater(values, old):
    """Return whether values are greater than those of the earlier reports."""
    usual = sorted(value for one in old for value in one)
    above = sum(value > usual[int(0.9 * len(usual))] for value in values)
    worst = max(map(statistics.median, old))
    return statistics.median(values) > GROWTH * worst and above > len(values) / 2


def reports(folder):
    """Return {path: report} of the reports in ``folder``, oldest first, without damaged ones."""
    found = {}
    for path in sorted(folder.iterdir()):
        if not NAME.fullmatch(path.name):
            continue
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            measurement(data), rounds(data)
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
        found[path] = data
    return found


def section(data, folder):
    """Return what became slower than in the reports in ``folder``, and keep this report there."""
    folder.mkdir(parents=True, exist_ok=True)
    found = reports(folder).items()
    earlier = {path: one for path, one in found if measurement(one) == measurement(data)}
    name = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%fZ.json")
    part = folder / f"{name}.part"  # so that an interrupted run leaves no damaged report
    part.write_text(json.dumps(data) + "\n", encoding="utf-8")
    part.replace(folder / name)
    for old in list(earlier)[: max(0, len(earlier) + 1 - KEPT)]:
        old.unlink()
    lines = ["## Slower than before", ""]
    if len(earlier) < LEAST:
        few = f"{len(earlier)} earlier report{'' if len(earlier) == 1 else 's'} of this measurement"
        return "\n".join([*lines, f"{few}: at least {LEAST} are needed.", ""])
    loads = ", ".join(load(one) for one in earlier.values())
    compared = f"{len(earlier)} reports (load {loads}; now {load(data)})"
    rows = [
        f"| {name} | {then:.3g} | {now:.3g} |" for name, now, then in slower(data, earlier.values())
    ]
    if not rows:
        return "\n".join([*lines, f"Nothing, in comparison with {compared}.", ""])
    head = ["| name | before, x limit | now, x limit |", "|---|---:|---:|"]
    return "\n".join([*lines, f"In comparison with {compared}:", "", *head, *rows, ""])


def load(data):
    """Return the average number of running processes in the minute before the report."""
    return data["rope"]["environment"].get("load", "unknown")
