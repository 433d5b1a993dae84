"""The Helm chart: linted, rendered, each manifest valid for Kubernetes, its configuration accepted by the server."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from penstock.enumerator.server.config.load import load_settings
from tests.ops.places import ALERTS, CHART, DASHBOARD, missing

pytestmark = pytest.mark.ops

INSECURE = "I know that tokens and rows travel unencrypted"
SMALL: dict[str, Any] = {"tables": {"orders": "s3://lake/orders"}, "tls": {"insecure": INSECURE}}
FULL: dict[str, Any] = {
    "tables": {"orders": "s3://lake/orders", "trips": {"path": "/lake/trips", "pollIntervalMs": 1000}},
    "config": {"leaseMs": 60000, "limits": {"calls": 2000, "requestBytes": 8388608, "ratePerSecond": 100.5}},
    "tls": {"existingSecret": "penstock-tls", "clientCa": True, "allowedSans": ["*.spark.svc"]},
    "auth": {"existingSecret": "penstock-tokens"},
    "acl": [{"principal": "token:spark-*", "rights": ["read", "plan"], "tables": ["orders"]}],
    "persistence": {"storageClass": "local", "size": "20Gi", "annotations": {"a": "b"}},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"team": "spark"}}}],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
    },
    "dashboard": {"enabled": True},
    "extraEnv": [{"name": "AWS_REGION", "value": "eu-west-1"}],
    "extraEnvFrom": [{"secretRef": {"name": "lake"}}],
    "extraVolumes": [{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}],
    "extraVolumeMounts": [{"name": "lake", "mountPath": "/lake", "readOnly": True}],
    "imagePullSecrets": [{"name": "pull"}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "service": {"annotations": {"e": "f"}},
    "serviceAccount": {"annotations": {"role": "lake"}},
}
CLAIMED: dict[str, Any] = {**SMALL, "persistence": {"existingClaim": "mine"}, "serviceAccount": {"create": False}}
FORGETFUL: dict[str, Any] = {**SMALL, "persistence": {"enabled": False}, "podDisruptionBudget": {"enabled": False}}
OPERATED: dict[str, Any] = {**SMALL, "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
GOOD = {"small": SMALL, "full": FULL, "claimed": CLAIMED, "forgetful": FORGETFUL}
BAD: dict[str, dict[str, Any]] = {
    "no table": {**SMALL, "tables": {}},
    "a table without a path": {**SMALL, "tables": {"orders": {"pollIntervalMs": 5}}},
    "a misspelt key": {**SMALL, "persistance": {"enabled": False}},
    "a key that the chart sets": {**SMALL, "config": {"listen": "0.0.0.0:1"}},
    "neither certificate nor the words": {**SMALL, "tls": {"insecure": "yes"}},
    "plaintext by silence": {"tables": {"orders": "a"}},
    "client certificates without TLS": {**SMALL, "tls": {"insecure": INSECURE, "clientCa": True}},
    "a right that is none": {**SMALL, "acl": [{"principal": "*", "rights": ["write"]}]},
    "a port that is none": {**SMALL, "service": {"port": 70700}},
    "a lease as text": {**SMALL, "config": {"leaseMs": "60s"}},
    "a size that is none": {**SMALL, "persistence": {"size": "much"}},
}

Rendered = Callable[[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture
def helm(run: Callable[..., Any], tmp_path: pathlib.Path) -> Callable[..., Any]:
    """Runs a command of helm on the chart with these values."""

    def ran(command: list[str], values: dict[str, Any]) -> Any:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        homes = {name: str(tmp_path / name) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        return run("helm", *command, CHART, "--values", file, env={"PATH": "", "HOME": str(tmp_path), **homes})

    return ran


@pytest.fixture
def rendered(helm: Callable[..., Any]) -> Rendered:
    """The manifests of a release called `lake`."""

    def render(values: dict[str, Any]) -> list[dict[str, Any]]:
        answer = helm(["template", "lake"], values)
        assert answer.returncode == 0, answer.stdout
        return [manifest for manifest in yaml.safe_load_all(answer.stdout) if manifest]

    return render


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


@pytest.mark.parametrize("values", GOOD.values(), ids=GOOD)
def test_chart_is_linted_and_its_manifests_are_valid(
    helm: Callable[..., Any], rendered: Rendered, values: dict[str, Any]
) -> None:
    try:
        kubernetes_validate = importlib.import_module("kubernetes_validate")
    except ImportError:
        missing("kubernetes-validate")
    linted = helm(["lint", "--strict"], values)
    assert linted.returncode == 0, linted.stdout
    manifests = rendered(values)
    assert {"StatefulSet", "Service", "ConfigMap", "Pod"} <= {one["kind"] for one in manifests}
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.30", strict=True)
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("values", BAD.values(), ids=BAD)
def test_wrong_values_are_refused_by_the_schema(helm: Callable[..., Any], values: dict[str, Any]) -> None:
    for command in (["template", "lake"], ["lint"]):
        answer = helm(command, values)
        assert answer.returncode != 0
        assert "values don't meet the specifications of the schema" in answer.stdout, answer.stdout


@pytest.mark.parametrize("values", GOOD.values(), ids=GOOD)
def test_rendered_configuration_is_accepted_by_the_service(
    rendered: Rendered, values: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "penstock.toml"
    maps = of_kind(rendered(values), "ConfigMap")
    file.write_text(next(manifest["data"]["penstock.toml"] for manifest in maps if "penstock.toml" in manifest["data"]))
    settings = load_settings(str(file))
    assert set(settings.tables) == set(values["tables"])
    assert (settings.listen, settings.health_listen) == ("0.0.0.0:7070", "0.0.0.0:7071")
    assert settings.drain_ms >= settings.lease_ms / 2 or values is FULL
    if values is FULL:
        assert settings.lease_ms == 60_000
        assert (settings.limits.calls, settings.limits.request_bytes) == (2000, 8_388_608)
        assert settings.tls.client_ca == "/etc/penstock/tls/ca.crt"
        assert settings.acl[0].rights == ("read", "plan")
        assert settings.tables["trips"].poll_interval_ms == 1000


@pytest.mark.parametrize("values", GOOD.values(), ids=GOOD)
def test_pods_have_no_unneeded_privileges(rendered: Rendered, values: dict[str, Any]) -> None:
    manifests = rendered(values)
    (stateful,) = of_kind(manifests, "StatefulSet")
    assert stateful["spec"]["replicas"] == 1
    for spec in (stateful["spec"]["template"]["spec"], of_kind(manifests, "Pod")[0]["spec"]):
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True and security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["grpc"] == {"port": 7071}
    volumes = {volume["name"] for volume in stateful["spec"]["template"]["spec"]["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in stateful["spec"].get("volumeClaimTemplates", [])}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    grace_s = stateful["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s >= 5 + 15 + 10


def test_changed_configuration_restarts_the_pod(rendered: Rendered) -> None:
    def checksum(values: dict[str, Any]) -> str:
        (stateful,) = of_kind(rendered(values), "StatefulSet")
        return str(stateful["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum(SMALL) == checksum({**SMALL, "nodeSelector": {"a": "b"}})
    assert checksum(SMALL) != checksum({**SMALL, "config": {"leaseMs": 9000}})


def test_alerts_and_dashboard_are_the_files_that_are_tested(rendered: Rendered) -> None:
    manifests = rendered({**OPERATED, "dashboard": {"enabled": True}})
    (rule,) = of_kind(manifests, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())
    maps = [
        manifest for manifest in of_kind(manifests, "ConfigMap") if manifest["metadata"]["name"].endswith("dashboard")
    ]
    dashboards = [manifest["data"]["penstock.json"] for manifest in maps]
    assert [text.strip() for text in dashboards] == [DASHBOARD.read_text().strip()]
    (monitor,) = of_kind(manifests, "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"action": "replace", "targetLabel": "job", "replacement": "penstock"}]
    ports = {port["name"] for manifest in of_kind(manifests, "Service") for port in manifest["spec"]["ports"]}
    assert endpoint["port"] in ports
