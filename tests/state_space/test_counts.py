"""The counts that the documentation gives are those of the searches."""

from __future__ import annotations

import pathlib

from tests.state_space import scopes
from tests.state_space.counts import GROUPS, PLANS, WRITES

REPOSITORY = pathlib.Path(__file__).parents[2]
PLAN = "plan: two slots, two attempts of each"


def rows(text: str) -> dict[str, tuple[int, int, int]]:
    """The rows of the table of scopes: faults at most, states, transitions."""
    table = text.split("| scope | faults | states | transitions |\n|---|---|---|---|\n")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {name: (int(faults), *(int(each.replace(",", "")) for each in counts)) for name, faults, *counts in cells}  # type: ignore[misc]


def guide_of(counts: dict[str, tuple[int, int, int]]) -> str:
    """A guide with these rows."""
    lines = [f"| {name} | {faults} | {states:,} | {steps:,} |" for name, (faults, states, steps) in counts.items()]
    return "\n".join(["| scope | faults | states | transitions |", "|---|---|---|---|", *lines, "", ""])


EXPECTED = {**GROUPS, PLAN: (2, *PLANS[2]), **WRITES}


def test_each_scope_has_its_count() -> None:
    assert {scope.name: scope.most_faults for scope in scopes.IN_CI} == {name: row[0] for name, row in GROUPS.items()}


def test_guide_has_the_counts_of_groups_plans_and_writes() -> None:
    assert rows((REPOSITORY / "docs/development/testing.md").read_text()) == EXPECTED


def test_readme_has_their_sum() -> None:
    total = sum(states for _, states, _ in EXPECTED.values())
    assert f"({total:,} states with one or two faults)" in (REPOSITORY / "README.md").read_text()


def test_guide_with_another_count_differs() -> None:
    assert rows(guide_of(EXPECTED)) == EXPECTED
    for name, (faults, states, steps) in EXPECTED.items():
        for other in ((faults + 1, states, steps), (faults, states + 1, steps), (faults, states, steps + 1)):
            assert rows(guide_of({**EXPECTED, name: other})) != EXPECTED
