"""Changes in known weak points: the files that a commit's changes open, filters, unfinished services, missing logs.

Named after the fault list: weak points 6 and 14, fault 23.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import PositionExpired
from penstock.proto.model.changes import ChangeFormat, ComparedStates, GroupChanges, LoggedImages
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.splits import Plan
from penstock.reader.read_split import output_schema, read_split
from penstock.table.files.names import parse_file_name
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage.filesystem import FileInfo, Storage, open_storage
from tests.golden.changes import balance, canonical_changes, rows_of, state_of

pytestmark = pytest.mark.golden

MODES = [
    "B_v9_cdc_cow_op_key_only",
    "B_v9_cdc_cow_data_before",
    "B_v9_cdc_cow_data_before_after",
    "B_v9_cdc_mor_op_key_only",
    "B_v9_cdc_mor_data_before",
    "B_v9_cdc_mor_data_before_after",
    "B_v8_cdc_cow_data_before_after",
    "B_v8_cdc_mor_data_before_after",
    "B_v6_cdc_mor_data_before_after",
]


class Golden(Protocol):
    def case(self, name: str) -> dict[str, Any]: ...
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


class CountingStorage:
    """A table's storage that records the opened files and the listed folders."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.base_path = inner.base_path
        self.opened: set[str] = set()
        self.listed: set[str] = set()

    def list_dir(self, path: str) -> list[FileInfo]:
        self.listed.add(path)
        return self._inner.list_dir(path)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        self.opened.add(path)
        return self._inner.read_bytes(path, limit_bytes)

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened.add(path)
        return self._inner.open_input(path)

    def file_info(self, path: str) -> FileInfo | None:
        return self._inner.file_info(path)

    @property
    def data_groups(self) -> set[tuple[str, str]]:
        """The file groups of the opened data files."""
        result = set()
        for path in self.opened:
            folder, _, name = path.rpartition("/")
            parsed = None if folder.startswith(".hoodie") else parse_file_name(name)
            if parsed is not None:
                result.add((folder, parsed.file_id))
        return result


def changes(after: str = "", upto: str = "", form: ChangeFormat = ChangeFormat.ROWS) -> Changes:
    query = Changes(form, Position(InstantTime(after)) if after else EARLIEST)
    return Changes(form, query.after, Position(InstantTime(upto))) if upto else query


def planned(path: pathlib.Path, query: Changes, **more: Any) -> Plan:
    return plan_request(open_table(str(path)), "t", PlanRequest(table="t", query=query, **more))


def sources(plan: Plan) -> list[object]:
    return [step.source for split in plan.splits if isinstance(split.part, GroupChanges) for step in split.part.steps]


@pytest.mark.parametrize("form", ChangeFormat)
@pytest.mark.parametrize("case", ["B_v9_cdc_mor_data_before", "B_v9_cdc_mor_bucket", "B_v6_cdc_mor_data_before_after"])
def test_changes_of_a_commit_open_only_the_groups_that_it_names(golden: Golden, case: str, form: ChangeFormat) -> None:
    path = str(golden.table(case))
    table = open_table(path)
    timeline = table.timeline()
    everything, spared, before = set(), 0, ""
    for instant in sorted(timeline.completed_writes, key=timeline.order_key):
        commit = table.commit(instant)
        named = {*commit.replaced, *((stat.partition, stat.file_id) for stat in commit.stats)}
        everything |= named
        storage = CountingStorage(open_storage(path))
        counted = HudiTable(storage, table.properties)
        key = timeline.order_key(instant)
        plan = plan_request(counted, "t", PlanRequest(table="t", query=changes(before, key, form), metadata=False))
        assert len(storage.data_groups) == 1, "the newest data file, for the schema's `_hoodie_operation`"
        storage.opened.clear()
        assert {folder for folder in storage.listed if not folder.startswith(".hoodie")} <= {p for p, _ in named}
        rows = sum(
            part.batch.num_rows for split in plan.splits for part in read_split(plan.scan, split, storage=storage)
        )
        assert storage.data_groups <= named
        assert bool(rows) <= bool(storage.data_groups)
        spared += len(everything - named)
        before = key
    assert len(everything) >= 3
    assert spared >= 3


CONDITIONS: dict[str, Callable[[pa.Table], Any]] = {
    "v >= 30": lambda rows: pc.greater_equal(rows["v"], 30),
    "v < 20": lambda rows: pc.less(rows["v"], 20),
    "name = 'n31' OR name IS NULL": lambda rows: pc.or_kleene(pc.equal(rows["name"], "n31"), pc.is_null(rows["name"])),
    "_hoodie_record_key IN ('k1', 'k3') AND v > 10": lambda rows: pc.and_kleene(
        pc.is_in(rows["_hoodie_record_key"], value_set=pa.array(["k1", "k3"])), pc.greater(rows["v"], 10)
    ),
    "_change_type = '+U' AND ts > 0": lambda rows: pc.and_kleene(
        pc.equal(rows["_change_type"], "+U"), pc.greater(rows["ts"], 0)
    ),
}


@pytest.mark.parametrize("case", MODES)
def test_weak_point_06_filters_apply_to_the_finished_change(golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
    """Every row of a base file has its own row group with statistics: a filter on the images would drop rows, and so
    lose changes, or turn an update into an insert."""
    path = golden.copy(case, tmp_path)
    for file in path.rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            pq.write_table(pq.read_table(file), file, row_group_size=1)
    whole = rows_of(path, changes())
    assert {"+I", "-U", "+U", "-D"} == set(whole["_change_type"].to_pylist())
    met = 0
    for condition, keeps in CONDITIONS.items():
        expected = whole.filter(pc.fill_null(keeps(whole), False))
        assert rows_of(path, changes(), where=condition).equals(expected), condition
        met += 0 < expected.num_rows < whole.num_rows
        assert rows_of(path, changes(), where=condition, columns=("_change_type", "ts")).equals(
            expected.select(["_change_type", "ts"])
        )
    assert met >= 4


@pytest.mark.parametrize("case", MODES)
def test_weak_point_06_hudis_form_is_filtered_by_its_own_columns(golden: Golden, case: str) -> None:
    query = changes(form=ChangeFormat.HUDI)
    whole = rows_of(golden.table(case), query)
    for kind in "iud":
        expected = whole.filter(pc.equal(whole["op"], kind))
        assert expected.num_rows
        assert rows_of(golden.table(case), query, where=f"op = '{kind}'").equals(expected)
        assert rows_of(golden.table(case), query, where=f"op = '{kind}'", columns=("ts_ms",)).equals(
            expected.select(["ts_ms"])
        )


@pytest.mark.parametrize(
    "case",
    [
        "B_v6_timeline_mor_pending_compaction",
        "B_v9_timeline_mor_pending_compaction",
        "A_compaction_pending_v6_h0150",
        "A_compaction_pending_v8_h102",
        "A_compaction_pending_v9_h120",
    ],
)
def test_weak_point_14_unfinished_compaction_changes_nothing(golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
    """The same changes with and without the plan; logs after it are compared with the state before it."""
    path = golden.copy(case, tmp_path)
    layout = open_table(str(path)).properties.layout
    folder = path / ".hoodie" / ("timeline" if layout == 2 else "")
    names = {file.name for file in folder.iterdir()}
    done = {name.partition("_")[0].partition(".")[0] for name in names if name.endswith(".commit")}
    plans = {name: name.partition(".")[0] for name in names if ".compaction." in name}
    plans = {name: requested for name, requested in plans.items() if requested not in done}
    assert plans
    begin, with_plan = longest_range(path)
    instants = set(with_plan["_change_instant"].to_pylist())
    assert any(instant > max(plans.values()) for instant in instants)
    if not begin:
        assert balance(with_plan) == dict(state_of(rows_of(path, Incremental())))
    for name in plans:
        (folder / name).unlink()
    assert rows_of(path, changes(begin)).sort_by("_change_seq").equals(with_plan.sort_by("_change_seq"))


def longest_range(path: pathlib.Path) -> tuple[str, pa.Table]:
    """The first begin whose range to the end is not cleaned, and the changes of that range."""
    timeline = open_table(str(path)).timeline()
    for begin in ["", *sorted(timeline.order_key(item) for item in timeline.completed_writes)]:
        with contextlib.suppress(PositionExpired):
            return begin, rows_of(path, changes(begin))
    raise AssertionError(f"no range of {path.name} can be read")


def change_logs(path: pathlib.Path) -> list[pathlib.Path]:
    return [file for file in path.rglob("*.cdc") if ".hoodie" not in file.parts]


def without_change_logs(path: pathlib.Path) -> int:
    """Deletes every `.cdc` file; their number."""
    result = change_logs(path)
    for file in result:
        file.unlink()
    return len(result)


@pytest.mark.parametrize("case", MODES)
def test_weak_point_14_first_write_into_a_new_partition_needs_no_change_log(golden: Golden, case: str) -> None:
    """Groups that a commit created have none: each row is an insert, also if other groups of that commit logged
    changes."""
    table = open_table(str(golden.table(case)))
    plan = planned(golden.table(case), changes())
    new = 0
    for split in plan.splits:
        assert isinstance(split.part, GroupChanges)
        first = split.part.steps[0]
        if isinstance(first.source, ComparedStates) and first.source.before is None:
            new += 1
            batches = [part.batch for part in read_split(plan.scan, split)]
            rows = pa.Table.from_batches(batches, output_schema(plan.scan))
            own = rows.filter(pc.equal(rows["_change_instant"], str(first.instant)))
            assert own.num_rows and set(own["_change_type"].to_pylist()) == {"+I"}
    assert new >= 2
    assert len({split.partition for split in plan.splits}) >= 2
    assert table.properties.raw["hoodie.table.cdc.enabled"] == "true"


@pytest.mark.parametrize("case", ["B_v9_inc_mor", "B_v9_inc_cow", "B_v6_inc_mor"])
def test_weak_point_14_deletes_and_upserts_without_change_logs(golden: Golden, case: str) -> None:
    """Tables without logged changes return all kinds, which fold to the state."""
    path = golden.table(case)
    assert not change_logs(path)
    result = rows_of(path, changes())
    assert set(result["_change_type"].to_pylist()) == {"+I", "-U", "+U", "-D"}
    assert balance(result) == dict(state_of(rows_of(path, Incremental())))


@pytest.mark.parametrize("case", MODES)
def test_fault_23_changes_without_their_logs_are_the_same(golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
    """Every change log is deleted: images are rebuilt from the states, through compaction, clustering and
    replacement."""
    path = golden.copy(case, tmp_path)
    logged = rows_of(path, changes())
    assert any(isinstance(source, LoggedImages) for source in sources(planned(path, changes())))
    assert without_change_logs(path) >= 1
    assert all(isinstance(source, ComparedStates) for source in sources(planned(path, changes())))
    assert canonical_changes(rows_of(path, changes())) == canonical_changes(logged)


@pytest.mark.parametrize("case", MODES)
def test_fault_23_compaction_or_clustering_between_adds_no_change(golden: Golden, case: str) -> None:
    """The range of only a service is empty; ranges that end before it and begin after it miss nothing."""
    path = golden.table(case)
    table = open_table(str(path))
    timeline = table.timeline()
    keys = sorted((timeline.order_key(item), item) for item in timeline.completed_writes)
    services = 0
    for (before, _), (key, item) in zip([("", keys[0][1]), *keys], keys, strict=False):
        if table.commit(item).is_service:
            services += 1
            assert rows_of(path, changes(before, key)).num_rows == 0
    assert services >= 1
