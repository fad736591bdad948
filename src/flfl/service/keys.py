"""Who is who on the wire and in the sums: certificates for TLS, Ed25519 identities, the roster.

One folder of the operators holds the authority; each party gets its own files, readable by it only.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from flfl.config import BrokerSettings, check_name
from flfl.errors import InputError, explained
from flfl.io.files import write_files
from flfl.secagg import Identity, Roster
from flfl.service.files import save_bytes
from flfl.transport.link import COORDINATOR

_SLACK = datetime.timedelta(days=2)
"""A certificate is valid from a little earlier on: clocks of small machines are off."""
_KEY = re.compile(r"[0-9a-f]{64}")
AUTHORITY, REVOKED, ROSTER, ISSUED = "authority", "revoked.pem", "roster.json", "issued.json"
BROKER = "broker"
_TAKEN = (AUTHORITY, BROKER, COORDINATOR, "revoked")
"""Names that no site may have: its files would take the place of others."""
_OWN = "Give this party's own files"
_AUTHORITY = "The operators make a new one with `flfl keys init`, and new certificates"
_PEM, _PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()


@dataclass(frozen=True)
class Made:
    """Files that were made, for telling about."""

    paths: tuple[Path, ...]
    expires: datetime.datetime


def make_authority(folder: Path, network: str, days: int = 3650) -> Made:
    """A certificate authority and an empty revocation list."""
    if (folder / f"{AUTHORITY}.key").exists():
        raise InputError(
            "there is an authority already",
            where=str(folder),
            remedy="Use it, or choose another folder: all certificates depend on it",
        )
    key = ec.generate_private_key(ec.SECP256R1())
    name, public = _common_name(f"FLFL {network}"), key.public_key()
    certificate = (
        _certificate(name, name, public, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(False, False, False, False, False, True, True, False, False),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = _write_pair(folder, AUTHORITY, certificate, key)
    _write_revoked(folder, certificate, key, [])
    return Made((*paths, folder / REVOKED), certificate.not_valid_after_utc)


def make_certificate(folder: Path, name: str, days: int = 365, hosts: Sequence[str] = ()) -> Made:
    """A certificate for a party; with ``hosts``, for a broker that is reached under these names."""
    check_name(name)
    authority, signer = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    if _now() + datetime.timedelta(days=days) > authority.not_valid_after_utc:
        raise InputError(
            f"the certificate would outlive the authority ({authority.not_valid_after_utc:%F})",
            where=str(folder),
            remedy="Give fewer --days",
        )
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        _certificate(_common_name(name), authority.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(issuer, critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    issued = _issued(folder)
    issued.setdefault(name, []).append(certificate.serial_number)
    _write(folder / ISSUED, json.dumps(issued, indent=1))
    return Made(_write_pair(folder, name, certificate, key), certificate.not_valid_after_utc)


def make_site(folder: Path, name: str, days: int = 365) -> Made:
    """A site's certificate and identity. The identity stays when the certificate is renewed."""
    if name.lower() in _TAKEN:
        raise InputError(
            f"no site may be called {name!r}", where="name", remedy="Choose another name"
        )
    made = make_certificate(folder, name, days)
    path, public = folder / f"{name}.identity", folder / f"{name}.public"
    if not path.exists():
        _write_private(path, Ed25519PrivateKey.generate().private_bytes_raw().hex().encode())
    _write(public, load_identity(path).public.hex())
    return Made((*made.paths, path, public), made.expires)


def load_identity(path: Path) -> Identity:
    """A site's identity from its file."""
    check_private(path)
    text = _read(path, "See `flfl keys site`").strip()
    try:
        return Identity.from_bytes(bytes.fromhex(text))
    except ValueError:
        raise InputError("this is not an identity", where=str(path), remedy=_OWN) from None


def write_roster(folder: Path, names: Sequence[str], threshold: int = 0) -> Roster:
    """The list of sites with their public keys; every party gets the same file."""
    keys, remedy = {}, "Make the site's keys first, or copy its .public file here"
    for name in names or sorted(path.stem for path in folder.glob("*.public")):
        path = folder / f"{name}.public"
        public = _read(path, remedy).strip()
        if not _KEY.fullmatch(public):
            raise InputError("this is not a public key", where=str(path), remedy=remedy)
        keys[name] = bytes.fromhex(public)
    roster = Roster(keys, threshold)
    sites = {name: key.hex() for name, key in roster.keys.items()}
    document = {"threshold": roster.threshold, "sites": sites}
    _write(folder / ROSTER, json.dumps(document, indent=1))
    return roster


def load_roster(path: Path) -> Roster:
    """The list of sites from its file."""
    text = _read(path, "See `flfl keys roster`")
    try:
        document = json.loads(text)
        keys = {str(name): bytes.fromhex(key) for name, key in document["sites"].items()}
        return Roster(keys, int(document["threshold"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        remedy = "Get roster.json from the operators again"
        raise InputError("this is not a roster", where=str(path), remedy=remedy) from None


def revoke(folder: Path, name: str) -> int:
    """Revoke all certificates of a site, renewed ones too; returns how many are on the list."""
    (authority, signer), path = _authority(folder), folder / REVOKED
    listed = list(x509.load_pem_x509_crl(path.read_bytes())) if path.exists() else []
    serials = {_load(folder / f"{name}.pem").serial_number, *_issued(folder).get(name, [])}
    for serial in sorted(serials - {entry.serial_number for entry in listed}):
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(_now())
        listed.append(entry.build())
    _write_revoked(folder, authority, signer, listed)
    return len(listed)


def check_private(path: Path) -> None:
    """Refuse a secret that everybody on this machine can read."""
    with explained("the file cannot be read", where=str(path), remedy="See `flfl keys`"):
        mode = path.stat().st_mode
    if os.name == "posix" and mode & stat.S_IRWXO:
        raise InputError(
            "everybody on this machine has a right to this secret file",
            where=str(path),
            remedy=f"Take it away with `chmod 600 {path.name}`",
        )


def check_certificate(path: Path, name: str, warn_days: int = 30) -> str:
    """Refuse a certificate of another party, or one that does not hold now; returns a warning, if
    any."""
    certificate = _load(path)
    end, left = certificate.not_valid_after_utc, certificate.not_valid_after_utc - _now()
    owners = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    problem, remedy = "", "Renew it: `flfl keys request` at the party, `flfl keys sign`"
    if [owner.value for owner in owners] != [name]:
        owner = str(owners[0].value) if owners else ""
        problem, remedy = f"the certificate is for {owner!r}, not for {name!r}", _OWN
    elif left <= datetime.timedelta(0):
        problem = f"the certificate ended on {end:%Y-%m-%d}"
    elif certificate.not_valid_before_utc > _now():
        problem = f"the certificate is valid from {certificate.not_valid_before_utc:%Y-%m-%d} on"
        remedy = "Check this machine's clock"
    if problem:
        raise InputError(problem, where=str(path), remedy=remedy)
    return f"the certificate ends on {end:%Y-%m-%d}" if left.days < warn_days else ""


def check_keys(broker: BrokerSettings, name: str) -> str:
    """Refuse files that do not fit each other, this party or this day; returns a warning, if any.
    Nothing to say of a connection without TLS."""
    if broker.authority is None or broker.certificate is None or broker.key is None:
        return ""
    warning = check_certificate(broker.certificate, name)
    check_private(broker.key)
    certificate, authority = _load(broker.certificate), _load(broker.authority)
    data = _read(broker.key, "See `flfl keys`").encode()
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError("this is not a key", where=str(broker.key), remedy=_OWN) from None
    if key.public_key() != certificate.public_key():
        raise InputError(
            "the key is not that of the certificate", where=str(broker.key), remedy=_OWN
        )
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise InputError(
            "the certificate was not signed by this authority",
            where=str(broker.authority),
            remedy="Give the authority.pem of the operators of this network",
        ) from None
    if authority.not_valid_after_utc <= _now():
        raise InputError("the authority has ended", where=str(broker.authority), remedy=_AUTHORITY)
    return warning


def certificate_end(path: Path) -> datetime.datetime:
    """When a certificate ends."""
    return _load(path).not_valid_after_utc


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    end = _now() + datetime.timedelta(days=days)
    # One that is to end in the past (for tests of just that) begins before it ends.
    start, serial = min(_now(), end) - _SLACK, x509.random_serial_number()
    return x509.CertificateBuilder(issuer, subject, key, serial, start, end)


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    remedy = "Make one with `flfl keys init`"
    with explained("there is no authority here", where=str(folder), remedy=remedy):
        certificate = x509.load_pem_x509_certificate((folder / f"{AUTHORITY}.pem").read_bytes())
        data = (folder / f"{AUTHORITY}.key").read_bytes()
    key = serialization.load_pem_private_key(data, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return certificate, key


def _load(path: Path) -> x509.Certificate:
    text = _read(path, "See `flfl keys`")
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise InputError("this is not a certificate", where=str(path), remedy=_OWN) from None


def _issued(folder: Path) -> dict[str, list[int]]:
    """Serial numbers of all certificates that each party was given."""
    path = folder / ISSUED
    try:
        return dict(json.loads(path.read_bytes())) if path.exists() else {}
    except ValueError:
        raise InputError(
            "the list of issued certificates is damaged", where=str(path), remedy="Restore it"
        ) from None


def _write_revoked(
    folder: Path,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    listed: list[x509.RevokedCertificate],
) -> None:
    end = _now() + datetime.timedelta(days=3650)
    revoked = x509.CertificateRevocationListBuilder(
        authority.subject, _now() - _SLACK, end, revoked_certificates=listed
    )
    _write(folder / REVOKED, revoked.sign(key, hashes.SHA256()).public_bytes(_PEM).decode())


def _write_pair(
    folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:
    shown, private = folder / f"{name}.pem", folder / f"{name}.key"
    _write_private(private, key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, _PLAIN))
    _write(shown, certificate.public_bytes(_PEM).decode())
    return shown, private


def _read(path: Path, remedy: str) -> str:
    with explained("the file cannot be read", where=str(path), remedy=remedy):
        return path.read_text(encoding="ascii", errors="replace")


def _write(path: Path, text: str) -> None:
    data = text.rstrip("\n").encode() + b"\n"
    write_files({path: lambda file: file.write(data) and None})


def _write_private(path: Path, data: bytes) -> None:
    with explained("the key cannot be written", where=str(path), remedy="Choose another folder"):
        save_bytes(path, data)
