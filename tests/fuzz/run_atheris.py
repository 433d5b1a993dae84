"""Coverage-guided fuzzing of one kind: `python -m tests.fuzz.run_atheris KIND [libFuzzer's options] CORPUS_FOLDER`.

Penstock's modules are instrumented, except the kernels, which numba compiles from their bytecode. The members of the
kind are written to the folder. The exit status is not 0 at the first input without a result or named error, or beyond
the limit of time or memory; libFuzzer prints the input.
"""

from __future__ import annotations

import os
import pathlib
import sys

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"

import atheris

import penstock.reader.kernels.avro
import penstock.reader.kernels.deletes
import penstock.reader.kernels.winners  # noqa: F401  before the others: what numba compiles stays as it is

with atheris.instrument_imports(include=["penstock.table", "penstock.reader", "penstock.enumerator"]):
    from tests.fuzz import targets

from tests.fuzz.corpus import members


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    kind, folder = sys.argv[1], pathlib.Path(sys.argv[-1])
    known = members()[kind]
    for number, member in enumerate(known):
        (folder / f"{number:03}").write_bytes(member.data)
        targets.run(member, member.data)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda data: targets.run(known[len(data) % len(known)], data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
