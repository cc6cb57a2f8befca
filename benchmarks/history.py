"""Keep the last reports of a machine, and say what became slower.

A candidate is compared by its time over that of the limit in the same round: a disturbance of the
machine affects both.  It became slower if most of these ratios are above nearly all earlier ones.
"""

import datetime
import json
import statistics

#: The reports that are kept, and how many are needed for a comparison.
KEPT, LEAST = 10, 2
#: The limit of each group, by which its candidates are divided.
LIMITS = ("limit: one-pass multiply", "limit: fill", "limit: np.copyto")
#: The most that a median may grow without being named.
GROWTH = 1.1


def ratios(data):
    """Return the ratios to the limit, round by round, of our candidates by their names."""
    found = {}
    for script in ("rope", "tables"):
        for group, rows in data[script].items():
            if group in ("environment", "shape"):
                continue
            times = {row["name"]: row["samples_s"] for row in rows}
            limit = next((times[name] for name in LIMITS if name in times), None)
            for name, samples in times.items():
                if limit is not None and name.startswith("ours"):
                    pairs = zip(samples, limit, strict=True)
                    found[f"{group}: {name}"] = [own / base for own, base in pairs]
    return found


def machine(data):
    """Return what reports must share to be compared: the machine, the sizes and the rounds."""
    facts = data["rope"]["environment"]
    rows = data["rope"]["float32"]
    where = [facts.get(name) for name in ("machine", "cpu", "cores", "threads")]
    return [*where, data["rope"]["shape"], sorted(data["tables"]), len(rows[0]["samples_s"])]


def slower(data, earlier):
    """Return (name, ratio now, ratio before) of the candidates that became slower."""
    before = {}
    for one in earlier:
        for name, values in ratios(one).items():
            before.setdefault(name, []).append(values)
    found = []
    for name, values in ratios(data).items():
        old = before.get(name, [])
        if len(old) < LEAST:
            continue
        now, then = statistics.median(values), statistics.median(map(statistics.median, old))
        usual = sorted(value for one in old for value in one)
        above = sum(value > usual[int(0.9 * len(usual))] for value in values)
        worst = max(map(statistics.median, old))
        if now > GROWTH * max(then, worst) and above > len(values) / 2:
            found.append((name, now, then))
    return found


def section(data, folder):
    """Return what became slower than in the reports in ``folder``, and keep this report there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(folder.glob("*.json"))
    earlier = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    earlier = [one for one in earlier if machine(one) == machine(data)]
    name = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%fZ.json")
    (folder / name).write_text(json.dumps(data) + "\n", encoding="utf-8")
    for old in sorted(folder.glob("*.json"))[:-KEPT]:
        old.unlink()
    lines = ["## Slower than before", ""]
    if len(earlier) < LEAST:
        few = f"{len(earlier)} earlier report{'' if len(earlier) == 1 else 's'} of this machine"
        return "\n".join([*lines, f"{few}: at least {LEAST} are needed.", ""])
    found = slower(data, earlier)
    if not found:
        return "\n".join([*lines, f"Nothing, in comparison with {len(earlier)} reports.", ""])
    rows = [f"| {name} | {then:.3g} | {now:.3g} |" for name, now, then in found]
    head = ["| what, over the limit of the same round | before | now |", "|---|---:|---:|"]
    return "\n".join([*lines, *head, *rows, ""])
