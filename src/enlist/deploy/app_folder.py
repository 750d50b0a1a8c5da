"""The Flower app of a run: a folder that Flower packs and carries to the server's process and to every worker."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enlist import own_file
from enlist.deploy.job import Job
from enlist.errors import BadInput

PACKAGE = "enlist_run"
PYPROJECT = f"""\
[project]
name = "enlist-run"
version = "1.0.0"
description = "A run of enlist"
dependencies = []

[tool.flwr.app]
publisher = "enlist"

[tool.flwr.app.components]
serverapp = "{PACKAGE}.server:app"
clientapp = "{PACKAGE}.worker:app"

[tool.flwr.app.config]
"""
MODULE = """\
from pathlib import Path

from enlist.deploy.{side}_app import {side}_app

app = {side}_app(Path(__file__).parent)
"""
# Flower packs at most 10 MB.
MOST_BYTES = 5 * 2**20


def make_app(folder: Path, job: Job) -> None:
    """Makes the folder anew: the job, and a person's own files that its options name."""
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / PACKAGE
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (package / "__init__.py").touch()
    for side in ("server", "worker"):
        (package / f"{side}.py").write_text(MODULE.format(side=side))
    for own in own_files(job.config):
        shutil.copy(own, package / own.name)
    job.write(package)


def own_files(config: Mapping[str, Any]) -> list[Path]:
    """The files that travel with a job of these options: those of `FILE.py:FUNCTION`."""
    found: list[Path] = []
    for option in ("model", "algorithm"):
        if (spot := own_file.named(str(config[option]), option)) is not None:
            found.append(spot.file)
    reserved = {"__init__.py", "server.py", "worker.py"}
    for own in found:
        if own.name in reserved or sum(own.name == other.name for other in set(found)) > 1:
            raise BadInput(f"{own}: give the file another name, since several travel in one folder")
        if own.stat().st_size > MOST_BYTES:
            raise BadInput(f"{own}: {own.stat().st_size} bytes are too many to be sent to every worker")
    return list(dict.fromkeys(found))
