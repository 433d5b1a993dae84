"""The settings of table services: which table has which policy, and what is refused."""

from __future__ import annotations

import pathlib

import pytest

from penstock.enumerator.server.config.load import load_settings
from penstock.enumerator.server.config.services import ServiceSettings
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.service_splits import Service

FILE = """
[tables]
plain = "/lake/plain"
[tables.orders]
path = "/lake/orders"
[tables.orders.services]
run = ["compact", "clean"]
compactAfter = 7
commits = 3
sortBy = []
holdAtMost = "48h"
[services]
run = ["archive"]
holdAtMost = "10 commits"
"""


def test_table_has_its_own_policy_else_that_of_the_server(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(FILE)
    settings = load_settings(str(file), {}, {})
    own, shared = settings.service_policy("orders"), settings.service_policy("plain")
    assert own is not None
    assert own.services == (Service.COMPACT, Service.CLEAN)
    assert (own.options.compact_after, own.options.commits, own.options.sort_by) == (7, 3, ())
    assert own.options.hold_at_most == "48h"
    assert shared == settings.service_policy("a.table.of.a.catalog")
    assert shared is not None
    assert shared.services == (Service.ARCHIVE,)
    assert (shared.options.compact_after, shared.options.sort_by) == (None, None)


def test_without_settings_nothing_is_handed_out() -> None:
    settings = load_settings(None, {}, {"tables": {"t": "/t"}})
    assert settings.service_policy("t") is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"run": ()}, "empty list"),
        ({"run": ("clean",)}, "holdAtMost is not set, and clean is run"),
        ({"run": ("compact", "archive")}, "holdAtMost is not set, and archive is run"),
        ({"run": ("compact",), "compact_after": 0}, "compactAfter"),
        ({"run": ("compact",), "max_running": 0}, "maxRunning"),
        ({"run": ("clean",), "hold_at_most": "48h", "commits": 1, "hours": 1}, "expected one of them"),
        ({"run": ("clean",), "hold_at_most": "often"}, "hold_at_most|holdAtMost"),
    ],
)
def test_refused_settings(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ServiceSettings(**settings)  # type: ignore[arg-type]


def test_unknown_service_is_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[tables]\nt = "/t"\n[services]\nrun = ["drop"]\n')
    with pytest.raises(ConfigurationError, match="services"):
        load_settings(str(file), {}, {})
