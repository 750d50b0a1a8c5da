"""How long the first answer takes: help, import, and the first use, beside a bare Python and a bare jax.

`python benchmarks/startup.py`: medians of several fresh processes, run in turns.
"""

import statistics
import subprocess
import sys
import time

CASES = {
    "python -c pass": ["-c", "pass"],
    "import jax": ["-c", "import jax"],
    "import enlist": ["-c", "import enlist"],
    "enlist --help": ["-m", "enlist", "--help"],
    "enlist run --help": ["-m", "enlist", "run", "--help"],
    "enlist run --rounds x (refused)": ["-m", "enlist", "run", "--rounds", "x"],
    "enlist.simulate, imported": ["-c", "import enlist; enlist.simulate"],
}


def main(repeats: int = 7) -> None:
    """Prints a table."""
    seen: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(repeats):
        for name, arguments in CASES.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
            seen[name].append(time.perf_counter() - start)
    bare = statistics.median(seen["import jax"])
    print("| command | seconds | of `import jax` |\n|---|---|---|")
    for name, times in seen.items():
        print(f"| {name} | {statistics.median(times):.2f} | {statistics.median(times) / bare:.2f} |")


if __name__ == "__main__":
    main()
