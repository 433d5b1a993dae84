"""The comments of savepoints for readers: which readers need a savepoint."""

from __future__ import annotations

from penstock.writer.table_services.reader_savepoints import (
    comment_of,
    owners_of,
    owners_of_call,
    with_owners,
    without_owners,
)


def test_readers_of_a_comment() -> None:
    owners = owners_of_call(["billing", "a b", "x" * 101], ["/checkpoints/q/", "s3://b/q"])
    assert len(owners) == 5 and {"reader=billing", "checkpoint=/checkpoints/q", "checkpoint=s3://b/q"} < owners
    assert owners_of(comment_of(owners)) == owners and len(comment_of(owners)) < 200
    assert owners_of_call(["a b"], []) != owners_of_call(["a  b"], [])
    assert owners_of_call(["q"], []).isdisjoint(owners_of_call([], ["q"]))


def test_other_comments_have_no_readers_and_are_not_changed() -> None:
    for comment in ("", "mine", "penstock: held for readers", "penstock: held for readersreader=g"):
        assert owners_of(comment) == frozenset()
        assert with_owners(comment, frozenset({"reader=g"})) == comment
        assert without_owners(comment, frozenset({"reader=g"})) == comment


def test_readers_are_added_and_removed() -> None:
    mine, others = owners_of_call(["g"], []), owners_of_call(["other"], [])
    both = with_owners(comment_of(mine), others)
    assert both == comment_of(mine | others) == "penstock: held for readers reader=g reader=other"
    assert without_owners(both, mine) == comment_of(others)
    assert without_owners(comment_of(mine), mine | others) is None
