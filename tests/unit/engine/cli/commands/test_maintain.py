"""`penstock maintain`: its options, what it prints, and that a failed service is an error after the others."""

from __future__ import annotations

import json
import pathlib

import pytest

from penstock.engine.cli.main import run
from penstock.engine.table_services import maintain as maintain_module
from penstock.proto.errors import WriteConflict
from tests.unit.engine.table_services.lake import Lake

FEW = ["--compact-after", "2", "--commits", "1", "--keep-min", "2", "--keep-max", "3"]


def test_command(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Lake(tmp_path)
    lake.write(4)
    path = str(lake.path)
    assert run(["maintain", path, "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["compactions"] is shown["clusterings"] is shown["clean"] is shown["archive"] is None
    assert sorted(shown["reasons"]) == ["archive", "clean", "cluster", "compact"] and shown["failures"] == []
    assert run(["maintain", path, *FEW, "--dry-run"]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["service", "-------", "compact", "cluster", "clean", "archive"]
    assert lines[4][1:] == ["-", "would: 4 files deleted"] and len(lake.files()) == 4
    assert run(["maintain", path, *FEW, "--skip", "archive", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["clean"]["files"]) == 4 and shown["reasons"]["archive"] == "skipped"
    assert run(["maintain", path, *FEW]) == 0
    assert "2 instants; 2 writes stay" in capsys.readouterr().out
    assert run(["maintain", path, "--skip", "vacuum"]) == 2


def test_compactions_and_clusterings_are_shown(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Lake(tmp_path, kind="merge_on_read")
    lake.write(2)
    assert run(["maintain", str(lake.path), *FEW, "--format", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["compactions"]
    assert (one["state"], one["groups"]) == ("completed", 2)
    assert run(["maintain", str(lake.path), "--cluster-after", "1"]) == 1
    captured = capsys.readouterr()
    assert "cluster  -        failed: " in captured.out and "has a bucket index" in captured.err


def test_failed_service_is_printed_and_is_the_exit_code(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    lake.write(4)

    def conflicts(*_: object, **__: object) -> None:
        raise WriteConflict("another process cleans")

    monkeypatch.setattr(maintain_module, "clean_serviced", conflicts)
    assert run(["maintain", str(lake.path), *FEW, "--format", "json"]) == WriteConflict.exit_code
    captured = capsys.readouterr()
    shown = json.loads(captured.out)
    assert (
        shown["failures"] == [{"service": "clean", "code": "WRITE_CONFLICT", "error": "another process cleans"}]
        and shown["archive"] is not None
    )
    assert "clean failed (WRITE_CONFLICT): another process cleans. Done: archive to" in captured.err
