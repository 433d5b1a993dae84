"""The tables that an enumerator serves, by name. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace

from penstock.proto.errors import ConfigurationError, TableNotFound
from penstock.proto.model.splits import Plan
from penstock.table.storage.filesystem import redacted_uri, uri_without_credentials


class RegisteredTables:
    """Names of tables and their paths or URIs. With `paths` None every name is a path itself.

    Registered tables are served to other processes: their plans carry no credentials of a URI, because readers bring
    their own.
    """

    def __init__(self, paths: Mapping[str, str] | None) -> None:
        self._paths = None if paths is None else dict(paths)

    @property
    def names(self) -> tuple[str, ...]:
        """The registered names, sorted; none if every name is a path."""
        return tuple(sorted(self._paths or ()))

    def display_name(self, table: str) -> str:
        """The name of the table in plans, descriptions and log lines; a URI without its credentials."""
        return redacted_uri(table) if self._paths is None else table

    def published(self, plan: Plan) -> Plan:
        """The plan, without credentials if it leaves this process."""
        if self._paths is None:
            return plan
        return replace(plan, scan=replace(plan.scan, base_path=uri_without_credentials(plan.scan.base_path)))

    def path(self, table: str) -> str:
        """The path or URI of a table. ConfigurationError for an empty name; TableNotFound for an unknown one."""
        if not table:
            raise ConfigurationError("table: got nothing, expected a name or a path")
        if self._paths is None:
            return table
        path = self._paths.get(table)
        if path is None:
            near = difflib.get_close_matches(table[:200], self._paths, n=1)
            hint = f" (did you mean {redacted_uri(near[0])!r}?)" if near else ""
            served = ", ".join(map(redacted_uri, self.names[:20])) + (", …" if len(self._paths) > 20 else "")
            raise TableNotFound(
                f"no table {redacted_uri(table)[:200]!r} is registered here{hint}; registered: {served or 'none'}"
            )
        return path
