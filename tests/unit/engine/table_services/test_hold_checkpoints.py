"""The position of a Spark query by its checkpoint, and that it holds the cleaner."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace

import pytest

from penstock.engine.stream_offsets import ScopeId, offset_of
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.holding.checkpoints import checkpoint_position
from penstock.proto.errors import ConfigurationError, FormatError
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.streams import NoBatch, Progress, StreamPoint, Watermark
from tests.unit.engine.table_services.lake import Lake

SCOPE = ScopeId("0123456789abcdef", is_hybrid=False)


def point(position: str, table: str = "trips") -> StreamPoint:
    progress = Progress(Position(InstantTime(position)), layout=2, table_id=table)
    return StreamPoint(progress=progress, snapshot=None, watermark=Watermark(), content=NoBatch(), ended=False)


def batch(folder: pathlib.Path, number: int, *points: StreamPoint | None, completed: bool = True) -> None:
    """Writes the files of a batch, as Spark does."""
    sources = ["-" if each is None else json.dumps(offset_of(each, SCOPE)) for each in points]
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "commits").mkdir(exist_ok=True)
    (folder / "offsets" / str(number)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *sources]))
    (folder / "offsets" / f".{number}.crc").write_bytes(b"x")
    if completed:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_position_is_the_end_of_the_last_completed_batch(tmp_path: pathlib.Path) -> None:
    for number, position in ((8, "10"), (9, "20"), (10, "30")):
        batch(tmp_path, number, None, point(position), completed=number < 10)
    assert checkpoint_position(str(tmp_path), "trips") == Position(InstantTime("20"))
    batch(tmp_path, 10, None, point("30"))
    assert checkpoint_position(str(tmp_path), "trips") == Position(InstantTime("30"))
    batch(tmp_path, 11, point("25", "other"), point("40"), point("35"))
    assert checkpoint_position(str(tmp_path), "trips") == Position(InstantTime("35"))
    batch(tmp_path, 12, replace(point("50"), ended=True))
    assert checkpoint_position(str(tmp_path), "trips") is None


def test_query_without_a_completed_batch_needs_everything(tmp_path: pathlib.Path) -> None:
    batch(tmp_path, 0, point("10"), completed=False)
    assert checkpoint_position(str(tmp_path), "trips") == EARLIEST


def test_folder_without_offsets_of_the_table_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="no checkpoint of a query"):
        checkpoint_position(str(tmp_path), "trips")
    batch(tmp_path, 0, point("10", "other"))
    with pytest.raises(ConfigurationError, match="no source of Penstock that reads table trips; it reads other"):
        checkpoint_position(str(tmp_path), "trips")


@pytest.mark.parametrize(
    "text", ["", "v1\n{}", "v2\n{}\n{}", "v1\n{}\n{", "v1\n{}\n" + "[" * 100_000, "v1\n{}\n\ufffd"]
)
def test_damaged_file_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    batch(tmp_path, 0, point("10"))
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(FormatError, match="offsets/0"):
        checkpoint_position(str(tmp_path), "trips")
    (tmp_path / "offsets" / "0").unlink()
    batch(tmp_path, 1, point("10"), completed=False)
    with pytest.raises(FormatError, match="offsets/0 is gone"):
        checkpoint_position(str(tmp_path), "trips")


def test_offset_with_fields_of_another_type_is_refused(tmp_path: pathlib.Path) -> None:
    batch(tmp_path, 0, point("10"))
    damaged = {**offset_of(point("10"), SCOPE), "index": "x"}
    (tmp_path / "offsets" / "0").write_text("v1\n{}\n" + json.dumps(damaged))
    with pytest.raises(ConfigurationError, match="not an offset of Penstock"):
        checkpoint_position(str(tmp_path), "trips")


def test_checkpoint_holds_the_cleaner_until_the_query_goes_on(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.write(6)
    keys = [lake.table.timeline().order_key(item) for item in lake.table.timeline().completed_writes]
    folder = tmp_path / "checkpoint"
    batch(folder, 0, point(keys[1]))
    held = clean(str(lake.path), commits=1, hold_checkpoints=[str(folder)], hold_at_most="48h")
    assert (held.holds[0].kind, held.holds[0].name, held.holds[0].state) == ("checkpoint", str(folder), "holds")
    assert held.holds[0].keeps_from == lake.instants[2] and len(lake.files()) == 5
    lake.check_states(lake.instants[1])
    batch(folder, 1, point(keys[5]))
    assert clean(str(lake.path), commits=1, hold_checkpoints=[str(folder)], hold_at_most="48h").files
    assert len(lake.files()) == 2
