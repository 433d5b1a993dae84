"""Who may call what: the right each call needs, and the rules that grant it. Pure.

A new call of the service gets a line in NEEDED; without one it is refused, and a test fails. Not here: who is calling
(`tokens`, `guard`).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from penstock.enumerator.server.config.settings import AclRule, Right
from penstock.proto.errors import PermissionDenied


class Of(enum.Enum):
    """What a right is asked on, and so what the request must name."""

    TABLE = "a table"
    PLAN = "the table of a plan"
    GROUP = "a group of a table"
    GROUPS = "every group of a table"


@dataclass(frozen=True, slots=True)
class Needed:
    """The right that a call needs, and on what."""

    right: Right
    of: Of


NEEDED: Final[Mapping[str, Needed]] = {
    "DescribeTable": Needed("read", Of.TABLE),
    "NewestPosition": Needed("read", Of.TABLE),
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
    "ResetGroup": Needed("admin", Of.GROUP),
    "DeleteGroup": Needed("admin", Of.GROUP),
}
"""By name of the call. A call with the right `read` changes nothing that another caller sees."""


class Rights:
    """The rules of a server. Without rules everybody may do everything: nobody is told apart then."""

    def __init__(self, rules: Iterable[AclRule] = ()) -> None:
        self._rules = tuple(rules)

    @property
    def open_to_all(self) -> bool:
        """Whether there is nothing to check."""
        return not self._rules

    def require(self, principals: Iterable[str], right: Right, table: str, group: str = "") -> None:
        """PermissionDenied unless one of the caller's names has the right on the table, and on the group if one is
        named. `*` as the table stands for all of them: only a rule for all tables grants that."""
        names = tuple(principals)
        if self.open_to_all or any(_grants(rule, names, right, table, group) for rule in self._rules):
            return
        what = f"table {table[:200]!r}" + (f", group {group[:200]!r}" if group else "")
        if table == "*":
            what = "all tables"
        raise PermissionDenied(
            f"{', '.join(sorted(names)) or 'nobody'} has no right `{right}` on {what}: an [[acl]] rule of the server "
            f"must grant it; add to its configuration: {_rule_text(names, right, table, group)}"
        )


def warnings_of(rules: Iterable[AclRule]) -> tuple[str, ...]:
    """What to change in a configuration that is older than the right `consume`, when readers of groups needed `read`
    and `plan`. Empty once any rule grants `consume`."""
    given = tuple(rules)
    if any("consume" in rule.rights for rule in given):
        return ()
    return tuple(
        f"acl: no rule grants the right `consume`, which readers of consumer groups need; the rule of principal "
        f"{rule.principal[:200]!r} grants {_listed(rule.rights)}: if it is for readers of groups, change its line to "
        f"rights = {_listed((*rule.rights, 'consume'))}"
        for rule in given
        if "plan" in rule.rights
    )


def _rule_text(names: tuple[str, ...], right: Right, table: str, group: str) -> str:
    """A rule that grants just this, as it stands in the configuration file."""
    principal = min(names, default="token:NAME")
    text = f"[[acl]] principal = {json.dumps(principal[:200])} rights = {_listed((right,))} tables = "
    text += _listed((table[:200],))
    return text + (f" groups = {_listed((group[:200],))}" if group else "")


def _listed(texts: Iterable[str]) -> str:
    return json.dumps(list(texts))


def _grants(rule: AclRule, principals: Iterable[str], right: Right, table: str, group: str) -> bool:
    if right not in rule.rights or not any(fnmatchcase(name, rule.principal) for name in principals):
        return False
    tables = "*" in rule.tables if table == "*" else any(fnmatchcase(table, pattern) for pattern in rule.tables)
    groups = "*" in rule.groups if group == "*" else any(fnmatchcase(group, pattern) for pattern in rule.groups)
    return tables and (not group or groups)
