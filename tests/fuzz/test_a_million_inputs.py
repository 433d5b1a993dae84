"""`make long`: 10^6 mutated inputs, 10^6 from grammars, tables with a mutated file, coverage-guided runs.

PENSTOCK_SEED chooses the seeds. The tests write a summary to the file PENSTOCK_NOTES, which `tools/run_long.py` adds to
its record.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fuzz.batches import Outcome, run_batch
from tests.fuzz.corpus import KINDS
from tests.fuzz.structured import coverage
from tests.long_record import add_to_record

pytestmark = [pytest.mark.long, pytest.mark.timeout(6 * 3600)]

INPUTS = int(os.environ.get("PENSTOCK_FUZZ_INPUTS", "1000000"))
TABLES = max(1, INPUTS // 200)
LANCE_TABLES = max(1, INPUTS // 500)
GUIDED = max(1, INPUTS // 20)
PIECE = 5_000
FIRST = int(os.environ.get("PENSTOCK_SEED", "1")) << 24
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def run_pieces(kind: str, count: int) -> Outcome:
    """Inputs of a kind, a few thousand per process, two processes at a time."""
    pieces = [(FIRST + start, min(PIECE, count - start)) for start in range(0, count, PIECE)]
    whole = Outcome()
    with ThreadPoolExecutor(2) as pool:
        for outcome in pool.map(lambda piece: run_batch(kind, *piece), pieces):
            whole.add(outcome)
    add_to_record(
        f"fuzz {kind}: {whole.inputs} inputs from seed {FIRST}, {dict(sorted(whole.outcomes.items()))}, "
        f"{len(whole.problems)} problems, peak memory grew by {whole.grown_kib >> 10} MiB"
    )
    return whole


@pytest.mark.parametrize("kind", KINDS)
def test_million_mutated_inputs(kind: str) -> None:
    outcome = run_pieces(kind, -(-INPUTS // len(KINDS)))
    assert not outcome.problems, "\n\n".join(outcome.problems[:5])


def test_million_inputs_of_grammars() -> None:
    """In every decoder in turn: valid, or with one damaged place."""
    outcome = run_pieces("grammar", INPUTS)
    assert not outcome.problems, "\n\n".join(outcome.problems[:5])
    result = coverage(outcome.outcomes)
    for decoder in result:
        add_to_record(f"fuzz grammar, {decoder}")
    assert not [decoder.problem for decoder in result if decoder.problem]


def test_tables_with_a_mutated_file() -> None:
    outcome = run_pieces("table", TABLES)
    assert not outcome.problems, "\n\n".join(outcome.problems[:5])


def test_tables_with_a_mutated_lance_file() -> None:
    outcome = run_pieces("lance_table", LANCE_TABLES)
    assert not outcome.problems, "\n\n".join(outcome.problems[:5])
    assert not outcome.outcomes["CONFIGURATION"], "the library of Lance did not start"


@pytest.mark.skipif(sys.platform != "linux", reason="atheris is built for Linux")
@pytest.mark.parametrize("kind", KINDS)
def test_coverage_guided_inputs(kind: str, tmp_path: pathlib.Path) -> None:
    options = [f"-runs={GUIDED}", f"-seed={FIRST & 0xFFFFFF or 1}", "-max_len=65536", "-timeout=60"]
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.run_atheris",
        kind,
        *options,
        "-rss_limit_mb=2048",
        f"-artifact_prefix={tmp_path}/",
    ]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    done = subprocess.run([*command, str(corpus)], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    runs = re.search(r"Done (\d+) runs", done.stdout + done.stderr)
    add_to_record(f"atheris {kind}: {runs[1] if runs else '?'} coverage-guided inputs, no problem")
    assert runs and int(runs[1]) >= GUIDED
