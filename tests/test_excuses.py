"""docs/development/testing.md: every place where a test excuses something is in its table, and every row has places."""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections import Counter

import pytest

from tests.excuse_scan import excuses

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent / "docs" / "development" / "testing.md"
NOT_SEARCHED = ("golden/generators/", "excuse_scan.py", "test_excuses.py")
"""Scripts that wrote the golden tables, and the search itself."""
PLACE = re.compile(r"`([\w./]+\.py)`(?: \((\d+)\))?")

Places = Counter[tuple[str, str]]
"""Numbers of places by kind and file."""


def places_in_source() -> Places:
    """The places of every Python file below `tests`."""
    names = [path.relative_to(HERE).as_posix() for path in HERE.rglob("*.py")]
    searched = [name for name in names if not name.startswith(NOT_SEARCHED)]
    return Counter((place.kind, place.path) for name in searched for place in excuses(name, (HERE / name).read_text()))


def places_in_table(text: str) -> Places:
    """The places of the rows `| kind | places | what | why |`. A file is in one row of a kind."""
    places: Places = Counter()
    lines = text.partition("\n## Excuses\n")[2].partition("\n## ")[0].splitlines()
    for row in [line.strip("|").split(" | ") for line in lines if line.startswith("|")][2:]:
        kind, where, what, why = (cell.strip() for cell in row)
        assert what and why and PLACE.search(where), row
        for path, number in PLACE.findall(where):
            assert (kind, path) not in places, f"two rows of {kind} name {path}"
            places[kind, path] = int(number or 1)
    return places


def differences(source: Places, table: Places) -> list[str]:
    """One line for each file whose number of places is not that of the table."""
    return [
        f"{kind}: {path}: {source[kind, path]} in the source, {table[kind, path]} in the table"
        for kind, path in sorted(source.keys() | table.keys())
        if source[kind, path] != table[kind, path]
    ]


def test_table_has_every_excuse_of_the_tests_and_no_other() -> None:
    assert differences(places_in_source(), places_in_table(PAGE.read_text())) == []


def test_configuration_makes_every_warning_and_unexpected_pass_an_error() -> None:
    options = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert options["filterwarnings"] == ["error"] and options["xfail_strict"] is True
    assert "rerun" not in str(options) and "flaky" not in str(options)


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("import pytest\npytest.skip('x')", ["skip"]),
        ("@pytest.mark.xfail(reason='x')\ndef test_x(): ...", ["skip"]),
        ("x = pytest.importorskip('ray')", ["skip"]),
        ("@pytest.mark.flaky(reruns=2)\ndef test_x(): ...", ["retry"]),
        ("STARTS = 3", ["retry"]),
        ("limits = CallLimits(attempts=5)", ["retry"]),
        ("limits = CallLimits(attempts=1)", []),
        ("@pytest.mark.filterwarnings('ignore')\ndef test_x(): ...", ["filtered warning"]),
        ("warnings.simplefilter('ignore')", ["filtered warning"]),
        ("assert x == pytest.approx(1)", ["tolerance"]),
        ("assert abs(x - y) < 2", ["tolerance"]),
        ("assert late <= early * 1.1 + 16", ["tolerance"]),
        ("assert 0.9 * most < rows < most", ["tolerance"]),
        ("assert late == early * 1.0", []),
        ("assert late <= early * 4", []),
        ("LIMITS: Final = {'memory': 5}", ["tolerance"]),
        ("LIMITS = [RoundLimits(1)]", []),
        ("SLACK = 150", ["tolerance"]),
        ("MOST_RUNS = 4", ["retry"]),
        ("assume(x > 1)", ["discarded example"]),
        ("@settings(suppress_health_check=[x])\ndef test_x(): ...", ["discarded example"]),
        ("try:\n    read()\nexcept PenstockError:\n    pass", ["accepted error"]),
        ("try:\n    read()\nexcept:\n    pass", ["accepted error"]),
        ("try:\n    read()\nexcept PenstockError as e:\n    if e.retryable:\n        raise", ["accepted error"]),
        ("try:\n    read()\nexcept PenstockError:\n    raise", []),
        ("try:\n    connect()\nexcept OSError:\n    pass", []),
        ("with contextlib.suppress(OSError, PenstockError):\n    read()", ["accepted error"]),
        ("EXCUSED = {'x'}", ["excuse rule"]),
        ("def is_excused(text): ...", ["excuse rule"]),
        ("assert set(rows['id'].to_pylist()) == {1}", ["rows as a set"]),
        ("assert {row['id'] for row in rows} == ids", ["rows as a set"]),
        ("assert sorted(rows['id'].to_pylist()) == [1]", []),
        ("assert set(names) == {'a'}", []),
    ],
)
def test_search_detects(source: str, kinds: list[str]) -> None:
    assert [place.kind for place in excuses("x.py", source)] == kinds


def test_comparison_detects_new_and_removed_places() -> None:
    header = "\n## Excuses\n\n| kind | places | what | why |\n|---|---|---|---|\n"
    table = places_in_table(f"{header}| skip | `a.py` (2), `b.py` | no Java | CI has it |\n\n## Other\n")
    source = Counter({("skip", "a.py"): 2, ("skip", "b.py"): 1})
    assert differences(source, table) == []
    assert len(differences(source + Counter({("skip", "a.py"): 1}), table)) == 1
    assert len(differences(source + Counter({("retry", "a.py"): 1}), table)) == 1
    assert len(differences(Counter({("skip", "a.py"): 2}), table)) == 1
    with pytest.raises(AssertionError, match="two rows"):
        places_in_table(f"{header}| skip | `a.py`, `a.py` | no Java | CI has it |")
