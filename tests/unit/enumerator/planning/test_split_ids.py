"""Split ids are stored in held plans and stream checkpoints, so they must never change."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.enumerator.planning.split_ids import changes_id
from penstock.proto.model.changes import (
    ChangeSource,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.files import FileRef, SliceFiles
from penstock.proto.model.positions import InstantTime

BEFORE = SliceFiles(FileRef("p/a_1-0-1_1.parquet", 10), "1", (FileRef("p/.a_2.log.1_1-0-1", 20),))
AFTER = SliceFiles(FileRef("p/a_1-0-1_3.parquet", 30), "3")
FROZEN = [
    (ComparedStates(BEFORE, AFTER), "cb3f9becc8528d9ece85f9a331543825"),
    (ComparedStates(None, AFTER), "6d07af5454285aef59c19ebfe523f92e"),
    (LoggedImages((FileRef("p/.a_3.log.1.cdc", 5),)), "65936bd2d95e3a896fde48c937a94edd"),
    (StoredKinds(AFTER), "17b016724485d64cb7f526d22d6d8a50"),
]


@pytest.mark.parametrize(("source", "frozen"), FROZEN)
def test_id_of_changes_is_that_of_earlier_releases(source: ChangeSource, frozen: str) -> None:
    step = ChangeStep(instant=InstantTime("3"), order_key=InstantTime("4"), place=0, source=source)
    assert changes_id("scope", ("p", "a"), GroupChanges((step,))) == frozen


def test_every_kind_of_change_source_has_a_frozen_id() -> None:
    assert {type(source) for source, _ in FROZEN} == set(get_args(ChangeSource))
