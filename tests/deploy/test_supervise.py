"""What dies is started again; what is stopped leaves nothing behind, not even when it is killed."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from enlist.deploy import supervise
from enlist.deploy.supervise import Child, Supervisor
from enlist.errors import BadInput

# A process that has one of its own, and neither wants to go.
STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(99)"
own = subprocess.Popen([sys.executable, "-c", deaf])
draft = pathlib.Path(sys.argv[1] + ".draft")
draft.write_text(f"{os.getpid()} {own.pid}")
draft.rename(sys.argv[1])
print("here I am", flush=True)
"""
PATIENCE = 60.0


def child(tmp_path, program, *words, **more):
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, words)]
    facts = {"name": "it", "sign": "here I am", "log": tmp_path / "it.log"} | more
    return Child(command=lambda: command, environment=os.environ, **facts)


def wait_for(condition):
    by = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < by, "waited in vain"
        time.sleep(0.02)
    return found


def gone(pid):
    """Whether a process is no more; one that only waits for its parent to notice is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def pids(path):
    return [int(word) for word in wait_for(lambda: path.is_file() and path.read_text()).split()]


def test_what_ends_is_started_again_later_each_time(tmp_path):
    said = []
    program = "print('here I am', flush=True); raise SystemExit(3)"
    with Supervisor(said.append) as supervisor:
        supervisor.start(child(tmp_path, program))
        supervisor.keep(lambda: sum("again" in line for line in said) == 3)
    waits = [line.partition("again in ")[2].split()[0] for line in said if "again" in line]
    assert waits == ["0.5", "1", "2"]
    assert all("exit code 3" in line and "it.log" in line for line in said if "again" in line)
    assert (tmp_path / "it.log").read_text().count("here I am") == 3


def test_the_wait_has_an_end_and_is_short_again_after_a_good_while(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(supervise, "WELL_AFTER", 0.0)
    with Supervisor(said.append) as supervisor:
        supervisor.start(child(tmp_path, "raise SystemExit(3)"))
        supervisor.keep(lambda: len(said) == 2)
    assert all("again in 0.5 s" in line for line in said)
    monkeypatch.setattr(supervise, "WELL_AFTER", 1e9)
    said.clear()
    with Supervisor(said.append) as supervisor:
        supervisor.start(child(tmp_path, "raise SystemExit(3)", most_wait=0.6))
        supervisor.keep(lambda: len(said) == 3)
    assert [line.partition("again in ")[2].split()[0] for line in said] == ["0.5", "0.6", "0.6"]


def test_it_says_what_is_up_and_why_something_ended(tmp_path):
    said = []
    program = "import time; print('an old story'); print('here I am', flush=True); time.sleep(1); raise SystemExit(1)"
    told = child(tmp_path, program, reason=lambda log: f"read {log.count('old story')}")
    with Supervisor(said.append) as supervisor:
        supervisor.start(told)
        # Of its second life too it reads that one alone.
        supervisor.keep(lambda: sum("again" in line for line in said) == 2)
        assert not supervisor.is_up("it")
    assert [line.partition(";")[0] for line in said] == ["it is up", "it ended (read 1)"] * 2


def test_stopping_ends_the_child_and_what_it_started(tmp_path):
    said = []
    with Supervisor(said.append, grace=0.2) as supervisor:
        supervisor.start(child(tmp_path, STUBBORN + "time.sleep(99)", tmp_path / "pids"))
        both = pids(tmp_path / "pids")
        supervisor.keep(lambda: supervisor.is_up("it"))
        assert supervisor.pids() == {"it": both[0]}
        assert not any(map(gone, both))
    wait_for(lambda: all(map(gone, both)))
    assert said == ["it is up"]


def test_what_a_dead_child_had_started_does_not_outlive_it(tmp_path):
    said = []
    with Supervisor(said.append) as supervisor:
        supervisor.start(child(tmp_path, STUBBORN + "os.kill(os.getpid(), 9)", tmp_path / "pids"))
        first = pids(tmp_path / "pids")
        supervisor.keep(lambda: any("again" in line for line in said))
        wait_for(lambda: all(map(gone, first)))
    assert "killed by SIGKILL" in said[-1]


def test_a_program_that_is_not_there(tmp_path):
    nothing = Child("it", lambda: ["/nowhere/at/all"], {}, tmp_path / "log", sign="up")
    with pytest.raises(OSError, match="nowhere"), Supervisor(print) as supervisor:
        supervisor.start(nothing)


def test_a_log_does_not_grow_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "MOST_LOG_BYTES", 1000)
    program = "import time\nwhile True: print('x' * 99, flush=True); time.sleep(0.001)"
    older = tmp_path / "it.log.1"
    with Supervisor(print) as supervisor:
        supervisor.start(child(tmp_path, program))
        supervisor.keep(older.is_file)
    assert older.read_bytes().startswith(b"x" * 99)
    assert b"\0" not in (tmp_path / "it.log").read_bytes()


def test_a_file_that_one_process_can_hold(tmp_path):
    def hold():
        return supervise.alone(tmp_path / "lock", "taken")

    with hold(), pytest.raises(BadInput, match="taken"), hold():
        pass
    with hold():
        pass


HOLDER = """
import os, pathlib, sys
from enlist.deploy.supervise import Child, Supervisor, ended_by_signals
command = [sys.executable, "-c", pathlib.Path(sys.argv[1]).read_text(), sys.argv[2]]
with ended_by_signals(), Supervisor(lambda line: print(line, flush=True), grace=0.2) as supervisor:
    supervisor.start(Child("it", lambda: command, os.environ, pathlib.Path(sys.argv[2] + ".log"), sign="here I am"))
    supervisor.keep()
"""


@pytest.mark.parametrize(
    ("number", "code", "of_both"),
    [
        (signal.SIGTERM, 0, 2),
        (signal.SIGHUP, 0, 2),
        (signal.SIGINT, -signal.SIGINT, 2),
        (signal.SIGKILL, -9, 1),
    ],
)
def test_a_command_that_is_ended_leaves_nothing_behind(tmp_path, number, code, of_both):
    (tmp_path / "program").write_text(STUBBORN + "time.sleep(99)")
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "program"), str(tmp_path / "pids")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        assert holder.stdout.readline() == "it is up\n"
        both = pids(tmp_path / "pids")
        holder.send_signal(number)
        assert holder.wait(60) == code
    try:
        # After kill -9 the system ends the child; nobody is left to look after what that had started.
        wait_for(lambda: all(map(gone, both[:of_both])))
    finally:
        if not gone(both[1]):
            os.kill(both[1], signal.SIGKILL)
