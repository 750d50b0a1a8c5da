"""A virtual environment a peer, made from its pinned requirements when it is first needed."""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


def folder_for(environments: Path) -> Path:
    """The folder that holds the environments and logs; git is told to leave it alone."""
    environments.mkdir(parents=True, exist_ok=True)
    (environments / ".gitignore").write_text("*\n")
    return environments


def python_of(requirements: str, folder: Path) -> Path:
    """The Python of the environment for a requirements file; made anew when the file has changed."""
    place = folder / Path(requirements).stem
    python, done = place / "bin" / "python", place / "made-from.txt"
    wanted = (HERE / "requirements" / requirements).read_text()
    if not done.exists() or done.read_text() != wanted:
        print(f"making {place} from requirements/{requirements}", file=sys.stderr)
        venv.create(place, with_pip=True, clear=True)
        install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--quiet",
            "--requirement",
            str(HERE / "requirements" / requirements),
        ]
        subprocess.run([str(python), *install], cwd=REPOSITORY, check=True)
        done.write_text(wanted)
    return python
