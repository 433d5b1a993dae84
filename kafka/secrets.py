"""References in settings of a client, `${env:NAME}` and `${file:PATH}`, put in their place where a client is made.

So a secret is in no list of processes, no option, no checkpoint and no file of a server's settings. Belongs here: what
a reference looks like. Not here: who makes a client.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import KafkaAccess

MAX_SECRET_BYTES: Final = 65_536

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^{}]{1,4096})\}")


def with_secrets(access: KafkaAccess, environment: Mapping[str, str] | None = None) -> KafkaAccess:
    """The access with each reference in its settings and its registry's URL replaced by what it names: a variable of
    the environment (this process's), or a file's text without the line's end.

    ConfigurationError names setting and reference, never a value.
    """
    told = os.environ if environment is None else environment
    client = tuple((name, _filled(f"kafka.{name}", text, told)) for name, text in access.client)
    return replace(access, client=client, registry_url=_filled("schemaRegistryUrl", access.registry_url, told))


def _filled(name: str, text: str, environment: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: _named(name, found[1], found[2], environment), text)


def _named(name: str, kind: str, what: str, environment: Mapping[str, str]) -> str:
    if kind == "env":
        if what not in environment:
            raise ConfigurationError(f"option {name}: environment variable {what} is not set in this process")
        return environment[what]
    try:
        with pathlib.Path(what).open("rb") as opened:
            data = opened.read(MAX_SECRET_BYTES + 1)
        if len(data) > MAX_SECRET_BYTES:
            raise ConfigurationError(f"option {name}: file {what} has more than {MAX_SECRET_BYTES} bytes")
        return data.decode().rstrip("\r\n")
    except OSError as error:
        raise ConfigurationError(f"option {name}: file {what} cannot be read here: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"option {name}: file {what} is not text in UTF-8") from None
