"""textsvm serve: models behind HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from textsvm.apps.serve.app import RequestLimits, Service
from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option, option_field
from textsvm.runtime import http


@dataclass(frozen=True)
class ServingOptions:
    """Limits of requests."""

    max_body: int = option_field("Maximum bytes of a request.", default=RequestLimits.max_body, min=1)
    max_characters: int = option_field(
        "Maximum characters of a text.", default=RequestLimits.max_characters, min=1
    )
    timeout: float = option_field(
        "Seconds to send a request, and for its prediction.", default=RequestLimits.timeout, min=0.1
    )


@options.with_groups
def serve(
    models: Annotated[list[str], typer.Argument(help="Model files: PATH or NAME=PATH.", show_default=False)],
    limits: ServingOptions,
    host: Annotated[
        list[str] | None, option("Address to listen at; further ones are names of the server, as in a proxy.")
    ] = None,
    port: Annotated[int, option("Port to listen at; 0 is a free port.", min=0, max=65535)] = 8000,
    quiet: options.Quiet = False,
) -> None:
    """Answer texts with predictions over HTTP: POST /predict, GET /models, /healthz and /metrics.

    textsvm serve spam.textsvm

    curl -d '{"text": "win cash now"}' http://127.0.0.1:8000/predict

    textsvm serve spam=old/spam.textsvm topics=topics.textsvm --port 9000

    Predictions are those of `textsvm predict`. SIGHUP loads the models again without interruption. SIGTERM
    and Ctrl-C end the server once the requests in progress are answered. There is no authentication.
    """
    console, paths = Console(quiet), _named(models)
    listening = http.listen((host := host or ["127.0.0.1"])[0], port)
    name, number = listening.getsockname()[:2]
    address = f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"
    hosts = http.Hosts("" if name in ("0.0.0.0", "::") else name, frozenset(map(http.name_of, host)))
    if not ip_address(name.partition("%")[0]).is_loopback:
        console.warn(f"{address} is open to other computers, without authentication and encryption")
    service = Service(paths, RequestLimits(**asdict(limits)), console.say, hosts)

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        console.say(f"listening at {address}")
        console.say(f"loading {', '.join(paths.values())}")
        async with service:
            console.say(f"answering at {address}")
            yield

    # The application itself ends waiting for predictions.
    clients = http.ClientLimits(limits.timeout, 3 * limits.timeout, body=limits.max_body)
    http.run(service, listening, running(), service.reload, clients)


def _named(models: list[str]) -> dict[str, str]:
    """Paths by name; the name of a PATH is that of its file without suffix. WrongUsage if a name repeats."""
    paths: dict[str, str] = {}
    for argument in models:
        name, _, path = argument.partition("=")
        if not path or Path(argument).exists():
            name, path = Path(argument).stem, argument
        if name in paths or not name:
            raise WrongUsage(f"{argument}: the name {name!r} is taken or empty; name it, as NAME=PATH")
        paths[name] = path
    return paths
