"""deploy/compose.yaml and the example configuration: referenced files exist and match. No container engine runs the
file."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import yaml

from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.load import load_settings
from tests.certificates import Authority
from tests.ops.places import ALERTS, DASHBOARD, DEPLOY

pytestmark = pytest.mark.ops


@pytest.fixture
def services() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    mounted = {volume.split(":")[0] for one in content["services"].values() for volume in one["volumes"]}
    assert {name for name in mounted if name.isalnum()} == set(content["volumes"])
    return dict(content["services"])


def mounts(service: dict[str, Any]) -> dict[str, pathlib.Path]:
    """Path in the container -> file of this repository."""
    pairs = [volume.split(":") for volume in service["volumes"] if volume.startswith("./")]
    return {parts[1]: (DEPLOY / parts[0]).resolve() for parts in pairs}


def test_containers_are_confined_and_published_only_on_loopback(services: dict[str, Any]) -> None:
    for service in services.values():
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert all(file.is_file() for file in mounts(service).values())
        assert "latest" not in service.get("image", "x:1") and ":" in service.get("image", "x:1")


def test_compose_configuration_is_valid_and_prometheus_scrapes_the_service(services: dict[str, Any]) -> None:
    settings = load_settings(str(mounts(services["penstock"])["/etc/penstock/penstock.toml"]))
    assert services["penstock"]["ports"] == [f"127.0.0.1:7070:{settings.listen.rpartition(':')[2]}"]
    assert settings.health_listen in " ".join(services["penstock"]["healthcheck"]["test"])
    assert f"state:{settings.state}" in services["penstock"]["volumes"]
    config = yaml.safe_load(mounts(services["prometheus"])["/etc/prometheus/prometheus.yml"].read_text())
    target = f"penstock:{settings.metrics_listen.rpartition(':')[2]}"
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": [target]}]
    assert mounts(services["prometheus"])["/etc/prometheus/alerts.yml"] == ALERTS
    grace_ms = settings.drain_ms + settings.grace_ms
    assert int(services["penstock"]["stop_grace_period"].removesuffix("s")) * 1000 > grace_ms


def test_grafana_is_configured_with_prometheus_and_the_dashboard(services: dict[str, Any]) -> None:
    files = mounts(services["grafana"])
    (source,) = yaml.safe_load(files["/etc/grafana/provisioning/datasources/penstock.yml"].read_text())["datasources"]
    assert source["type"] == "prometheus" and source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load(files["/etc/grafana/provisioning/dashboards/penstock.yml"].read_text())["providers"]
    assert files[f"{provider['options']['path']}/penstock.json"] == DASHBOARD


def test_example_configuration_passes_its_own_check(tmp_path: pathlib.Path) -> None:
    """With certificates and tokens, by `penstock config check`; without them the error names a missing one."""
    authority = Authority(tmp_path)
    server = authority.signed("server", "penstock.svc")
    (tmp_path / "tokens").write_text(new_token("spark-1")[1] + "\n")
    own = {"TLS_CERT": server.cert, "TLS_KEY": server.key, "TOKENS": str(tmp_path / "tokens")}
    named = {f"PENSTOCK_{name}": value for name, value in own.items()}

    def checked(**more: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; from penstock.engine.cli.main import run; sys.exit(run(sys.argv[1:]))"
        command = [sys.executable, "-c", program, "config", "check", str(DEPLOY / "penstock.toml")]
        return subprocess.run(
            command, env={**os.environ, **more}, capture_output=True, text=True, timeout=60, check=False
        )

    good = checked(**named)
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "")
    bad = checked()
    assert bad.returncode == 2 and "/etc/penstock/tls." in bad.stderr
