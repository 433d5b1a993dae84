"""Plans of changes: the source of each commit's changes and its files, on tables without rows."""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.proto.model.changes import (
    ChangeFormat,
    ChangesOf,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Latest, PlanRequest
from penstock.proto.model.splits import Plan
from penstock.table.hudi_table import open_table
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from tests.oracle import slice_writer

PROPERTIES = """\
hoodie.table.name=orders
hoodie.table.type={kind}
hoodie.table.version={version}
hoodie.timeline.layout.version={layout}
hoodie.table.recordkey.fields={key}
hoodie.table.partition.fields=p
hoodie.table.keygenerator.class=org.apache.hudi.keygen.SimpleKeyGenerator
hoodie.table.base.file.format=PARQUET
hoodie.populate.meta.fields={meta}
hoodie.record.merge.mode=COMMIT_TIME_ORDERING
hoodie.compaction.payload.class=org.apache.hudi.common.model.OverwriteWithLatestAvroPayload
hoodie.table.cdc.enabled=true
hoodie.table.cdc.supplemental.logging.mode={mode}
"""


def instant(number: int) -> InstantTime:
    return InstantTime(f"2026010100000{number:04d}")


@dataclass
class Orders:
    """A table of data files without rows. `layout` 1 or 2; on 2 instant n completes at n + 500 by default. The
    schema can be read if `more_fields` are given, else nothing in them can."""

    folder: pathlib.Path
    layout: int = 2
    mode: str = "data_before_after"
    key: str = "id"
    key_type: str = "string"
    more_fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.timeline).mkdir(parents=True)
        self.properties(meta="true")

    def properties(self, *, meta: str) -> None:
        logs = PROPERTIES.format(
            kind="MERGE_ON_READ",
            version=8 if self.layout == 2 else 6,
            layout=self.layout,
            key=self.key,
            mode=self.mode,
            meta=meta,
        )
        (self.folder / ".hoodie" / "hoodie.properties").write_text(logs)

    @property
    def timeline(self) -> pathlib.Path:
        return self.folder / ".hoodie" / ("timeline" if self.layout == 2 else "")

    @property
    def schema(self) -> str:
        kinds = {**self.more_fields, "id": self.key_type, "v": "long", "p": "string"}
        fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
        return json.dumps({"type": "record", "name": "r", "fields": fields})

    def base(self, number: int, group: str = "f", partition: str = "a") -> str:
        return self.file(f"{partition}/{group}_0-1-1_{instant(number)}.parquet")

    def log(self, number: int, version: int = 1, group: str = "f", partition: str = "a", suffix: str = "") -> str:
        return self.file(f"{partition}/.{group}_{instant(number)}.log.{version}_0-1-1{suffix}")

    def file(self, path: str) -> str:
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_bytes(self.content(path) if self.more_fields else b"x")
        return path

    def content(self, path: str) -> bytes:
        schema = slice_writer.table_schema({**self.more_fields, "id": self.key_type})
        if ".log." in path:
            return slice_writer.data_block(schema, [], instant(1))
        sink = io.BytesIO()
        pq.write_table(arrow_schema(parse_record_schema(json.dumps(schema))).empty_table(), sink)
        return sink.getvalue()

    def lose(self, path: str) -> None:
        (self.folder / path).unlink()

    def commit(
        self,
        number: int,
        *stats: Mapping[str, Any],
        action: str = "deltacommit",
        operation: str = "UPSERT",
        replaced: Sequence[tuple[str, str]] = (),
        completed: int = 0,
    ) -> None:
        partitions: dict[str, list[Any]] = {}
        for stat in stats:
            partitions.setdefault(stat["partitionPath"], []).append(stat)
        removed: dict[str, list[str]] = {}
        for partition, group in replaced:
            removed.setdefault(partition, []).append(group)
        metadata = {
            "partitionToWriteStats": partitions,
            "compacted": operation == "COMPACT",
            "operationType": operation,
            "extraMetadata": {"schema": self.schema},
            **({"partitionToReplaceFileIds": removed} if action == "replacecommit" else {}),
        }
        done = f"_{instant(completed or number + 500)}" if self.layout == 2 else ""
        (self.timeline / f"{instant(number)}{done}.{action}").write_text(json.dumps(metadata))

    def plan(self, form: ChangeFormat = ChangeFormat.ROWS, after: int = 0, upto: int = 0, **more: Any) -> Plan:
        begin = Position(instant(after)) if after else EARLIEST
        end = Position(instant(upto)) if upto else Latest()
        request = PlanRequest(table="orders", query=Changes(form, begin, end), metadata=False, **more)
        return plan_request(open_table(str(self.folder)), "orders", request)

    def steps(self, form: ChangeFormat = ChangeFormat.ROWS, group: str = "f", **more: Any) -> list[ChangeStep]:
        splits = {split.file_group: split for split in self.plan(form, **more).splits}
        if group not in splits:
            return []
        part = splits[group].part
        assert isinstance(part, GroupChanges)
        return list(part.steps)


def wrote(path: str, *, prev: int = 0, logged: Sequence[str] = (), rows: int = 1, deletes: int = 0) -> dict[str, Any]:
    """A write stat."""
    partition, _, name = path.rpartition("/")
    return {
        "fileId": name.lstrip(".").partition("_")[0],
        "path": path,
        "prevCommit": instant(prev) if prev else "null",
        "numWrites": rows,
        "numDeletes": deletes,
        "numInserts": 0 if prev else rows,
        "numUpdateWrites": rows if prev else 0,
        "partitionPath": partition,
        "fileSizeInBytes": 1,
        "cdcStats": dict.fromkeys(logged, 1) if logged else None,
    }


def names(files: SliceFiles | None) -> list[str] | None:
    return None if files is None else [file.path for file in files.files]


def summary_of(step: ChangeStep) -> tuple[Any, ...]:
    """The source's kind, and the files of its states."""
    match step.source:
        case LoggedImages(files, before, after, key_fields):
            return ("logged", [file.path for file in files], names(before), names(after), key_fields)
        case ComparedStates(before, after):
            return ("compared", names(before), names(after))
        case StoredKinds(files):
            return ("stored", names(files))


def written_twice(orders: Orders) -> tuple[str, str, str]:
    """A base file that the next commit rewrites with a change log."""
    one, two, log = orders.base(1), orders.base(2), orders.log(2, suffix=".cdc")
    orders.commit(1, wrote(one))
    orders.commit(2, wrote(two, prev=1, logged=[log]))
    return one, two, log


layouts = pytest.mark.parametrize("layout", [1, 2])


@layouts
@pytest.mark.parametrize(
    ("mode", "before", "after", "key_fields"),
    [
        ("op_key_only", True, True, ()),
        ("OP_KEY_ONLY", True, True, ()),
        ("data_before", False, True, ()),
        ("data_before_after", False, False, ("id",)),
    ],
)
def test_logged_commit_needs_the_states_that_the_mode_omits(
    tmp_path: pathlib.Path, layout: int, mode: str, before: bool, after: bool, key_fields: tuple[str, ...]
) -> None:
    orders = Orders(tmp_path, layout, mode)
    one, two, log = written_twice(orders)
    first, second = orders.steps()
    assert summary_of(first) == ("compared", None, [one])
    assert summary_of(second) == ("logged", [log], [one] if before else None, [two] if after else None, key_fields)
    assert [step.instant for step in (first, second)] == [instant(1), instant(2)]
    assert [step.order_key for step in (first, second)] == [
        instant(1 + (layout - 1) * 500),
        instant(2 + (layout - 1) * 500),
    ]
    (hudi,) = orders.steps(ChangeFormat.HUDI)[1:]
    assert summary_of(hudi)[:4] == summary_of(second)[:4]
    assert summary_of(hudi)[4] == ()  # Hudi's format has no separate key


@layouts
def test_missing_change_log_is_replaced_by_comparing_states(tmp_path: pathlib.Path, layout: int) -> None:
    orders = Orders(tmp_path, layout)
    one, two, log = written_twice(orders)
    orders.lose(log)
    assert summary_of(orders.steps()[1]) == ("compared", [one], [two])


def test_one_missing_change_log_of_several_makes_all_unusable(tmp_path: pathlib.Path) -> None:
    orders = Orders(tmp_path)
    one, two = orders.base(1), orders.base(2)
    logs = [orders.log(2, version, suffix=".cdc") for version in (2, 1)]
    orders.commit(1, wrote(one))
    orders.commit(2, wrote(two, prev=1, logged=logs))
    assert summary_of(orders.steps()[1])[:2] == ("logged", sorted(logs))
    orders.lose(logs[0])
    assert summary_of(orders.steps()[1]) == ("compared", [one], [two])


@layouts
def test_keys_without_one_text_form_are_compared(tmp_path: pathlib.Path, layout: int) -> None:
    """A change as a row needs its key, and the text form of a float is ambiguous; Hudi's format needs no key."""
    orders = Orders(tmp_path, layout, key_type="double")
    written_twice(orders)
    assert summary_of(orders.steps()[1])[0] == "compared"
    assert summary_of(orders.steps(ChangeFormat.HUDI)[1])[0] == "logged"


@layouts
@pytest.mark.parametrize("mode", ["op_key_only", "data_before_after"])
def test_missing_earlier_file_is_an_error_with_its_name(tmp_path: pathlib.Path, layout: int, mode: str) -> None:
    orders = Orders(tmp_path, layout, mode)
    one, two, log = written_twice(orders)
    orders.lose(one)
    only = 2 + (layout - 1) * 500 - 1
    if mode == "op_key_only":
        with pytest.raises(PositionExpired, match=rf"file {one} .* is needed for this answer and gone"):
            orders.steps(after=only)
    else:  # both images are logged
        assert summary_of(orders.steps(after=only)[0])[:2] == ("logged", [log])
    with pytest.raises(PositionExpired, match=rf"file {one} "):
        orders.steps()
    orders.lose(log)
    with pytest.raises(PositionExpired, match=rf"file {one} "):
        orders.steps(after=only)
    orders.lose(two)
    with pytest.raises((PositionExpired, CorruptFile)):
        orders.steps(after=only)


@layouts
def test_replaced_group_loses_its_rows_and_ignores_later_writes(tmp_path: pathlib.Path, layout: int) -> None:
    orders = Orders(tmp_path, layout)
    one, log, new = orders.base(1), orders.log(2 if layout == 2 else 1), orders.base(3, "g")
    orders.commit(1, wrote(one))
    orders.commit(2, wrote(log, prev=1))
    orders.commit(3, wrote(new), action="replacecommit", operation="INSERT_OVERWRITE", replaced=[("a", "f")])
    late = orders.log(4 if layout == 2 else 1, 9)
    orders.commit(4, wrote(late, prev=1))
    first, second, third = orders.steps()
    if layout == 2:
        assert summary_of(first) == ("compared", None, [one])
        assert summary_of(second) == ("compared", [one], [one, log])
        assert summary_of(third) == ("compared", [one, log], None)
    else:  # logs of layout 1 are named after the base file: the reader selects their blocks
        result = [one, log, late]
        assert list(map(summary_of, (first, second, third))) == [
            ("compared", None, result),
            ("compared", result, result),
            ("compared", result, None),
        ]
    assert [summary_of(step) for step in orders.steps(group="g")] == [("compared", None, [new])]
    places = {group: orders.steps(group=group)[-1].place for group in "fg"}
    assert places == {"f": 0, "g": 1}


def test_empty_group_that_is_replaced_has_no_step(tmp_path: pathlib.Path) -> None:
    orders = Orders(tmp_path)
    orders.commit(1, wrote(orders.base(1, "g")))
    orders.commit(2, action="replacecommit", operation="DELETE_PARTITION", replaced=[("a", "nosuch")])
    assert orders.steps(group="nosuch") == []
    assert len(orders.plan().splits) == 1


def test_instants_with_one_completion_time_are_in_requested_order(tmp_path: pathlib.Path) -> None:
    orders = Orders(tmp_path)
    one = orders.base(1)
    orders.commit(1, wrote(one))
    logs = {number: orders.log(number) for number in (2, 3)}
    for number in (3, 2):
        orders.commit(number, wrote(logs[number], prev=1), completed=700)
    _, second, third = orders.steps()
    assert [step.instant for step in (second, third)] == [instant(2), instant(3)]
    assert {step.order_key for step in (second, third)} == {instant(700)}
    assert summary_of(second) == ("compared", [one], [one, logs[2]])
    assert summary_of(third) == ("compared", [one, logs[2]], [one, logs[2], logs[3]])
    rows = orders.plan().scan.rows
    assert isinstance(rows, ChangesOf)
    assert rows.instants == (instant(1), instant(2), instant(3))


def test_changes_are_in_completion_order(tmp_path: pathlib.Path) -> None:
    """The instant requested first completes last: the states that it compares include the log of the other."""
    orders = Orders(tmp_path)
    one = orders.base(1)
    orders.commit(1, wrote(one))
    slow, quick = orders.log(2), orders.log(3)
    orders.commit(2, wrote(slow, prev=1), completed=900)
    orders.commit(3, wrote(quick, prev=1), completed=800)
    _, second, third = orders.steps()
    assert [step.instant for step in (second, third)] == [instant(3), instant(2)]
    assert summary_of(second) == ("compared", [one], [one, quick])
    assert set(summary_of(third)[1]) == {one, quick}
    assert set(summary_of(third)[2]) == {one, slow, quick}
    assert [step.instant for step in orders.steps(after=800)] == [instant(2)]
    assert [step.instant for step in orders.steps(after=700, upto=800)] == [instant(3)]


@layouts
def test_compaction_has_no_step_and_later_steps_read_its_output(tmp_path: pathlib.Path, layout: int) -> None:
    orders = Orders(tmp_path, layout)
    one, log = orders.base(1), orders.log(2 if layout == 2 else 1)
    orders.commit(1, wrote(one))
    orders.commit(2, wrote(log, prev=1))
    six = orders.base(600)
    changes = orders.log(600, suffix=".cdc")
    orders.commit(600, wrote(six, prev=1, logged=[changes]), action="commit", operation="COMPACT", completed=601)
    seven = orders.log(700 if layout == 2 else 600, 2)
    orders.commit(700, wrote(seven, prev=600), completed=701)
    first, second, third = orders.steps()
    logs = 1 if layout == 2 else 2  # logs of layout 1 are named after the base file
    assert summary_of(first) == ("compared", None, [one, log][:logs])
    assert summary_of(second) == ("compared", [one, log][:logs], [one, log])
    assert summary_of(third) == ("compared", [six, seven][:logs], [six, seven])


def test_logs_of_layout_1_are_shared_by_several_commits(tmp_path: pathlib.Path) -> None:
    """Both states have the same file; the visible instants of the scan select its blocks."""
    orders = Orders(tmp_path, 1)
    one, log = orders.base(1), orders.log(1)
    orders.commit(1, wrote(one))
    for number in (2, 3):
        orders.commit(number, wrote(log, prev=1, rows=number, deletes=1))
    _, second, third = orders.steps()
    for step in (second, third):
        assert isinstance(step.source, ComparedStates) and step.source.after is not None
        (ref,) = step.source.after.logs
        assert ref.path == log
        assert [(w.instant, w.data_rows, w.delete_rows) for w in ref.writes or ()] == [
            (instant(2), 2, 1),
            (instant(3), 3, 1),
        ]
    rows = orders.plan().scan.rows
    assert isinstance(rows, ChangesOf)
    assert rows.instants == tuple(map(instant, (1, 2, 3)))


@layouts
def test_pending_instant_is_no_change_and_in_no_state(tmp_path: pathlib.Path, layout: int) -> None:
    orders = Orders(tmp_path, layout)
    one, two = orders.base(1), orders.base(2)
    orders.commit(1, wrote(one))
    orders.base(3)
    orders.log(3, 5)
    orders.commit(2, wrote(two, prev=1))
    (orders.timeline / f"{instant(3)}.deltacommit.requested").write_text("")
    (orders.timeline / f"{instant(3)}.deltacommit.inflight").write_text("")
    assert [summary_of(step) for step in orders.steps()] == [("compared", None, [one]), ("compared", [one], [two])]
