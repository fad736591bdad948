"""Who is who on the wire and in the sums: certificates for TLS, Ed25519 identities, the roster.

One folder of the operators holds the authority. A site makes its keys at home and has a request
signed; each private file is readable by its party only.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from flfl.config import BrokerSettings, check_name
from flfl.errors import InputError, explained
from flfl.io.files import Writer, write_files
from flfl.secagg import Identity, Roster
from flfl.service.diary import stamp
from flfl.service.files import save_bytes
from flfl.service.identity import OWN, check_private, load_identity, read_text
from flfl.transport.link import COORDINATOR

_SLACK = datetime.timedelta(days=2)
"""A certificate is valid from a little earlier on: clocks of small machines are off."""
_KEY = re.compile(r"[0-9a-f]{64}")
AUTHORITY, REVOKED, ROSTER, ISSUED = "authority", "revoked.pem", "roster.json", "issued.json"
BROKER, REQUEST, WAITING = "broker", ".request", ".key.new"
_IDENTITY = "flfl-identity:"
_AGAIN = "Ask the site's owner to send it again"
_TAKEN = (AUTHORITY, BROKER, COORDINATOR, "revoked")
"""Names that no site may have: its files would take the place of others."""
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
    """A certificate for a party, and its key; with ``hosts``, for a broker that is reached under
    these names."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _issue(folder, name, key.public_key(), days, hosts)
    return Made(_write_pair(folder, name, certificate, key), certificate.not_valid_after_utc)


def make_site(folder: Path, name: str, days: int = 365) -> Made:
    """A site's certificate and identity. The identity stays when the certificate is renewed."""
    _check_site_name(name)
    made = make_certificate(folder, name, days)
    public = folder / f"{name}.public"
    identity, path = _own_identity(folder, name)
    _write(public, identity.public.hex())
    return Made((*made.paths, path, public), made.expires)


def make_request(folder: Path, name: str) -> tuple[Path, str]:
    """A site's own key, and a request that the operators sign: they never hold the key. Returns the
    request and its fingerprint.

    The key waits as ``NAME.key.new`` for its certificate, so that a running site keeps its old pair
    until then. The identity is made once. The request names it, signed by the new key; and it is
    signed by the identity: neither half can be somebody else's.
    """
    _check_site_name(name)
    identity, _ = _own_identity(folder, name)
    key = ec.generate_private_key(ec.SECP256R1())
    alternative = x509.UniformResourceIdentifier(f"{_IDENTITY}{identity.public.hex()}")
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_common_name(name))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .sign(key, hashes.SHA256())
    )
    data = asked.public_bytes(_PEM)
    document = {"request": data.decode(), "signature": identity.sign(data).hex()}
    path, private = folder / f"{name}{REQUEST}", serialization.PrivateFormat.PKCS8
    _write_private(folder / f"{name}{WAITING}", key.private_bytes(_PEM, private, _PLAIN))
    _write(path, json.dumps(document, indent=1))
    return path, fingerprint(data)


def sign_request(folder: Path, path: Path, days: int = 365) -> tuple[Made, str, str]:
    """Sign a site's request: its certificate and the public half of its identity. Returns these,
    the site's name and the request's fingerprint."""
    name, asked, public = _read_request(path)
    _check_site_name(name)
    known = folder / f"{name}.public"
    if known.exists() and read_text(known, "").strip() != public:
        raise InputError(
            f"{name} has another identity than before",
            where=str(path),
            remedy=f"Ask its owner; if it is right, remove {known} and write the roster anew",
        )
    key = asked.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InputError("the key is of another kind", where=str(path), remedy=_AGAIN)
    certificate = _issue(folder, name, key, days, ())
    shown = folder / f"{name}.pem"
    _write(shown, certificate.public_bytes(_PEM).decode())
    _write(known, public)
    made = Made((shown, known), certificate.not_valid_after_utc)
    return made, name, fingerprint(asked.public_bytes(_PEM))


def accept_certificate(folder: Path, path: Path) -> Made:
    """Put a signed certificate beside the key that waits for it; both take their names together, so
    a running site never finds one without the other."""
    certificate = _load(path)
    owners = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = check_name(str(owners[0].value) if owners else "")
    remedy = "Make a request with `flfl keys request`, and have that signed"
    with explained("no key waits for it", where=str(folder / f"{name}{WAITING}"), remedy=remedy):
        data = (folder / f"{name}{WAITING}").read_bytes()
    try:
        public = serialization.load_pem_private_key(data, None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        public = None
    if public != certificate.public_key():
        raise InputError("it is not for the key that waits", where=str(path), remedy=remedy)
    shown, private = folder / f"{name}.pem", folder / f"{name}.key"
    pem = certificate.public_bytes(_PEM)
    write_files({private: _putting(data), shown: _putting(pem)}, private=True)
    (folder / f"{name}{WAITING}").unlink()
    return Made((shown, private), certificate.not_valid_after_utc)


def fingerprint(data: bytes) -> str:
    """What two people compare on the phone.

    Examples
    --------
    >>> fingerprint(b"x")
    '2d71 1642 b726 b044'
    """
    text = hashlib.sha256(data).hexdigest()[:16]
    return " ".join(text[i : i + 4] for i in range(0, 16, 4))


def _read_request(path: Path) -> tuple[str, x509.CertificateSigningRequest, str]:
    """Name, request and identity, each proven by a signature."""
    text = read_text(path, "Give the file that `flfl keys request` made")
    try:
        document = json.loads(text)
        data = str(document["request"]).encode()
        asked = x509.load_pem_x509_csr(data)
        (owner,) = asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
        public = uri.removeprefix(_IDENTITY)
        if not asked.is_signature_valid or not _KEY.fullmatch(public):
            raise ValueError
        identity = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        identity.verify(bytes.fromhex(document["signature"]), data)
    except (ValueError, KeyError, TypeError, x509.ExtensionNotFound, InvalidSignature):
        problem = "this is not a request, or was changed on its way"
        raise InputError(problem, where=str(path), remedy=_AGAIN) from None
    return str(owner.value), asked, public


def _issue(
    folder: Path, name: str, key: ec.EllipticCurvePublicKey, days: int, hosts: Sequence[str]
) -> x509.Certificate:
    """Sign a certificate for a key, and write down that it was given."""
    check_name(name)
    authority, signer = _authority(folder)
    if _now() + datetime.timedelta(days=days) > authority.not_valid_after_utc:
        raise InputError(
            f"the certificate would outlive the authority ({authority.not_valid_after_utc:%F})",
            where=str(folder),
            remedy="Give fewer --days",
        )
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        _certificate(_common_name(name), authority.subject, key, days)
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
    return certificate


def _check_site_name(name: str) -> None:
    check_name(name)
    if name.lower() in _TAKEN:
        raise InputError(
            f"no site may be called {name!r}", where="name", remedy="Choose another name"
        )


def _own_identity(folder: Path, name: str) -> tuple[Identity, Path]:
    """A site's identity, made once."""
    path = folder / f"{name}.identity"
    if not path.exists():
        _write_private(path, Ed25519PrivateKey.generate().private_bytes_raw().hex().encode())
    return load_identity(path), path


def write_roster(folder: Path, names: Sequence[str], threshold: int = 0) -> Roster:
    """The list of sites with their public keys; every party gets the same file. Without names, of
    all that have keys here and were not revoked."""
    keys, remedy = {}, "Make the site's keys first, or copy its .public file here"
    known = sorted(path.stem for path in folder.glob("*.public"))
    for name in names or [name for name in known if not _is_revoked(folder, name)]:
        path = folder / f"{name}.public"
        public = read_text(path, remedy).strip()
        if not _KEY.fullmatch(public):
            raise InputError("this is not a public key", where=str(path), remedy=remedy)
        keys[name] = bytes.fromhex(public)
    roster = Roster(keys, threshold)
    sites = {name: key.hex() for name, key in roster.keys.items()}
    document = {"threshold": roster.threshold, "sites": sites}
    _write(folder / ROSTER, json.dumps(document, indent=1))
    return roster


def _is_revoked(folder: Path, name: str) -> bool:
    """Whether the certificate that a site has now is on the revocation list."""
    path, certificate = folder / REVOKED, folder / f"{name}.pem"
    if not path.exists() or not certificate.exists():
        return False
    try:
        serial = _load(certificate).serial_number
    except InputError:
        return False
    crl = x509.load_pem_x509_crl(path.read_bytes())
    return crl.get_revoked_certificate_by_serial_number(serial) is not None


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


def check_certificate(path: Path, name: str, warn_days: int = 30) -> str:
    """Refuse a certificate of another party, or one that does not hold now; returns a warning, if
    any."""
    certificate = _load(path)
    end, left = certificate.not_valid_after_utc, certificate.not_valid_after_utc - _now()
    owners = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    problem, remedy = "", "Renew it: `flfl keys request` at the party, `flfl keys sign`"
    if [owner.value for owner in owners] != [name]:
        owner = str(owners[0].value) if owners else ""
        problem, remedy = f"the certificate is for {owner!r}, not for {name!r}", OWN
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
    data = read_text(broker.key, "See `flfl keys`").encode()
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError("this is not a key", where=str(broker.key), remedy=OWN) from None
    if key.public_key() != certificate.public_key():
        raise InputError(
            "the key is not that of the certificate", where=str(broker.key), remedy=OWN
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
    text = read_text(path, "See `flfl keys`")
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise InputError("this is not a certificate", where=str(path), remedy=OWN) from None


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


def _write(path: Path, text: str) -> None:
    write_files({path: _putting(text.rstrip("\n").encode() + b"\n")})


def _putting(data: bytes) -> Writer:
    def put(file: BinaryIO) -> None:
        file.write(data)

    return put


def _write_private(path: Path, data: bytes) -> None:
    with explained("the key cannot be written", where=str(path), remedy="Choose another folder"):
        save_bytes(path, data)


def looked_at(broker: BrokerSettings, name: str) -> dict[str, Any]:
    """What is to be said of a party's certificates: a warning, an error, and when they end."""
    ends, warning, error = {}, "", None
    for which, path in (("certificate", broker.certificate), ("authority", broker.authority)):
        if path is not None:
            try:
                ends[which] = stamp(_load(path).not_valid_after_utc.timestamp())
            except InputError as problem:
                ends[which] = problem.problem
    try:
        warning = check_keys(broker, name)
    except InputError as problem:
        error = [problem.problem, problem.where, problem.remedy]
    return {"ends": ends, "warning": warning, "error": error}


if __name__ == "__main__":
    # For parties that wait without these libraries: settings in, what is to be said out.
    asked = json.load(sys.stdin)
    given = BrokerSettings.model_validate(asked["broker"])
    json.dump(looked_at(given, asked["name"]), sys.stdout)
