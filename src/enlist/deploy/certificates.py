"""Certificates and keys: a CA of our own, the server's certificate, and a key pair for each worker.

`cryptography` comes with Flower, so this is imported only once it is known that Flower is there.
"""

import datetime
import ipaddress
import os
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

YEARS = 10
# Clocks of two machines differ.
EARLIER = datetime.timedelta(days=1)
HASH = hashes.SHA384()


class Authority(NamedTuple):
    """A CA: its certificate, and the key that it signs with."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def write_private(path: Path, content: bytes) -> None:
    """A new file that only its owner may read, from its first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def make_authority(certificate: Path, key: Path) -> Authority:
    """A new CA, written to two files."""
    secret, name = _new_key(), _name("enlist deployment CA")
    made = (
        _certificate(name, secret, name, secret)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(secret, HASH)
    )
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    write_private(key, _pem(secret))
    return Authority(made, secret)


def make_server(authority: Authority, host: str, certificate: Path, key: Path) -> None:
    """The server's certificate, for `host` and for this machine's own names, and its key."""
    secret = _new_key()
    purpose = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
    made = (
        _certificate(_name("enlist server"), secret, authority.certificate.subject, authority.key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(purpose, critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .sign(authority.key, HASH)
    )
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    write_private(key, _pem(secret))


def make_worker(key: Path, public: Path, comment: str) -> None:
    """A worker's key pair, in OpenSSH's form, as Flower wants it."""
    secret = _new_key()
    write_private(key, secret.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    line = secret.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    public.write_bytes(line + f" {comment}\n".encode())


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, common)])


def _names(host: str) -> list[x509.GeneralName]:
    """The host, and how this machine calls itself."""
    return [_general_name(name) for name in dict.fromkeys([host, "localhost", "127.0.0.1"])]


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    """What both kinds of certificate have in common."""
    now = datetime.datetime.now(datetime.UTC)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(signer, critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
