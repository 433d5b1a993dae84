"""Writes docs/reference/compatibility.md from a run over the golden tables: results by feature and table version; and
its half about writes, from the tests of writes (`write_compatibility`).

Reads every counted entry of the catalogue and compares its rows with Hudi's. The golden suite asserts the same of each
entry, and that the page agrees with its assertions. Takes one to two minutes.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = REPOSITORY / "tests" / "golden"
TARGET = REPOSITORY / "docs" / "reference" / "compatibility.md"
VERSIONS: Final = (6, 8, 9)
EQUAL, EXPIRED, OTHER = "equal", "files gone: an error, as it must be", "not comparable"

sys.path.append(str(GOLDEN))
sys.path.append(str(REPOSITORY / "tools"))
from catalogue import Entry, counted_changes, counted_entries, counted_mergers  # noqa: E402
from write_compatibility import section  # noqa: E402

FEATURES: Final = (
    ("Merge: event time, every ordering type", r"A_(merge_(default|event|null)|fuzz_event)"),
    ("Merge: commit time", r"A_(merge_commit|fuzz_commit|nbcc_commit)"),
    ("Merge: several ordering fields", r"A_merge_multi"),
    ("Merge: custom delete markers", r"A_merge_custom_delete"),
    ("Merge: payload classes of Hudi", r"A_payload|G_(avro|first|reverse)"),
    ("Merge: custom payload class", r"G_payload"),
    ("Merge: custom merge strategy", r"G_merger"),
    ("Merge: partial updates (MERGE INTO)", r"A_merge_into_partial"),
    ("Base files: ORC", r"F_orc"),
    ("Base files: Lance, with vectors", r"H_lance"),
    ("Logs: Parquet data blocks", r"A_(block_parquet|types_parquet_log)"),
    ("Logs: HFile data blocks", r"A_block_hfile|I_hfile"),
    ("Logs: damage and leftovers", r"A_(corrupt|failed_leftover)"),
    ("Logs: rollbacks", r"A_rollback"),
    ("Logs: log compaction", r"A_log_compaction"),
    ("Logs: record positions", r"A_positions"),
    ("Slices: groups of logs alone", r"A_log_only"),
    ("Slices: bucket index", r"A_bucket_index"),
    ("Slices: compaction, pending and done", r"A_compaction"),
    ("Slices: clustering, pending and done", r"A_clustering"),
    ("Slices: insert overwrite, delete partition", r"A_(replace|delete_all|cow_mixed)"),
    ("Slices: savepoint and restore", r"A_savepoint"),
    ("Bootstrapped tables: metadata-only, full, mixed", r"E_"),
    ("Timeline: archived instants", r"A_archive|B_arch"),
    ("Timeline: pending writes, restore, services", r"B_timeline"),
    ("Timeline: writers out of order, several writers", r"B_(ooo|nbcc)"),
    ("Timeline: tables upgraded in place", r"B_up_"),
    ("Metadata table", r"A_mdt|B_colstats"),
    ("Schema: added and widened columns", r"A_evo_(add|widen)|D_evolved_(cow|mor)"),
    ("Schema: schema-on-read (renamed, dropped, by id)", r"A_evo_on_read|D_evolved_on_read"),
    ("Schema: types", r"A_types(?!_parquet)"),
    ("Schema: variants of Hudi 1.2, whole and shredded", r"J_variant"),
    ("Keys and partitions", r"A_(key|part|ts_keygen|custom_keygen|nonpart|drop_part)"),
    ("Changelogs (`_hoodie_operation`)", r"D_changelog"),
    ("Ranges", r"B_inc"),
    ("Changes, the three logging modes", r"B_cdc"),
    ("Tables filled from Kafka", r"C_"),
)
"""Feature, and the pattern of its cases (names without `_v<version>` and release). The first match counts."""

HEAD: Final = """# Compatibility

<!-- written by tools/generate_compatibility.py from tests/golden and tests/interop; do not edit -->

Tables that real Hudi wrote (0.14 to 1.2), and the rows that Hudi returned for them: snapshots, read-optimized reads,
time travel, ranges and changes. Each number is that of queries whose rows equal Hudi's, by feature and by the version
of the table; – : no golden table of that version. What is refused, and where Penstock answers otherwise on purpose, is
in [semantics.md](semantics.md).

"""


def document(outcomes: Mapping[tuple[str, str], str]) -> str:
    """The page for the outcome of each entry, by (case, query id)."""
    versions = _versions()
    counts_of: dict[str, dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for (case, _), outcome in outcomes.items():
        counts_of[feature_of(case)][versions[case]][outcome] += 1
    lines = ["| feature | version 6 | version 8 | version 9 |", "|---|---|---|---|"]
    for feature, _ in FEATURES:
        cells = [_cell(counts_of[feature][version]) for version in VERSIONS]
        lines.append(f"| {feature} | {' | '.join(cells)} |")
    totals = ", ".join(f"{count} {what}" for what, count in sorted(Counter(outcomes.values()).items()))
    lines += ["", f"Of {len(outcomes)} queries: {totals}."]
    lines += ["", *_notes(outcomes)]
    return HEAD + "\n".join(lines).rstrip() + "\n\n" + section()


def feature_of(case: str) -> str:
    """The feature that a golden table covers."""
    plain = re.sub(r"_v[689](?=_|$)", "", case)
    for feature, pattern in FEATURES:
        if re.match(pattern, plain):
            return feature
    raise SystemExit(f"golden table {case} matches no feature of the page: add one to FEATURES")


def _cell(counts: Counter[str]) -> str:
    if not counts:
        return "–"
    return ", ".join(f"{what} ({count})" for what, count in sorted(counts.items()) if what != OTHER) or "–"


def _notes(outcomes: Mapping[tuple[str, str], str]) -> list[str]:
    from test_every_golden_table import LATE_ROWS

    late = [name for name in LATE_ROWS if tuple(name.split("/")) in outcomes]
    notes = [
        f'In {len(late)} of the ranges rows that lose their merge, which Hudi returns (semantics.md, "Where Penstock '
        f"differs from Hudi\"), are taken out of Hudi's answer first: {', '.join(late)}."
    ]
    notes += [
        "",
        "Hudi merges with the Java class of a custom payload class or merge strategy, Penstock with a [registered "
        "function](semantics.md#custom-mergers).",
    ]
    left_out = [f"{case}/{query}" for (case, query), outcome in outcomes.items() if outcome == OTHER]
    if left_out:
        notes += [
            "",
            f"Not comparable, because Hudi's own answer holds no values: {', '.join(left_out)} (tests/golden).",
        ]
    return notes


def _versions() -> dict[str, int]:
    files = [*sorted(GOLDEN.glob("cases_*.json")), GOLDEN / "mergers.json"]
    cases = (case for file in files for case in json.loads(file.read_text()))
    return {case["name"]: case["table_version"] for case in cases}


def asserted() -> dict[tuple[str, str], str]:
    """The outcome that the golden suite asserts for each entry."""
    from changes import DUMPED

    entries = [*counted_entries(), *counted_mergers()]
    rows = {(entry.case, entry.query_id): EXPIRED if entry.must_fail else EQUAL for entry in entries}
    changes = {(entry.case, entry.query_id): OTHER if str(entry) == DUMPED else EQUAL for entry in counted_changes()}
    return {**rows, **changes}


def run() -> dict[tuple[str, str], str]:
    """The outcome of each entry. SystemExit: an entry neither equals Hudi's rows nor fails as expected."""
    import test_mergers
    from changes import DUMPED, hudi_changes, lost_decimals, rows_of
    from rows import difference
    from test_every_golden_table import expected_rows

    from penstock.proto.errors import PositionExpired

    def of_rows(tables: Any, entry: Entry) -> str:
        try:
            actual = rows_of(tables.table(entry.case), entry.query, columns_by_name=entry.columns_by_name)
        except PositionExpired:
            if entry.must_fail:
                return EXPIRED
            raise
        return difference(actual, expected_rows(tables, entry)) or EQUAL

    def of_changes(tables: Any, entry: Entry) -> str:
        if str(entry) == DUMPED:
            return OTHER
        expected, actual = tables.expected(entry.case, entry.query_id), rows_of(tables.table(entry.case), entry.query)
        lost = lost_decimals(expected)
        return EQUAL if hudi_changes(expected, lost) == hudi_changes(actual, lost) else "other changes"

    def of_mergers(tables: Any, entry: Entry) -> str:
        path = test_mergers.unpacked(entry.case, pathlib.Path(folder) / entry.case)
        return difference(test_mergers.rows_of(path, entry.query), test_mergers.expected_rows(entry)) or EQUAL

    outcomes: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory() as folder:
        tables = _conftest().GoldenTables(pathlib.Path(folder))
        for entries, judge in (
            (counted_entries(), of_rows),
            (counted_changes(), of_changes),
            (counted_mergers(), of_mergers),
        ):
            for entry in _progress(entries):
                outcome = outcomes[entry.case, entry.query_id] = judge(tables, entry)
                if outcome not in (EQUAL, EXPIRED, OTHER):
                    raise SystemExit(f"{entry}: {outcome}")
    return outcomes


def _conftest() -> Any:
    """The conftest of the suites, which has the fixture of golden tables."""
    spec = importlib.util.spec_from_file_location("golden_conftest", REPOSITORY / "tests" / "conftest.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _progress(entries: Iterable[Entry]) -> Iterable[Entry]:
    from rich.progress import track

    return track(list(entries), description="golden tables", transient=True)


if __name__ == "__main__":
    TARGET.write_text(document(run()), encoding="utf-8")
