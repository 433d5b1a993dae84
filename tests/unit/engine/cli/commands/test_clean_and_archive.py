"""`penstock clean` and `penstock archive`: their options, and what they print."""

from __future__ import annotations

import json
import pathlib

import pytest

from penstock.engine.cli.main import run
from tests.unit.engine.table_services.lake import Lake


def test_commands(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Lake(tmp_path)
    lake.write(4)
    path = str(lake.path)
    assert run(["clean", path, "--commits", "1", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "would delete" and len(lines) == 6 and len(lake.files()) == 4
    assert run(["clean", path, "--hours", "1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "table": path,
        "dry_run": False,
        "instant": "",
        "policy": "KEEP_LATEST_BY_HOURS",
        "earliest_to_retain": "",
        "carried_on": [],
        "files": [],
        "partitions": [],
        "holds": [],
    }
    assert run(["clean", path, "--file-versions", "2"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if len(line.split()) == 2)
    assert shown["policy"] == "KEEP_LATEST_FILE_VERSIONS" and shown["files"] == "4"
    assert run(["clean", path, "--commits", "1", "--hours", "1"]) == 2
    assert "expected one of them" in capsys.readouterr().err

    assert run(["archive", path]) == 0
    assert capsys.readouterr().out == "nothing to archive: 4 completed writes are on the timeline\n"
    assert run(["archive", path, "--keep-min", "1", "--keep-max", "2", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("would archive 3 instants from ")
    assert run(["archive", path, "--keep-min", "1", "--keep-max", "2", "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["instants"] == lake.instants[:3] and result["kept"] == 1
