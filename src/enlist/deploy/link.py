"""The server's processes: the link that all workers reach, and the one that starts server apps."""

import http.client
import os
import socket
import ssl
import sys
from collections.abc import Callable

from enlist.deploy import gate
from enlist.deploy.environment import environment, program, reason
from enlist.deploy.place import ServerPlace
from enlist.deploy.registration import CONNECTION, register
from enlist.deploy.supervise import MOST_WAIT, Child, Say, Supervisor, alone
from enlist.errors import BadInput, EnlistError

PROBE_SECONDS = 3.0


def serve(place: ServerPlace, say: Say, ready: Callable[[], None] = lambda: None) -> None:
    """Starts the server and keeps it up. Returns never; what interrupts it ends all processes.

    Args:
        place: the folder of the deployment.
        say: takes a line about what comes up and what had to be started again.
        ready: called once, when workers can join and runs can be submitted.
    """
    with alone(place.lock, f"{place.root}: the server of this deployment is already up"):
        _check_port(place)
        write_connection(place)
        with Supervisor(say) as supervisor:
            supervisor.start(_link(place))
            supervisor.keep(lambda: supervisor.is_up("link") and is_up(place))
            supervisor.start(_executor(place))
            _register(place, supervisor, say)
            supervisor.keep(lambda: supervisor.is_up("executor"))
            ready()
            supervisor.keep()


def is_up(place: ServerPlace) -> bool:
    """Whether the server answers, as the one of this deployment."""
    host, _, port = place.local_address.partition(":")
    connection = http.client.HTTPSConnection(
        host,
        int(port),
        timeout=PROBE_SECONDS,
        context=ssl.create_default_context(cafile=str(place.ca)),
    )
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def write_connection(place: ServerPlace) -> None:
    """Tells Flower's commands where the server is and how it is known."""
    place.home.mkdir(exist_ok=True)
    text = (
        f"[superlink.{CONNECTION}]\n"
        f'address = "{place.local_address}"\n'
        f"root-certificates = {toml_text(str(place.ca))}\n"
    )
    path = place.home / "config.toml"
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    os.replace(draft, path)


def toml_text(text: str) -> str:
    r"""A text as TOML and Flower's options read it; no quote or backslash stays inside.

    Example:
        >>> print(toml_text('a "b" c'))
        "a \u0022b\u0022 c"
    """
    plain = (c if c not in '"\\' and ord(c) >= 32 and c != "\x7f" else f"\\u{ord(c):04x}" for c in text)
    return f'"{"".join(plain)}"'


def _link(place: ServerPlace) -> Child:
    command = [
        *(sys.executable, "-m", "enlist.deploy.gate"),
        *("--host", place.bind_host, "--port", str(place.port)),
        *("--ssl-ca-certfile", str(place.ca)),
        *("--ssl-certfile", str(place.certificate), "--ssl-keyfile", str(place.key)),
        *("--enable-supernode-auth", "--isolation", "process"),
        *("--superexec-auth-secret-file", str(place.secret)),
        *("--database", str(place.database)),
        "--disable-runtime-dependency-installation",
    ]
    return Child(
        name="link",
        command=lambda: command,
        environment=environment(place.home),
        log=place.link_log,
        # Not what Flower says: a release that got around the gate must not count as up.
        sign=gate.SIGN,
        reason=reason,
    )


def _executor(place: ServerPlace) -> Child:
    command = [
        program("flower-superexec"),
        *("--runtime-api-address", place.local_address, "--root-certificates", str(place.ca)),
        *("--superexec-auth-secret-file", str(place.secret)),
        *("--parent-pid", str(os.getpid())),
    ]
    return Child(
        name="executor",
        command=lambda: command,
        environment=environment(place.home),
        log=place.exec_log,
        sign="Starting Flower SuperExec",
        reason=reason,
    )


def _register(place: ServerPlace, supervisor: Supervisor, say: Say) -> None:
    """Until it is done: a link that has just come up may go away again."""
    wait = 1.0
    while True:
        try:
            register(place)
            return
        except EnlistError as error:
            say(f"{error}; trying again in {wait:g} s")
        supervisor.rest(wait)
        wait = min(2 * wait, MOST_WAIT)


def _check_port(place: ServerPlace) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((place.bind_host, place.port))
        except PermissionError:
            raise BadInput(
                f"port = {place.port}: not permitted to this user; choose one above 1023 in {place.root}/deploy.yaml"
                " and in the worker.yaml of each worker"
            ) from None
        except OSError as error:
            raise BadInput(
                f"port = {place.port}: another program has it on {place.bind_host} ({error.strerror}); "
                "stop that one, or make a deployment with another --port"
            ) from None
