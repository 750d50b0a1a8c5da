"""What a new deployment holds: a CA, the server's certificate and secret, and a folder for each worker."""

import secrets
import shutil
from pathlib import Path

from enlist.deploy import certificates
from enlist.deploy.place import ServerPlace, WorkerPlace

DEPLOY_YAML = """\
# A deployment of enlist. The certificate of the server holds its host: for another one, make a new deployment.

# The name or IPv4 address under which workers reach the server.
host: "{host}"
# The port by which workers come in. Commands to the server use it too, and are taken from its own machine alone.
port: {port}
# The ids of the workers are 0 ... workers - 1; workers/ID is all that worker ID needs, and no other may have it.
workers: {workers}
"""
WORKER_YAML = """\
# All that this worker needs to join. `key` is its own: whoever has it can pose as this worker.

id: {id}
# Where the server is.
host: "{host}"
port: {port}
"""


def fill(place: ServerPlace) -> None:
    """Writes all files of a new deployment; deploy.yaml comes last, and makes it one."""
    authority_folder = place.root / "ca"
    for folder in (authority_folder, place.folder, place.root / "workers"):
        folder.mkdir(mode=0o700)
    certificate = authority_folder / "ca.crt"
    authority = certificates.make_authority(certificate, authority_folder / "ca.key")
    shutil.copy(certificate, place.ca)
    certificates.make_server(authority, place.host, place.certificate, place.key)
    certificates.write_private(place.secret, secrets.token_hex(32).encode())
    for id in range(place.workers):
        _fill_worker(place.worker(id), certificate)
    text = DEPLOY_YAML.format(host=place.host, port=place.port, workers=place.workers)
    (place.root / "deploy.yaml").write_text(text)


def _fill_worker(worker: WorkerPlace, certificate: Path) -> None:
    worker.folder.mkdir(mode=0o700)
    shutil.copy(certificate, worker.ca)
    certificates.make_worker(worker.key, worker.public_key, worker.name)
    text = WORKER_YAML.format(id=worker.id, host=worker.host, port=worker.port)
    (worker.folder / "worker.yaml").write_text(text)
