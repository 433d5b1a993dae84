"""Every call requires one right; rules add up, wildcards match, and no right implies another."""

from __future__ import annotations

import re
import tomllib

import pytest

from penstock.enumerator.server.auth.acl import NEEDED, Of, Rights, warnings_of
from penstock.enumerator.server.auth.callers import principal_of
from penstock.enumerator.server.config.settings import AclRule
from penstock.enumerator.server.rpc.interceptor import GROUP_AT, TABLE_AT, _first_text
from penstock.proto.errors import PermissionDenied
from penstock.proto.v1 import penstock_pb2 as pb

CALLS = pb.DESCRIPTOR.services_by_name["EnumeratorService"].methods_by_name


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_the_service_has_a_right(call: str) -> None:
    assert call in NEEDED, f"{call}: say in rights.NEEDED which right it needs"


@pytest.mark.parametrize("call", CALLS)
def test_every_call_names_the_resource_of_its_right(call: str) -> None:
    """Without the name of the table, the interceptor would refuse the request to principals of single tables."""
    needed = NEEDED[call]
    request = getattr(pb, f"{call}Request")()
    places = {Of.PLAN: (("plan_id",),), Of.CATALOG: (("catalog",),), Of.LISTED: (("pattern",),)}.get(
        needed.of, TABLE_AT
    )
    assert any(_settable(request, place) for place in places)
    if needed.of is Of.GROUP:
        assert any(_settable(request, place) for place in GROUP_AT)


def _settable(message: object, place: tuple[str, ...]) -> bool:
    *inner, last = place
    for name in inner:
        if name not in message.DESCRIPTOR.fields_by_name:  # type: ignore[attr-defined]
            return False
        message = getattr(message, name)
        if not hasattr(message, "DESCRIPTOR"):
            return False
    result = message.DESCRIPTOR.fields_by_name.get(last)  # type: ignore[attr-defined]
    return result is not None and result.message_type is None


def test_resource_name_is_read_from_its_field() -> None:
    assert _first_text(pb.DescribeTableRequest(table="t"), TABLE_AT) == "t"
    assert _first_text(pb.NextSplitRequest(plan_id="p"), TABLE_AT) == ""


RULES = (
    AclRule(principal="token:spark-*", rights=("read", "plan"), tables=("lake_*",)),
    AclRule(principal="cert:ops.example", rights=("admin",), groups=("nightly-*",)),
    AclRule(principal="*", rights=("read",), tables=("public",)),
)


@pytest.mark.parametrize(
    ("names", "right", "table", "group"),
    [
        (("token:spark-1",), "plan", "lake_orders", ""),
        (("token:spark-1",), "read", "lake_orders", "any"),
        (("token:none", "cert:ops.example"), "admin", "anything", "nightly-1"),
        (("token:none",), "read", "public", ""),
    ],
)
def test_rule_grants_the_right(names: tuple[str, ...], right: str, table: str, group: str) -> None:
    Rights(RULES).require(names, right, table, group)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "right", "table", "group"),
    [
        (("token:spark-1",), "admin", "lake_orders", ""),
        (("token:spark-1",), "read", "other", ""),
        (("cert:spark-1",), "read", "lake_orders", ""),
        (("token:spark-1",), "read", "*", ""),
        (("token:spark-1",), "read", "", ""),
        (("cert:ops.example",), "admin", "t", "daily"),
        (("cert:ops.example",), "admin", "t", "*"),
        (("cert:ops.example",), "read", "t", ""),
        ((), "plan", "public", ""),
        (("token:Spark-1",), "plan", "lake_orders", ""),
    ],
)
def test_rule_does_not_grant_the_right(names: tuple[str, ...], right: str, table: str, group: str) -> None:
    with pytest.raises(PermissionDenied, match="has no right"):
        Rights(RULES).require(names, right, table, group)  # type: ignore[arg-type]


def test_read_right_allows_no_change() -> None:
    """Each call that affects other callers needs a further right; a new call must be added to one of the two lists."""
    reading = {call for call, needed in NEEDED.items() if needed.right == "read"}
    assert reading == {
        "DescribeTable",
        "NewestPosition",
        "ListInstants",
        "DescribePlan",
        "ListGroups",
        "ListTables",
        "ListWrites",
        "ListServiceSplits",
        "DescribeServer",
        "DescribeGroup",
    }
    members = {call for call, needed in NEEDED.items() if needed.right == "consume"}
    assert members == {"JoinGroup", "Heartbeat", "RequestSplits", "CommitSplits", "LeaveGroup"}
    writers = {call for call, needed in NEEDED.items() if needed.right == "write"}
    assert writers == {
        "BeginWrite",
        "LeaseGroups",
        "RenewWrite",
        "CommitWrite",
        "AbortWrite",
        "RequestServiceSplit",
        "RenewServiceSplit",
        "FinishServiceSplit",
    }


def test_refusal_names_the_rule_to_add_and_the_rule_grants_it() -> None:
    with pytest.raises(PermissionDenied) as caught:
        Rights(RULES).require(("token:spark-1",), "consume", "lake_orders", "billing")
    text = str(caught.value).partition("add to its configuration: [[acl]] ")[2]
    added = tomllib.loads(re.sub(r" (rights|tables|groups) = ", r"\n\1 = ", text))
    assert added == {
        "principal": "token:spark-1",
        "rights": ["consume"],
        "tables": ["lake_orders"],
        "groups": ["billing"],
    }
    rule = AclRule(principal="token:spark-1", rights=("consume",), tables=("lake_orders",), groups=("billing",))
    Rights((*RULES, rule)).require(("token:spark-1",), "consume", "lake_orders", "billing")


def test_old_configuration_is_warned_about_with_the_line_to_change() -> None:
    (warning,) = warnings_of(RULES)
    assert "principal 'token:spark-*'" in warning and 'rights = ["read", "plan", "consume"]' in warning
    assert not warnings_of((*RULES, AclRule(principal="token:etl", rights=("consume",))))
    assert not warnings_of(RULES[1:])


def test_principals_have_all_rights_without_rules() -> None:
    assert Rights().open_to_all
    Rights().require((), "admin", "t")


def test_principals_of_different_names_are_different() -> None:
    one, two = ("cert:a", "cert:b"), ("cert:a, cert:b",)
    assert principal_of(one) == principal_of(reversed(one)) == "cert:a, cert:b"
    assert principal_of(two) != principal_of(one)
    many = tuple(f"cert:{number:0100}" for number in range(9))
    assert principal_of(many) != principal_of((",".join(many),))
    assert len(principal_of(many)) < 100
