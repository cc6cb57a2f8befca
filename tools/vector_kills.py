"""Record which wrong implementations each golden vector rejects: python tools/vector_kills.py.

It runs every case on a fresh instance of every wrong implementation with its encoding and surface,
and writes names, flags and the manifest of conformance/vectors/v0.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from posenc_ref import from_dict  # noqa: E402
from posenc_ref.conformance import load_vectors  # noqa: E402
from posenc_ref.conformance.vectors.files import shipped  # noqa: E402
from posenc_ref.conformance.vectors.make.generate import record_kills  # noqa: E402
from posenc_ref.conformance.vectors.reject import rejects  # noqa: E402

#: The arguments of `check` that matter for a vector.
DECLARED = ("dtype", "tensor_layout", "angles", "precision")


def rejected(case, one):
    """Return whether a vector rejects a fresh instance of an implementation."""
    told = {name: value for name, value in one.kwargs.items() if name in DECLARED}
    return rejects(case, one.make(), **told)


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
