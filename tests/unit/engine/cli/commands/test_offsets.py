"""`penstock offsets resolve`: output formats, flags and errors."""

from __future__ import annotations

import pathlib
import re
import zipfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

pytestmark = pytest.mark.golden

ROOT = pathlib.Path(__file__).parents[5]
STREAMER, KEYS, SINK, NO_KEYS = "C_v6_streamer", "C_v9_streamer_keys", "C_v9_sink", "B_v9_arch_mor"
OTHERS_FLAG = "--others-read-other-topics"


@pytest.fixture
def checkpoint(tmp_path: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(ROOT / "tests" / "golden" / "tables" / f"{SINK}.checkpoint.zip") as packed:
        packed.extractall(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def documented() -> set[str]:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    rows = text.split("`offsets resolve` (`--format json`): an object.", 1)[1].split("\n\n", 2)[1].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_offsets_as_json(cli: Cli, golden: GoldenTables) -> None:
    report = cli("offsets", "resolve", golden.table(STREAMER), "--explain", "--format", "json").json
    assert set(report) == documented()
    assert (report["topic"], report["offsets"]) == ("orders", {"0": 17, "1": 12, "2": 6})
    assert (report["origin"], report["guarantee"]) == ("commit", "exact")
    (source,) = report["sources"]
    assert source == {
        "instant": "20261120215905690",
        "order_key": "20261120215905690",
        "archived": False,
        "writer": "streamer",
        "key": "deltastreamer.checkpoint.key",
        "offsets": {"0": 17, "1": 12, "2": 6},
    }
    assert [step["what"].partition(":")[0] for step in report["steps"]] == [
        "skipped",
        "used",
        "older, and covered by the offsets used",
        "older, and covered by the offsets used",
    ]


def test_offsets_as_text(cli: Cli, golden: GoldenTables) -> None:
    result = cli("offsets", "resolve", golden.table(STREAMER), "20261120215227067")
    assert result.code == 0
    fields, partitions = result.text.strip().split("\n\n")
    assert re.search(r"^from +deltacommit 20261120215227067 \(streamer\)$", fields, re.M)
    assert [line.split() for line in partitions.splitlines()[2:]] == [["0", "16"], ["1", "10"], ["2", "0"]]
    explained = cli("offsets", "resolve", golden.table(STREAMER), "--explain").text
    assert "a table service adds no rows" in explained


def test_offsets_of_several_writers(cli: Cli, golden: GoldenTables) -> None:
    result = cli("offsets", "resolve", golden.table(KEYS))
    assert (result.code, result.text) == (2, "")
    assert "error [CONFIGURATION]: several writers" in result.stderr
    report = cli("offsets", "resolve", golden.table(KEYS), OTHERS_FLAG, "--format", "json").json
    assert report["offsets"] == {"0": 8, "1": 7}
    assert any("the user states" in note for note in report["notes"])


def test_offsets_under_a_key_of_the_user(cli: Cli, golden: GoldenTables) -> None:
    named = ("--key", "streamer.checkpoint.key.v2", "--key-format", "streamer", "--format", "json")
    report = cli("offsets", "resolve", golden.table(KEYS), OTHERS_FLAG, *named).json
    assert (report["offsets"], report["guarantee"]) == ({"0": 8, "1": 7}, "best effort")
    wrong = cli("offsets", "resolve", golden.table(KEYS), OTHERS_FLAG, "--key", named[1], "--key-format", "json")
    assert wrong.code == 3
    assert "error [FORMAT]: deltacommit 20261120220427597, key streamer.checkpoint.key.v2" in wrong.stderr


@pytest.mark.parametrize("form", ["{}", "default_single_writer={}"])
def test_offsets_of_a_spark_sink(cli: Cli, golden: GoldenTables, checkpoint: pathlib.Path, form: str) -> None:
    flags = ("--checkpoint", form.format(checkpoint), "--format", "json")
    report = cli("offsets", "resolve", golden.table(SINK), *flags).json
    assert (report["topic"], report["offsets"]) == ("pay_120", {"0": 18, "1": 10, "2": 2})
    assert report["sources"][0]["writer"] == "spark default_single_writer"


def test_spark_checkpoint_of_another_sink_is_refused(cli: Cli, golden: GoldenTables, checkpoint: pathlib.Path) -> None:
    alone = cli("offsets", "resolve", golden.table(SINK))
    assert (alone.code, "--checkpoint default_single_writer=FOLDER" in alone.stderr) == (2, True)
    other = cli("offsets", "resolve", golden.table(SINK), "--checkpoint", f"other={checkpoint}")
    assert (other.code, "which was not named" in other.stderr) == (2, True)
    (checkpoint / "offsets" / "2").unlink()
    gone = cli("offsets", "resolve", golden.table(SINK), "--checkpoint", checkpoint)
    assert (gone.code, "error [POSITION_EXPIRED]" in gone.stderr) == (3, True)


def test_commits_without_offsets(cli: Cli, golden: GoldenTables) -> None:
    result = cli("offsets", "resolve", golden.table(NO_KEYS))
    assert result.code == 2
    assert "no commit up to the hand-over instant holds offsets" in result.stderr
    for text in ('{"orders":{"0":5}}', "orders,0:5"):
        flags = ("--starting-offsets", text, "--format", "json")
        report = cli("offsets", "resolve", golden.table(NO_KEYS), *flags).json
        assert (report["topic"], report["offsets"]) == ("orders", {"0": 5})
        assert (report["origin"], report["guarantee"], report["sources"]) == ("given", "as given", [])
    text_report = cli("offsets", "resolve", golden.table(NO_KEYS), "--starting-offsets", "orders,0:5").text
    assert re.search(r"^from +the offsets given$", text_report, re.M)


def test_topic_without_commits_in_the_table(cli: Cli, golden: GoldenTables) -> None:
    result = cli("offsets", "resolve", golden.table(STREAMER), "--topic", "other")
    assert (result.code, "holds offsets of other" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--key", "k"], "give both"),
        (["--key-format", "json"], "give both"),
        (["--key", "deltastreamer.checkpoint.reset_key", "--key-format", "streamer"], "never holds a position"),
        (["--key-format", "xml"], "xml"),
        (["--topic", "a b"], "--topic"),
        (["--checkpoint", "a=x", "--checkpoint", "a=y"], "each ID once"),
        (["--checkpoint", "a=x", "--checkpoint", "/y"], "ID=FOLDER"),
        (["--checkpoint", "=x"], "ID=FOLDER"),
        (["--starting-offsets", "orders"], "--starting-offsets"),
        (["--starting-offsets", "17"], "one topic"),
        (["--starting-offsets", '{"a":{"0":1},"b":{"0":1}}'], "one topic"),
        (["--starting-offsets", "a,0:1", "--topic", "b"], "offsets of b"),
        (["20000101000000000"], "not the requested time"),
        (["yesterday"], "not an instant"),
    ],
)
def test_offsets_usage_errors(cli: Cli, golden: GoldenTables, arguments: list[str], message: str) -> None:
    result = cli("offsets", "resolve", golden.table(STREAMER), *arguments)
    assert (result.code, result.text) == (2, "")
    assert message in result.stderr


def test_offsets_of_a_missing_table(cli: Cli, tmp_path: pathlib.Path) -> None:
    result = cli("offsets", "resolve", tmp_path)
    assert (result.code, "error [TABLE_NOT_FOUND]" in result.stderr) == (1, True)


def test_offsets_without_arguments_prints_help(cli: Cli) -> None:
    result = cli("offsets")
    assert (result.code, result.text) == (2, "")
    assert "resolve" in result.stderr
