"""The link, with a gate before it: `python -m enlist.deploy.gate` takes the words of `flower-superlink`.

Flower serves workers and operators on one port and asks operators for nothing, so whoever reaches the port could
register keys and send code to all workers. Here, from other machines, only what workers need can be reached.
"""

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/v1/fleet/", "/health")
SIGN = "the gate is up"


def gated(application: Application) -> Application:
    """The application, of which other machines see the open paths alone."""

    async def gate(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            print(SIGN, flush=True)
        if may_pass(scope):
            await application(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"only from the server's own machine\n"})

    return gate


def may_pass(scope: Scope) -> bool:
    """Whether a request is let through."""
    if scope["type"] == "lifespan":
        return True
    if scope["type"] == "http" and scope["path"].startswith(OPEN_PATHS):
        return True
    try:
        return ipaddress.ip_address(scope["client"][0]).is_loopback
    except (TypeError, ValueError):
        return False


def main() -> None:
    """Runs `flower-superlink` behind the gate."""
    import uvicorn
    from flwr.superlink.cli.flower_superlink import flower_superlink

    server: Any = uvicorn
    serve = server.run

    def serve_gated(app: Application, **settings: Any) -> None:
        # Whom a request comes from is what the socket says; no header may say otherwise.
        serve(gated(app), **settings | {"proxy_headers": False})

    server.run = serve_gated
    flower_superlink()


if __name__ == "__main__":
    main()
