"""The planning entry points: the description of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.enumerator.planning import plan
from penstock.table.hudi_table import open_table


@dataclass(frozen=True)
class ThirdOrdering:
    """A merge mode that `describe` does not have yet."""


def test_description_fails_for_an_unknown_merge_mode(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "merge_mode", lambda properties: ThirdOrdering())
    with pytest.raises(AssertionError, match="ThirdOrdering"):
        plan.describe(open_table(str(golden.table("B_v9_inc_mor"))), "name")
