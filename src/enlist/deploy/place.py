"""The folder of a deployment: what lies where, making it, and reading it back."""

import ipaddress
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from enlist.errors import BadInput
from enlist.limits import within

MOST_PORT = 65535
MOST_WORKERS = 10_000
NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.(?!-)[A-Za-z0-9_-]{1,63})*")
INIT = "make one with: enlist deploy init DIR"


@dataclass(frozen=True)
class WorkerPlace:
    """One worker's folder."""

    folder: Path
    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """Where the server is."""
        return f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """How the server calls this worker."""
        return worker_name(self.id)

    @property
    def ca(self) -> Path:
        """The certificate by which the server is known."""
        return self.folder / "ca.crt"

    @property
    def key(self) -> Path:
        """What this worker is known by; it stays here."""
        return self.folder / "key"

    @property
    def public_key(self) -> Path:
        """The half of it that the server has."""
        return self.folder / "key.pub"

    @property
    def home(self) -> Path:
        """Flower's own files."""
        return self.folder / "flwr"

    @property
    def state(self) -> Path:
        """What the worker keeps from round to round."""
        return self.folder / "state"

    @property
    def log(self) -> Path:
        """What its process said."""
        return self.folder / "node.log"

    @property
    def lock(self) -> Path:
        """Held while the worker is up."""
        return self.folder / "lock"


@dataclass(frozen=True)
class ServerPlace:
    """The whole folder, as the server's machine has it."""

    root: Path
    host: str
    port: int
    workers: int

    @property
    def folder(self) -> Path:
        """The server's own part."""
        return self.root / "server"

    @property
    def address(self) -> str:
        """Where the server is, from here and from the workers."""
        return f"{self.host}:{self.port}"

    @property
    def local_address(self) -> str:
        """Where the server is, from its own machine; the certificate holds this too."""
        return f"{self.host if _is_loopback_address(self.host) else '127.0.0.1'}:{self.port}"

    @property
    def bind_host(self) -> str:
        """The address to listen on: this machine alone, where nobody else is meant."""
        alone = self.host == "localhost" or _is_loopback_address(self.host)
        return self.local_address.partition(":")[0] if alone else "0.0.0.0"

    @property
    def ca(self) -> Path:
        """The certificate by which the server is known."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """The key of the certificate."""
        return self.folder / "server.key"

    @property
    def secret(self) -> Path:
        """What the process that runs the server app is known by."""
        return self.folder / "superexec.secret"

    @property
    def home(self) -> Path:
        """Flower's own files."""
        return self.folder / "flwr"

    @property
    def database(self) -> Path:
        """What the link remembers when it is started again."""
        return self.folder / "state.db"

    @property
    def link_log(self) -> Path:
        """What the link said."""
        return self.folder / "link.log"

    @property
    def exec_log(self) -> Path:
        """What the server app said, and the process that starts it."""
        return self.folder / "exec.log"

    @property
    def nodes(self) -> Path:
        """Flower's number for each worker."""
        return self.folder / "nodes.json"

    @property
    def lock(self) -> Path:
        """Held while the server is up."""
        return self.folder / "lock"

    def worker(self, id: int) -> WorkerPlace:
        """The folder of one worker, as it is before it is copied."""
        return WorkerPlace(self.root / "workers" / str(id), id, self.host, self.port)


def worker_name(id: int) -> str:
    """The name under which a worker's key is registered.

    Example:
        >>> worker_name(2)
        'worker-2'
    """
    return f"worker-{id}"


def init(dir: Path, host: str, port: int, workers: int) -> ServerPlace:
    """Makes the folder of a new deployment, or none at all."""
    _check_host(host)
    within("port", port, 1, MOST_PORT)
    within("workers", workers, 1, MOST_WORKERS)
    if dir.is_file():
        raise BadInput(f"{dir}: that is a file; name a folder")
    if dir.is_dir() and any(dir.iterdir()):
        raise BadInput(f"{dir}: that folder is not empty; name a new one")
    from enlist.deploy.filling import fill

    there = dir.is_dir()
    try:
        dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{dir}: cannot be made a folder ({error.strerror}); name another") from error
    place = ServerPlace(dir.absolute(), host, port, workers)
    try:
        fill(place)
    except BaseException:
        for part in dir.iterdir():
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        if not there:
            dir.rmdir()
        raise
    return place


def server_place(dir: Path) -> ServerPlace:
    """The deployment in this folder."""
    path = dir / "deploy.yaml"
    if not path.is_file():
        raise BadInput(f"{dir}: there is no deployment in that folder (it has no deploy.yaml); {INIT}")
    found = _read(path, {"host": str, "port": int, "workers": int})
    place = ServerPlace(dir.absolute(), **found)
    _check(path, place.host, place.port)
    _check_files(place.ca, place.certificate, place.key, place.secret)
    return place


def worker_place(dir: Path, id: int) -> WorkerPlace:
    """The folder of worker `id`: within a deployment, or `dir` itself where it was copied."""
    own = (dir / "worker.yaml").is_file()
    folder = dir if own else dir / "workers" / str(id)
    path = folder / "worker.yaml"
    if not own and not path.is_file():
        raise _no_worker(dir, id)
    found = _read(path, {"id": int, "host": str, "port": int})
    if found["id"] != id:
        raise BadInput(f"{folder}: that is the folder of worker {found['id']}, not of worker {id}")
    place = WorkerPlace(folder.absolute(), **found)
    _check(path, place.host, place.port)
    _check_files(place.ca, place.key)
    return place


def _no_worker(dir: Path, id: int) -> BadInput:
    there = dir / "workers"
    ids = sorted(int(each.name) for each in there.glob("*") if each.name.isdigit()) if there.is_dir() else []
    if not ids:
        return BadInput(f"{dir}: there is no deployment and no worker in that folder; {INIT}")
    whole = ids == list(range(len(ids))) and len(ids) > 2
    known = f"{ids[0]} ... {ids[-1]}" if whole else ", ".join(map(str, ids))
    return BadInput(f"id = {id}: {dir} has the workers {known}")


def _read(path: Path, kinds: dict[str, type]) -> dict[str, Any]:
    """The values of one of our YAML files, which must have exactly these names and kinds."""
    try:
        found = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"{path}: damaged, it is not YAML; {INIT}") from error
    # `host: 10` and `host: 1.5` are numbers to YAML; a flag would pass for one.
    if not isinstance(found, dict) or any(type(found.get(name)) is not kind for name, kind in kinds.items()):
        raise BadInput(f"{path}: damaged, it must hold {', '.join(kinds)} and nothing else; {INIT}")
    if strangers := sorted(str(name) for name in found if name not in kinds):
        raise BadInput(f"{path}: {strangers[0]} is not known there; it holds {', '.join(kinds)}")
    return found


def _check(path: Path, host: str, port: int) -> None:
    try:
        _check_host(host)
        within("port", port, 1, MOST_PORT)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def _check_files(*paths: Path) -> None:
    if missing := next((path for path in paths if not path.is_file()), None):
        raise BadInput(f"{missing}: is missing; copy it from the folder that enlist deploy init made")


def _check_host(host: str) -> None:
    if not NAME.fullmatch(host) or len(host) > 253:
        raise BadInput(f"host = {host[:60]}: must be a name or an IPv4 address, such as server.example.org")
    if re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise BadInput(f"host = {host[:60]}: is no IPv4 address") from None


def _is_loopback_address(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False
