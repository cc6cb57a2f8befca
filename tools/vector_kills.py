"""Record which wrong implementations each golden vector rejects: python tools/vector_kills.py.

It runs every case on a fresh instance of every wrong implementation with its encoding and surface,
and writes names, flags, levels and the manifest of conformance/vectors/v0.
"""

import argparse
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from posenc_ref import from_dict  # noqa: E402
from posenc_ref.accuracy import budget  # noqa: E402
from posenc_ref.conformance import load_vectors  # noqa: E402
from posenc_ref.conformance.harness.driver import Driver  # noqa: E402
from posenc_ref.conformance.vectors.case import VectorCase  # noqa: E402
from posenc_ref.conformance.vectors.files import (  # noqa: E402
    MANIFEST,
    cases_of,
    read_json,
    shipped,
    write,
)
from posenc_ref.conformance.vectors.flags import flags_of, level_of  # noqa: E402
from posenc_ref.conformance.vectors.make.generate import with_flags  # noqa: E402

#: The arguments of `check` that matter for a vector.
DECLARED = ("dtype", "tensor_layout", "angles", "precision")


def rejects(case, fn, *, dtype="float32", tensor_layout="bhsd", angles=None, precision=None):
    """Whether the result of ``fn`` is over the budget, or ``fn`` refuses what it has to accept.

    The keywords say what ``fn`` declares to compute in, as for ``check``.
    """
    arguments = case.arguments(dtype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            if tensor_layout == "bhsd":
                result = fn(*arguments)
            else:
                driver = Driver(fn, dtype=dtype, tensor_layout=tensor_layout)
                result = driver.apply(*arguments)
        except Exception:
            return case.level == "required"
        if case.level != "required" and not case.shaped(result):
            return False  # what broadcasts to another shape is refused, as a user would notice
        score = case.judge(result, dtype=dtype, angles=angles, precision=precision)
        return score > budget(dtype, precision)


def record_kills(folder, kills):
    """Write kills, by the id of a case, and its flags and level, into the files of ``folder``."""
    manifest = read_json(folder / MANIFEST)
    documents = {name: read_json(folder / name) for name in manifest["files"]}
    for name, document in documents.items():
        for group, case in cases_of(document):
            case["kills"] = kills[case["id"]]
            read = VectorCase.read(name, group, case)
            case["flags"] = flags_of(read.surface, read.encoding, read.inputs, read.kills)
            case["level"] = level_of(case["flags"])
        documents[name] = with_flags(document)
    head = {key: manifest[key] for key in ("schema", "spec_version", "generator", "retired")}
    write(folder, documents, head)


def rejected(case, one):
    """Return whether a vector rejects a fresh instance of an implementation."""
    settings = {name: value for name, value in one.kwargs.items() if name in DECLARED}
    return rejects(case, one.make(), **settings)


def declared_as(implementations):
    """Return implementations by declaration: (surface, encoding or None)."""
    found = {}
    for one in implementations:
        encoding = from_dict(one.encoding) if one.encoding else None
        found.setdefault((one.surface, encoding), []).append(one)
    return found


def kill_list(implementations, cases=None):
    """Return the names of the implementations that each vector rejects, by its id."""
    matching = declared_as(implementations)
    return {
        case.id: sorted(
            one.name
            for one in matching.get((case.surface, case.encoding), ())
            if rejected(case, one)
        )
        for case in (load_vectors() if cases is None else cases)
    }


def main():
    """Compute the kills over the whole corpus and write them."""
    raw = argparse.RawTextHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=raw).parse_args()
    import tests.conformance.vectors.wrong_vectors_counted  # noqa: F401  (files its cases)
    from tests.conformance.vectors.wrong_vectors import ALSO_WRONG
    from tests.mutants import WRONG

    kills = kill_list([*WRONG, *ALSO_WRONG])
    record_kills(shipped(), kills)
    idle = [name for name, killed in kills.items() if not killed]
    dead = {name for killed in kills.values() for name in killed}
    declared = {one.name for one in (*WRONG, *ALSO_WRONG)}
    print(f"{len(kills)} cases, {len(idle)} of them kill nothing: {', '.join(idle) or '-'}")
    print(f"{len(dead)} of {len(declared)} wrong implementations are killed by a vector")


if __name__ == "__main__":
    main()
