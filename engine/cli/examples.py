"""Examples of every command, shown at the end of its `--help`.

A new command needs an example here: a test parses the examples of every command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("penstock read /lake/orders --limit 10",),
    "read": (
        "penstock read /lake/orders --where 'amount > 100' -o orders.parquet",
        "penstock read orders --server 127.0.0.1:7070 --query incremental --after 20260901000000000",
    ),
    "tail": ("penstock tail orders --server 127.0.0.1:7070 --group audit --output-dir rows",),
    "create": (
        "penstock create /lake/orders --schema orders.parquet --record-key id --ordering ts --buckets 4",
        "penstock create /lake/orders --schema orders.avsc --record-key id --partition-by day --index simple",
        "penstock create /lake/events --schema events.parquet --record-key id --partition-by ts "
        "--key-generator TIMESTAMP --time-partition timestamp.type=EPOCHMILLISECONDS "
        "--time-partition output.dateformat=yyyy/MM/dd --buckets 4",
    ),
    "write": (
        "penstock write /lake/orders orders.parquet",
        "penstock write /lake/orders gone.jsonl --operation delete --index bucket --buckets 4",
        "penstock write orders orders.parquet --server 127.0.0.1:7070",
    ),
    "work": (
        "penstock work --server 127.0.0.1:7070",
        "penstock work --server 127.0.0.1:7070 --table orders --service compact --until-idle",
    ),
    "services": ("penstock services list --server 127.0.0.1:7070",),
    "services list": ("penstock services list --server 127.0.0.1:7070 --table orders --format json",),
    "writes": ("penstock writes list --server 127.0.0.1:7070",),
    "writes list": ("penstock writes list --server 127.0.0.1:7070 --table orders --format json",),
    "rollback": ("penstock rollback /lake/orders", "penstock rollback /lake/orders 20261123160217300"),
    "savepoint": (
        "penstock savepoint /lake/orders --comment 'before the load'",
        "penstock savepoint /lake/orders 20261123160217300 --delete",
    ),
    "restore": ("penstock restore /lake/orders --dry-run", "penstock restore /lake/orders 20261123160217300"),
    "maintain": (
        "penstock maintain /lake/orders --dry-run",
        "penstock maintain /lake/orders --hours 48 --skip archive",
    ),
    "compact": ("penstock compact /lake/orders --dry-run", "penstock compact /lake/orders --partition 2026-11-23"),
    "cluster": (
        "penstock cluster /lake/orders --sort-by city --dry-run",
        "penstock cluster /lake/orders --sort-by city",
    ),
    "clean": (
        "penstock clean /lake/orders --dry-run",
        "penstock clean /lake/orders --hold-for billing --hold-at-most 48h --server localhost:7070",
    ),
    "archive": ("penstock archive /lake/orders", "penstock archive /lake/orders --keep-min 50 --keep-max 60"),
    "sync": ("penstock sync job.toml", "penstock sync job.toml --once --restart orders"),
    "timeline": ("penstock timeline /lake/orders --format json",),
    "table": ("penstock table desc /lake/orders",),
    "table desc": ("penstock table desc /lake/orders --format json",),
    "tables": ("penstock tables list --server 127.0.0.1:7070",),
    "tables list": (
        "penstock tables list 'lake.*' --server 127.0.0.1:7070",
        "penstock tables list --catalogs --server 127.0.0.1:7070",
    ),
    "tables add": ("penstock tables add sales.orders s3://lake/orders --server 127.0.0.1:7070",),
    "tables remove": ("penstock tables remove sales.orders --server 127.0.0.1:7070",),
    "tables refresh": ("penstock tables refresh lake --server 127.0.0.1:7070",),
    "splits": ("penstock splits plan /lake/orders --explain",),
    "splits plan": ("penstock splits plan /lake/orders --after earliest --explain",),
    "groups": ("penstock groups list --server 127.0.0.1:7070",),
    "groups list": ("penstock groups list --server 127.0.0.1:7070 --table orders",),
    "groups describe": ("penstock groups describe orders audit --server 127.0.0.1:7070",),
    "groups reset": ("penstock groups reset orders audit --to earliest --dry-run --server 127.0.0.1:7070",),
    "groups delete": ("penstock groups delete orders audit --server 127.0.0.1:7070",),
    "streams": ("penstock streams list --server 127.0.0.1:7070",),
    "streams list": ("penstock streams list --server 127.0.0.1:7070 --table orders --format json",),
    "offsets": ("penstock offsets resolve /lake/orders --explain",),
    "offsets resolve": ("penstock offsets resolve /lake/orders --topic orders --explain",),
    "serve": (
        "penstock serve --table orders=/lake/orders --listen 127.0.0.1:7070 --state state --metrics-listen 9100",
        "penstock serve --config penstock.toml",
    ),
    "flight": (
        "penstock flight --table orders=/lake/orders --listen 127.0.0.1:8815",
        "penstock flight --config penstock.toml --listen 0.0.0.0:8815",
    ),
    "state": ("penstock state check /var/lib/penstock",),
    "state check": ("penstock state check /var/lib/penstock --format json",),
    "state backup": ("penstock state backup /var/lib/penstock /backups/penstock-2026-11-22.db",),
    "state restore": ("penstock state restore /backups/penstock-2026-11-22.db /var/lib/penstock",),
    "config": ("penstock config check penstock.toml",),
    "config check": ("penstock config check penstock.toml --kind server",),
    "token": ("penstock token new spark --expires 2027-01-31",),
    "token new": ("penstock token new spark --expires 2027-01-31",),
    "doctor": (
        "penstock doctor /lake/orders",
        "penstock doctor orders --server 10.0.0.5:7070 --server-ca ca.pem --format json",
    ),
    "top": ("penstock top --server 127.0.0.1:7070", "penstock top --server 127.0.0.1:7070 --once --format json"),
    "demo": ("penstock demo", "penstock demo --unpack lake"),
}
"""Examples by the path of the command, without `penstock`."""


def with_examples(app: typer.Typer) -> typer.Typer:
    """Appends the examples to the help of each command. Returns the app."""
    _set_epilogs(app, ())
    return app


def epilog_of(path: str, more: str = "") -> str | None:
    """The text after the help of the command at `path`: its examples, then `more`. None if there is none."""
    lines = EXAMPLES.get(path, ())
    text = "Example: " + "\n\n".join(lines) if len(lines) == 1 else "Examples:\n\n" + "\n\n".join(lines)
    return "\n\n".join(part for part in (text if lines else "", more) if part) or None


def _set_epilogs(app: typer.Typer, path: tuple[str, ...]) -> None:
    for command in app.registered_commands:
        command.epilog = epilog_of(" ".join((*path, command.name or "")))
    for group in app.registered_groups:
        inner = (*path, group.name or "")
        group.epilog = epilog_of(" ".join(inner))
        if group.typer_instance is not None:
            _set_epilogs(group.typer_instance, inner)
