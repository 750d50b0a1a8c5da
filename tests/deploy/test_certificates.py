"""Certificates that a strict reader accepts, for the right names only; keys that nobody else can read."""

import os
import ssl
import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from enlist.deploy import certificates


@pytest.fixture(scope="module", params=["server.example.org", "10.1.2.3"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    authority = certificates.make_authority(folder / "ca.crt", folder / "ca.key")
    certificates.make_server(authority, request.param, folder / "server.pem", folder / "server.key")
    certificates.make_authority(folder / "other.crt", folder / "other.key")
    return request.param, folder


def shake_hands(folder, name, authority="ca.crt"):
    """A TLS handshake without a network; raises what either side has to complain of."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    worker = ssl.create_default_context(cafile=folder / authority)
    worker.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = worker.wrap_bio(back, there, server_hostname=name)
    theirs = server.wrap_bio(there, back, server_side=True)
    waiting = [ours, theirs]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return ours.version()


def test_the_server_is_known_by_its_host_and_on_its_own_machine(made):
    host, folder = made
    for name in (host, "localhost", "127.0.0.1"):
        assert shake_hands(folder, name) == "TLSv1.3"


def test_it_is_not_known_by_another_name_or_to_another_authority(made):
    host, folder = made
    for name in ("other.example.org", "10.1.2.4"):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(folder, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(folder, host, authority="other.crt")


def test_a_workers_keys_are_a_pair_in_the_form_that_flower_reads(tmp_path):
    certificates.make_worker(tmp_path / "key", tmp_path / "key.pub", "worker-7")
    secret = serialization.load_ssh_private_key((tmp_path / "key").read_bytes(), None)
    line = (tmp_path / "key.pub").read_bytes()
    public = serialization.load_ssh_public_key(line)
    assert isinstance(secret.curve, ec.SECP384R1)
    assert secret.public_key() == public
    assert line.endswith(b" worker-7\n")


def test_a_private_file_is_private_from_its_first_byte(tmp_path, monkeypatch):
    seen = []

    def open_and_look(descriptor, *rest, **more):
        seen.append((os.fstat(descriptor).st_size, stat.S_IMODE(os.fstat(descriptor).st_mode)))
        return plain(descriptor, *rest, **more)

    plain = os.fdopen
    monkeypatch.setattr(os, "fdopen", open_and_look)
    before = os.umask(0)
    try:
        certificates.write_private(tmp_path / "secret", b"secret")
    finally:
        os.umask(before)
    assert seen == [(0, 0o600)]
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        certificates.write_private(tmp_path / "secret", b"another")
