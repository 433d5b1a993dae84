"""Tables with a merger or payload class that is in no merge mode, against the rows of real Hudi with the Java class."""

from __future__ import annotations

import json
import pathlib
import zipfile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.group.connect import open_group_enumerator
from penstock.engine.spark.load import loaded
from penstock.engine.spark.planning import schema_of
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.enumerator.server.run import serve
from penstock.errors import UnsupportedFeature
from penstock.proto.model.queries import Incremental, PlanRequest, Query, Snapshot, SnapshotAsOf
from penstock.proto.options.registry import EntryPoint
from penstock.reader.merge import mergers
from tests.golden.catalogue import Entry, counted_mergers
from tests.golden.rows import difference

GOLDEN = pathlib.Path(__file__).parent
CASES = {case["name"]: case for case in json.loads((GOLDEN / "mergers.json").read_text())}
ENTRIES = counted_mergers()
FUNCTIONS = {
    "example.mergers.CountingPayload": "tests.golden.merge_functions:counting",
    "5c1f0a52-7e0d-4f6a-9a3e-2f6d5b0c4e11": "tests.golden.merge_functions:lowest",
}
WITH_META_COLUMNS = [name for name in CASES if "virtual" not in name]
"""Without meta columns there is no range: Hudi refuses it too."""
OF_USERS = [name for name, case in CASES.items() if case["merger"] in FUNCTIONS]


def unpacked(name: str, tmp_path: pathlib.Path) -> str:
    with zipfile.ZipFile(GOLDEN / "tables" / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    return str(tmp_path)


def expected(case: dict[str, Any], query_id: str) -> pa.Table:
    (query,) = (query for query in case["queries"] if query["id"] == query_id)
    return pq.read_table(GOLDEN / query["expected"])


def read(path: str, **options: Any) -> pa.Table:
    return penstock.read(path, mergers=FUNCTIONS, **options).read_all()


def rows_of(path: str, query: Query) -> pa.Table:
    """Penstock's rows of an entry of the catalogue."""
    match query:
        case SnapshotAsOf(as_of):
            return read(path, as_of=as_of)
        case Incremental(after, upto):
            return read(path, query="incremental", after=str(after), upto=str(upto))
        case _:
            return read(path)


def expected_rows(entry: Entry) -> pa.Table:
    """Hudi's rows. Its own ranges merge only their files: those of a range are the rows that its instant wrote, of
    Hudi's snapshot as of this instant (`README.md`, `full`)."""
    case = CASES[entry.case]
    if not isinstance(entry.query, Incremental):
        return expected(case, entry.query_id)
    number = int(entry.query_id.removeprefix("inc_"))
    state = expected(case, f"asof_{number}")
    return state.filter(pc.equal(state["_hoodie_commit_time"], case["instants"][number][0]))


@pytest.mark.parametrize("name", CASES)
def test_rows_equal_hudis(name: str, tmp_path: pathlib.Path) -> None:
    path = unpacked(name, tmp_path)
    for entry in ENTRIES:
        if entry.case == name:
            assert not difference(rows_of(path, entry.query), expected_rows(entry)), entry


def test_catalogue_has_every_entry_but_the_ranges_without_meta_columns() -> None:
    """Hudi refuses these ranges, too."""
    assert len(ENTRIES) == sum(len(case["queries"]) for case in CASES.values()) - 6 * 3 == 158
    ranges = {entry.case for entry in ENTRIES if isinstance(entry.query, Incremental)}
    assert ranges == set(WITH_META_COLUMNS)


@pytest.mark.parametrize("name", WITH_META_COLUMNS)
def test_changes_lead_from_state_to_state(name: str, tmp_path: pathlib.Path) -> None:
    path, case = unpacked(name, tmp_path), CASES[name]
    keys = [times[-1] for times in case["instants"]]
    for number in range(1, len(keys)):
        before, after = (rows_by_key(expected(case, f"asof_{place}")) for place in (number - 1, number))
        changes = read(path, query="cdc", after=keys[number - 1], upto=keys[number])
        state = dict(before)
        for change in changes.sort_by("_change_seq").to_pylist():
            key, row = change["id"], {column: change[column] for column in ("id", "ts", "n", "note")}
            if change["_change_type"].startswith("-"):
                assert state.pop(key) == row, (number, change)
            else:
                state[key] = row
        assert state == after, number


def rows_by_key(table: pa.Table) -> dict[str, Any]:
    return {row["id"]: row for row in table.select(["id", "ts", "n", "note"]).to_pylist()}


@pytest.mark.parametrize("name", OF_USERS)
def test_without_a_function_the_table_is_refused(name: str, tmp_path: pathlib.Path) -> None:
    path, merger = unpacked(name, tmp_path), CASES[name]["merger"]
    with pytest.raises(UnsupportedFeature, match=merger) as caught:
        penstock.read(path)
    assert "mergers" in str(caught.value) and "penstock.mergers" in str(caught.value)
    with pytest.raises(UnsupportedFeature, match=merger):
        penstock.read(path, mergers={"another": FUNCTIONS[merger]})
    assert penstock.read(path, query="read_optimized").read_all().num_rows, "no log is merged"


@pytest.mark.parametrize("name", OF_USERS)
def test_another_function_gives_other_rows(name: str, tmp_path: pathlib.Path) -> None:
    path, case = unpacked(name, tmp_path), CASES[name]
    other = next(target for merger, target in FUNCTIONS.items() if merger != case["merger"])
    actual = penstock.read(path, mergers={case["merger"]: other}).read_all()
    assert difference(actual, expected(case, "snapshot"))


@pytest.mark.parametrize("name", OF_USERS)
def test_columns_filter_and_batches_change_no_row(name: str, tmp_path: pathlib.Path) -> None:
    path, whole = unpacked(name, tmp_path), expected(CASES[name], "snapshot")
    kept = whole.filter(pc.greater(whole["n"], 5)).select(["note", "id"])
    for batch_rows in (1, 3, 32_768):
        actual = read(path, columns=["note", "id"], where="n > 5", batch_rows=batch_rows)
        assert not difference(actual, kept), batch_rows


def test_a_readers_function_merges_what_a_server_planned(tmp_path: pathlib.Path) -> None:
    name = "G_merger_v9_h120"
    path, case = unpacked(name, tmp_path), CASES[name]
    keys = [times[-1] for times in case["instants"]]
    with serve({"lowest": path}, "127.0.0.1:0") as server:
        assert not difference(read("lowest", server=server.address), expected(case, "snapshot"))
        with pytest.raises(UnsupportedFeature, match=case["merger"]):
            penstock.read("lowest", server=server.address)
        limits = {"after": keys[3], "upto": keys[4]}
        with penstock.Consumer(server.address, "lowest", group="g", mergers=FUNCTIONS, **limits) as consumer:
            batches = []
            for part in consumer:
                batches.append(part.batch)
                consumer.commit()
            rows = pa.Table.from_batches(batches)
    state = expected(case, "asof_4")
    assert not difference(rows, state.filter(pc.equal(state["_hoodie_commit_time"], case["instants"][4][0])))


@pytest.mark.parametrize("given", [True, False])
def test_event_times_without_a_server_are_read_with_the_function(given: bool, tmp_path: pathlib.Path) -> None:
    """The watermark of a stream of Spark is that of the merged rows; a group of this process can plan."""
    name = "G_payload_v9_h120"
    path, merger = unpacked(name, tmp_path), CASES[name]["merger"]
    timed = {"path": path, "eventTime": "ts", "eventTimeUnit": "s", "maxOutOfOrderness": "0s", "metadata": "off"}
    options = {**timed, **({"mergers": f"{merger}={FUNCTIONS[merger]}"} if given else {})}
    load = loaded(options, EntryPoint.STREAM, {})
    stream = PenstockStreamReader(load, schema_of(load))
    request = PlanRequest(
        table=path, query=Snapshot(), event_time="ts", event_time_unit="s", scan_event_time=True, metadata=False
    )
    with open_group_enumerator(None, mergers=load.options.mergers) as group:
        if not given:
            with pytest.raises(UnsupportedFeature, match=merger):
                stream.latestOffset(stream.initialOffset())
            with pytest.raises(UnsupportedFeature, match=merger):
                group.open_plan(request, "r")
            return
        assert group.open_plan(request, "r").splits
    reached = stream.latestOffset(stream.initialOffset())
    highest = pc.max(expected(CASES[name], "snapshot")["ts"]).as_py()
    assert reached["high_us"] == highest * 1_000_000


@pytest.mark.parametrize("name", OF_USERS)
def test_writes_and_services_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    path, merger = unpacked(name, tmp_path), CASES[name]["merger"]
    row = pa.table({"id": ["k01"], "ts": [1], "n": [1], "note": ["x"], "p": ["a"]})
    for call in (lambda: penstock.write(path, row, operation="upsert"), lambda: penstock.compact(path)):
        with pytest.raises(UnsupportedFeature, match=f"{merger}|version 8|populate.meta.fields"):
            call()


def test_an_installed_entry_point_is_found(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "G_payload_v9_h120"
    path, case = unpacked(name, tmp_path / "table"), CASES[name]
    folder = tmp_path / "site" / "counting-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    target = FUNCTIONS[case["merger"]]
    (folder / "entry_points.txt").write_text(f"[penstock.mergers]\n{case['merger']} = {target}\n")
    with pytest.raises(UnsupportedFeature):
        penstock.read(path)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    mergers._installed.cache_clear()
    try:
        assert not difference(penstock.read(path).read_all(), expected(case, "snapshot"))
    finally:
        mergers._installed.cache_clear()
