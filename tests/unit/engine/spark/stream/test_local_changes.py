"""Streams without a server over a table on a local disk: a change of the timeline ends the wait of an idle stream."""

from __future__ import annotations

import pathlib
import queue
import shutil
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.spark.load import loaded
from penstock.engine.spark.planning import schema_of
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.enumerator.tables import inotify
from penstock.enumerator.tables.inotify import FolderEvent
from penstock.proto.options.registry import EntryPoint

pytestmark = pytest.mark.golden


def test_idle_stream_waits_until_its_local_timeline_changes(
    tmp_path: pathlib.Path, golden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waits are longer than the time limit of a test: only a report ends them."""
    shutil.copytree(golden.table("B_up_cow_cdc_v9"), tmp_path / "table")
    events: queue.Queue[list[FolderEvent]] = queue.Queue()
    closed = threading.Event()
    folders = SimpleNamespace(add=lambda folder: 1, remove=lambda watch: None, read=events.get, close=closed.set)
    monkeypatch.setattr(inotify, "open_inotify", lambda: folders)
    load = loaded({"path": str(tmp_path / "table"), "after": "latest"}, EntryPoint.STREAM, {})
    stream = PenstockStreamReader(load, schema_of(load))
    start = stream.initialOffset()
    assert stream.latestOffset(start) == start
    stream._pause(3600)  # the watch is new: an instant may have completed before it
    assert stream.latestOffset(start) == start
    events.put([FolderEvent(1, inotify.MOVED_IN, "20990101000000000_20990101000000001.commit")])
    stream._pause(3600)
    stream.stop()
    assert closed.is_set()
    events.put([])
