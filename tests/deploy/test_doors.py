"""Who gets in: real processes at a real link. And what is left of them: nothing."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from live import PATIENCE

from enlist.deploy import certificates, gate, place
from enlist.deploy.environment import environment, program

ENLIST = [sys.executable, "-m", "enlist", "deploy"]


class Process:
    """A process with a log, ended with the test."""

    def __init__(self, log, command, env=None):
        self.log = log
        with log.open("wb") as file:
            self.popen = subprocess.Popen(command, stdout=file, stderr=file, env=env)

    def said(self):
        return self.log.read_text(errors="replace")

    def wait_until_said(self, words, times=1):
        wait_for(lambda: self.said().count(words) >= times or self.popen.poll() is not None)
        assert self.said().count(words) >= times, self.said()

    def end(self, number):
        self.popen.send_signal(number)
        return self.popen.wait(PATIENCE)


def wait_for(condition):
    by = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < by, "waited in vain"
        time.sleep(0.05)
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def living(folder):
    """Processes that have this folder in their environment or on their command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                if os.fsencode(folder) in words:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose processes all end with the tests."""
    made = tmp_path_factory.mktemp("doors")
    yield made
    for pid in living(made):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def deployment(folder):
    return place.init(folder / "deployment", "localhost", free_port(), 2)


def node(deployment, name, *words):
    """A worker of Flower's own, that comes as it likes."""
    home = deployment.root / name
    command = [
        program("flower-supernode"),
        "--superlink",
        deployment.address,
        "--port",
        str(free_port()),
        *words,
    ]
    return Process(home.with_suffix(".log"), command, environment(home))


def listed(deployment):
    """Flower's number and state of each registered worker."""
    command = [program("flwr"), "supernode", "list", "enlist", "--format", "json"]
    done = subprocess.run(command, env=environment(deployment.home), capture_output=True, timeout=PATIENCE)
    return {int(each["node-id"]): each["status"] for each in json.loads(done.stdout)["nodes"]}


def test_only_a_registered_key_gets_in_and_nothing_is_left_at_the_end(folder, deployment):
    rows = folder / 'it\'s my "rows".npz'
    np.savez(rows, x_train=np.ones((4, 2), np.float32), y_train=np.arange(4))
    certificates.make_worker(folder / "stranger", folder / "stranger.pub", "stranger")
    certificates.make_authority(folder / "other.crt", folder / "other.key")
    known = ("--root-certificates", str(deployment.ca))

    # The worker comes first, and waits for the server.
    words = ["worker", str(deployment.worker(0).folder), "--id", "0", "--data", str(rows)]
    worker = Process(folder / "worker.out", ENLIST + words)
    worker.wait_until_said("joins the server")
    server = Process(folder / "server.out", [*ENLIST, "server", str(deployment.root)])
    server.wait_until_said("ready at")

    stranger = node(deployment, "stranger", *known, "--auth-supernode-private-key", str(folder / "stranger"))
    keyless = node(deployment, "keyless", *known)
    plain = node(deployment, "plain", "--insecure")
    own_key = ("--auth-supernode-private-key", str(deployment.worker(1).key))
    misled = node(deployment, "misled", "--root-certificates", str(folder / "other.crt"), *own_key)
    reader = [program("flower-superexec"), *known, "--runtime-api-address", deployment.local_address]
    thief = Process(folder / "thief.log", reader, environment(folder / "thief"))

    for refused, words in (
        (stranger, "Failed to activate"),
        (keyless, "authentication is enabled"),
        (misled, "CERTIFICATE_VERIFY_FAILED"),
    ):
        refused.wait_until_said(words)
        assert refused.popen.wait(PATIENCE) == 1
    thief.popen.wait(PATIENCE)
    assert "SuperExec authentication failed" in deployment.link_log.read_text()
    # Without TLS it is not even refused, and tries for ever.
    plain.wait_until_said("Connection attempt failed")
    worker.wait_until_said("worker 0 is up")

    numbers = json.loads(deployment.nodes.read_text())
    assert listed(deployment) == {numbers["0"]: "online", numbers["1"]: "registered"}
    for outsider in (stranger, keyless, plain, misled):
        assert "SuperNode ID" not in outsider.said()
    plain.end(signal.SIGKILL)

    # A link that is killed comes back, and knows its workers.
    link = next(pid for pid, words in living(folder).items() if "enlist.deploy.gate" in words)
    os.kill(link, signal.SIGKILL)
    server.wait_until_said("link ended (killed by SIGKILL)")
    server.wait_until_said("link is up", times=2)
    wait_for(lambda: listed(deployment) == {numbers["0"]: "online", numbers["1"]: "registered"})
    assert "worker 0 ended" not in worker.said().partition("worker 0 is up")[2]

    assert worker.end(signal.SIGTERM) == 0
    assert listed(deployment)[numbers["0"]] == "offline"
    assert server.end(signal.SIGINT) == 130
    wait_for(lambda: not living(folder))


@pytest.mark.parametrize(
    ("kind", "path", "client", "passes"),
    [
        ("http", "/v1/fleet/pull-messages", ("10.0.0.7", 1), True),
        ("http", "/health", ("10.0.0.7", 1), True),
        ("http", "/v1/control/start-run", ("10.0.0.7", 1), False),
        ("http", "/v1/control/register-node", ("10.0.0.7", 1), False),
        ("http", "/v1/runtime/acquire-task", ("10.0.0.7", 1), False),
        ("http", "/docs", ("10.0.0.7", 1), False),
        ("http", "/v1/control/start-run", None, False),
        ("websocket", "/v1/fleet/pull-messages", ("10.0.0.7", 1), False),
        ("http", "/v1/control/start-run", ("127.0.0.1", 1), True),
        ("http", "/v1/runtime/acquire-task", ("::1", 1), True),
    ],
)
def test_other_machines_reach_what_workers_need_alone(kind, path, client, passes):
    assert gate.may_pass({"type": kind, "path": path, "client": client}) is passes


def test_the_gate_refuses_before_the_link_sees_anything():
    import asyncio

    async def link(scope, receive, send):
        raise AssertionError("the link saw it")

    async def send(message):
        sent.append(message)

    sent = []
    scope = {"type": "http", "path": "/v1/control/start-run", "client": ("10.0.0.7", 1)}
    asyncio.run(gate.gated(link)(scope, None, send))
    assert sent[0]["status"] == 403


def test_a_port_in_use_is_said_before_anything_starts(folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        place.init(folder / "late", "localhost", port, 1)
        command = [*ENLIST, "server", str(folder / "late")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"port = {port}" in done.stderr
    assert not (folder / "late" / "server" / "link.log").exists()
