"""The folder of a deployment is made whole or not at all, and what is wrong with it is said in one line."""

import shutil
import stat

import pytest

from enlist.deploy import place
from enlist.errors import BadInput


@pytest.fixture
def made(tmp_path):
    return place.init(tmp_path / "there" / "deployment", "127.0.0.1", 8443, 3)


def one_line(error, *words):
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_what_was_made_is_read_back(made):
    assert place.server_place(made.root) == made
    for id in range(3):
        assert place.worker_place(made.root, id) == made.worker(id)


def test_a_worker_needs_its_own_folder_alone(made, tmp_path):
    own = shutil.copytree(made.worker(1).folder, tmp_path / "elsewhere")
    shutil.rmtree(made.root)
    found = place.worker_place(own, 1)
    assert (found.folder, found.address, found.name) == (own, "127.0.0.1:8443", "worker-1")
    assert found.key.is_file()
    assert found.ca.is_file()


def test_only_the_owner_can_read_what_is_secret(made):
    secret = [made.root / "ca" / "ca.key", made.key, made.secret, *(made.worker(i).key for i in range(3))]
    assert [stat.S_IMODE(path.stat().st_mode) for path in secret] == [0o600] * 6
    assert stat.S_IMODE(made.root.stat().st_mode) == 0o700
    keys = {path.read_bytes() for path in secret}
    assert len(keys) == 6, "no two are alike"


@pytest.mark.parametrize(
    ("host", "bind", "local"),
    [
        ("localhost", "127.0.0.1", "127.0.0.1:9"),
        ("127.0.0.2", "127.0.0.2", "127.0.0.2:9"),
        ("10.0.0.1", "0.0.0.0", "127.0.0.1:9"),
        ("server.example.org", "0.0.0.0", "127.0.0.1:9"),
    ],
)
def test_a_server_for_this_machine_listens_to_it_alone(tmp_path, host, bind, local):
    found = place.ServerPlace(tmp_path, host, 9, 1)
    assert (found.bind_host, found.local_address) == (bind, local)


@pytest.mark.parametrize(
    "host", ["", "a b", "-a", "300.1.1.1", "10", "::1", "http://a", "é", "a" * 64, 'a"b']
)
def test_a_host_that_cannot_be_one(tmp_path, host):
    with pytest.raises(BadInput) as error:
        place.init(tmp_path / "d", host, 8443, 3)
    one_line(error, "host = ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("port", "workers", "words"),
    [(0, 3, "port = 0"), (65536, 3, "port = 65536"), (1, 0, "workers = 0"), (1, 10**6, "workers = 1000000")],
)
def test_numbers_out_of_range(tmp_path, port, workers, words):
    with pytest.raises(BadInput) as error:
        place.init(tmp_path / "d", "localhost", port, workers)
    one_line(error, words)


def test_a_folder_in_use_is_not_touched(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(BadInput) as error:
        place.init(tmp_path, "localhost", 8443, 3)
    one_line(error, "not empty")
    with pytest.raises(BadInput) as error:
        place.init(tmp_path / "mine", "localhost", 8443, 3)
    one_line(error, "a file")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_empty_folder_will_do(tmp_path):
    (tmp_path / "empty").mkdir()
    assert place.init(tmp_path / "empty", "localhost", 8443, 1).root == tmp_path / "empty"


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    from enlist.deploy import certificates

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(certificates, "make_worker", full)
    with pytest.raises(OSError, match="No space"):
        place.init(tmp_path / "d", "localhost", 8443, 3)
    assert not list(tmp_path.iterdir())


def test_what_is_not_there(made, tmp_path):
    with pytest.raises(BadInput) as error:
        place.server_place(tmp_path / "nowhere")
    one_line(error, "nowhere", "enlist deploy init")
    with pytest.raises(BadInput) as error:
        place.worker_place(tmp_path / "nowhere", 0)
    one_line(error, "nowhere", "enlist deploy init")
    with pytest.raises(BadInput) as error:
        place.worker_place(made.root, 3)
    one_line(error, "id = 3", "0 ... 2")
    with pytest.raises(BadInput) as error:
        place.worker_place(made.worker(1).folder, 2)
    one_line(error, "worker 1, not of worker 2")
    made.key.unlink()
    with pytest.raises(BadInput) as error:
        place.server_place(made.root)
    one_line(error, "server.key", "missing")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "damaged"),
        ("host: [", "damaged"),
        ("host: localhost\nport: many\nworkers: 3", "damaged"),
        ("host: localhost\nport: true\nworkers: 3", "damaged"),
        ("host: localhost\nport: 0\nworkers: 3", "port = 0"),
        ("host: a b\nport: 1\nworkers: 3", "host = a b"),
        ("host: localhost\nport: 1\nworkers: 3\nspeed: 1", "speed"),
    ],
)
def test_a_damaged_file(made, text, words):
    (made.root / "deploy.yaml").write_text(text)
    with pytest.raises(BadInput) as error:
        place.server_place(made.root)
    one_line(error, "deploy.yaml", words)


def test_a_damaged_file_of_a_worker(made):
    (made.worker(0).folder / "worker.yaml").write_bytes(b"\xff\x00")
    with pytest.raises(BadInput) as error:
        place.worker_place(made.root, 0)
    one_line(error, "worker.yaml", "damaged")
