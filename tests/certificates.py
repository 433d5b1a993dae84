"""Certificates for tests: an authority, and the certificates that it signs, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
import pathlib
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as paths."""

    cert: str
    key: str


class Authority:
    """Signs certificates; `ca` is its own certificate."""

    def __init__(self, folder: pathlib.Path, name: str = "penstock test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self._cert = certificate.sign(self._key, hashes.SHA256())
        path = folder / "ca.pem"
        path.write_bytes(self._cert.public_bytes(serialization.Encoding.PEM))
        self.ca = str(path)

    def signed(
        self,
        name: str,
        *sans: str,
        begin: datetime.datetime | None = None,
        end: datetime.datetime | None = None,
    ) -> Pair:
        """A pair with these subject alternative names (IP addresses as such), valid from an hour ago for a day by
        default."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key(), begin, end)
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName([_san(san) for san in sans]), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        cert_path, key_path = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return Pair(str(cert_path), str(key_path))

    def _builder(
        self,
        subject: x509.Name,
        public: ec.EllipticCurvePublicKey,
        begin: datetime.datetime | None = None,
        end: datetime.datetime | None = None,
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin or now - datetime.timedelta(hours=1))
            .not_valid_after(end or now + datetime.timedelta(days=1))
        )


def _san(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
