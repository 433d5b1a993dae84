"""Authorization: the right that each call needs, and the rules that grant it. Pure.

A new call of the service gets a line in NEEDED. Without one the call is refused, and a test fails.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from penstock.enumerator.server.config.settings import AclRule, Right
from penstock.proto.errors import PermissionDenied


class Of(enum.Enum):
    """The resource to which a right applies. The request must name it."""

    TABLE = "a table"
    """The table in the request."""
    PLAN = "the table of a plan"
    """The table of the plan in the request."""
    GROUP = "a group of a table"
    """The consumer group in the request, and its table."""
    CATALOG = "all tables of a catalog"
    """The tables of the catalog in the request, or all tables."""
    LISTED = "each table of the response"
    """The tables of the response: others are omitted from it."""
    GROUPS = "every group of a table"
    """All consumer groups, writes and services of the table in the request, or of all tables."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The right that a call needs, and the resource to which it applies."""

    right: Right
    """The right."""
    of: Of
    """The resource."""


NEEDED: Final[Mapping[str, Needed]] = {
    "DescribeTable": Needed("read", Of.TABLE),
    "NewestPosition": Needed("read", Of.TABLE),
    "ListInstants": Needed("read", Of.TABLE),
    "OpenPlan": Needed("plan", Of.TABLE),
    "DescribePlan": Needed("read", Of.PLAN),
    "NextSplit": Needed("plan", Of.PLAN),
    "FinishSplit": Needed("plan", Of.PLAN),
    "StartStream": Needed("plan", Of.TABLE),
    "NextBatch": Needed("plan", Of.TABLE),
    "JoinGroup": Needed("consume", Of.GROUP),
    "Heartbeat": Needed("consume", Of.GROUP),
    "RequestSplits": Needed("consume", Of.GROUP),
    "CommitSplits": Needed("consume", Of.GROUP),
    "LeaveGroup": Needed("consume", Of.GROUP),
    "ListGroups": Needed("read", Of.GROUPS),
    "DescribeServer": Needed("read", Of.GROUPS),
    "DescribeGroup": Needed("read", Of.GROUP),
    "ListTables": Needed("read", Of.LISTED),
    "AddTable": Needed("admin", Of.TABLE),
    "RemoveTable": Needed("admin", Of.TABLE),
    "RefreshTables": Needed("admin", Of.CATALOG),
    "BeginWrite": Needed("write", Of.TABLE),
    "LeaseGroups": Needed("write", Of.TABLE),
    "RenewWrite": Needed("write", Of.TABLE),
    "CommitWrite": Needed("write", Of.TABLE),
    "AbortWrite": Needed("write", Of.TABLE),
    "ListWrites": Needed("read", Of.GROUPS),
    "RequestServiceSplit": Needed("write", Of.GROUPS),
    "RenewServiceSplit": Needed("write", Of.TABLE),
    "FinishServiceSplit": Needed("write", Of.TABLE),
    "ListServiceSplits": Needed("read", Of.GROUPS),
    "ResetGroup": Needed("admin", Of.GROUP),
    "DeleteGroup": Needed("admin", Of.GROUP),
}
"""By the name of the call. A call that needs the right `read` changes nothing that another caller can observe."""


class Rights:
    """The access rules of a server. Without rules every caller has all rights, because callers are not identified."""

    def __init__(self, rules: Iterable[AclRule] = ()) -> None:
        self._rules = tuple(rules)

    @property
    def open_to_all(self) -> bool:
        """Whether there are no rules, so that every caller has all rights."""
        return not self._rules

    def grants(self, names: tuple[str, ...], right: str, table: str, group: str = "") -> bool:
        """Whether one of the caller's names has the right; see `require`."""
        return self.open_to_all or any(_grants(rule, names, right, table, group) for rule in self._rules)

    def require_some(self, principals: Iterable[str], right: Right, pattern: str, group: str) -> None:
        """PermissionDenied unless one of the caller's names has the right on a group of that name of some table. What
        the group over the tables of the pattern shows or hands out is limited to the tables with the right."""
        names = tuple(principals)
        some = (replace(rule, tables=("*",)) for rule in self._rules if rule.tables)
        if not self.open_to_all and not any(_grants(rule, names, right, "*", group) for rule in some):
            self.require(names, right, pattern, group)

    def require(self, principals: Iterable[str], right: Right, table: str, group: str = "") -> None:
        """PermissionDenied unless one of the caller's names has the right on the table, and on the group if `group` is
        not empty. The table `*` means all tables: only a rule for all tables grants it."""
        names = tuple(principals)
        if self.grants(names, right, table, group):
            return
        resource = f"table {table[:200]!r}" + (f", group {group[:200]!r}" if group else "")
        if table == "*":
            resource = "all tables"
        raise PermissionDenied(
            f"{', '.join(sorted(names)) or 'nobody'} has no right `{right}` on {resource}: an [[acl]] rule of the "
            f"server must grant it; add to its configuration: {_rule_text(names, right, table, group)}"
        )


def warnings_of(rules: Iterable[AclRule]) -> tuple[str, ...]:
    """The changes for a configuration that is older than the right `consume`, when readers of groups needed `read` and
    `plan`. Empty if any rule grants `consume`."""
    rules = tuple(rules)
    if any("consume" in rule.rights for rule in rules):
        return ()
    return tuple(
        f"acl: no rule grants the right `consume`, which readers of consumer groups need; the rule of principal "
        f"{rule.principal[:200]!r} grants {_listed(rule.rights)}: if it is for readers of groups, change its line to "
        f"rights = {_listed((*rule.rights, 'consume'))}"
        for rule in rules
        if "plan" in rule.rights
    )


def _rule_text(names: tuple[str, ...], right: Right, table: str, group: str) -> str:
    """A rule that grants exactly this, in the format of the configuration file."""
    principal = min(names, default="token:NAME")
    text = f"[[acl]] principal = {json.dumps(principal[:200])} rights = {_listed((right,))} tables = "
    text += _listed((table[:200],))
    return text + (f" groups = {_listed((group[:200],))}" if group else "")


def _listed(texts: Iterable[str]) -> str:
    return json.dumps(list(texts))


def _grants(rule: AclRule, principals: Iterable[str], right: str, table: str, group: str) -> bool:
    if right not in rule.rights or not any(fnmatchcase(name, rule.principal) for name in principals):
        return False
    tables = "*" in rule.tables if table == "*" else any(fnmatchcase(table, pattern) for pattern in rule.tables)
    groups = "*" in rule.groups if group == "*" else any(fnmatchcase(group, pattern) for pattern in rule.groups)
    return tables and (not group or groups)
