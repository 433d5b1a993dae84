"""The health port for probes: plaintext beside TLS, only the health service, while the server runs."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from penstock.enumerator.server.config.settings import Settings
from penstock.enumerator.server.http.health_port import health_port
from penstock.proto.errors import ConfigurationError
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def status_of(address: str) -> Any:
    with grpc.insecure_channel(address) as channel:
        return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5).status


def test_health_port_has_the_servers_status_and_no_other_call() -> None:
    state = health.HealthServicer()
    with health_port(state, "127.0.0.1:0") as address:
        state.set("", NOT_SERVING)
        assert status_of(address) == NOT_SERVING
        state.set("", SERVING)
        assert status_of(address) == SERVING
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as refused:
            pb_grpc.EnumeratorServiceStub(channel).DescribeTable(pb.DescribeTableRequest(table="t"), timeout=5)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with (
            pytest.raises(ConfigurationError, match="healthListen: cannot listen at"),
            health_port(state, address),
        ):
            pass
    with pytest.raises(grpc.RpcError):
        status_of(address)


def test_health_port_without_an_address_is_off() -> None:
    with health_port(health.HealthServicer(), "") as address:
        assert address == ""


def test_health_port_address_is_checked_with_the_settings() -> None:
    with pytest.raises(ConfigurationError, match="healthListen"):
        Settings(health_listen="nowhere")
