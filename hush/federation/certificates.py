"""Certificates of a federation: one authority, and what it says of each party: name, TLS key and identity.

X.509 with keys on P-256 and SHA-256, as gRPC takes them. The common name is the party's; a URI among the alternative
names, `hush:ed25519:<64 digits>`, binds its identity of the secure sum. What is not exactly so is Refused.
"""

import hashlib
import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hush.errors import Refused
from hush.secure.keys import WEAK

SERVER = "server"  # the coordinator's name, which no site may have
LASTS = 3652  # days of an authority: ten years
EARLIER = timedelta(hours=1)  # for peers whose clocks are behind
LOCAL = ("localhost", "127.0.0.1")
_URI = "hush:ed25519:"
_FORM = serialization.Encoding.PEM
_NAMES = x509.SubjectAlternativeName
_WRONG = (  # what reading a damaged or foreign certificate raises
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)

Key = ec.EllipticCurvePrivateKey
Signed = x509.Certificate | x509.CertificateSigningRequest


def now() -> datetime:
    """In UTC, as certificates count."""
    return datetime.now(UTC)


def new_key() -> Key:
    """A private key for TLS, from the operating system's generator."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> bytes:
    """A private key as it lies on disk."""
    return key.private_bytes(_FORM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def read_key(pem: bytes) -> Key:
    """A private key on P-256."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except _WRONG:
        key = None
    if not isinstance(key, Key) or not isinstance(key.curve, ec.SECP256R1):
        raise Refused("it is no private key on P-256")
    return key


def public_key(of: Key | Signed) -> ec.EllipticCurvePublicKey:
    """The public key, on P-256."""
    try:
        key = of.public_key()
    except _WRONG:
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Refused("its key is not on P-256")
    return key


def public(of: Key | Signed) -> bytes:
    """The public key in DER."""
    return public_key(of).public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def pem(of: Signed) -> bytes:
    """As it lies on disk."""
    return of.public_bytes(_FORM)


def read(text: bytes) -> x509.Certificate:
    """One certificate and nothing beside it: TLS would trust a second one in the same file."""
    try:
        found = x509.load_pem_x509_certificate(text)
        whole = pem(found) == text
    except _WRONG:
        whole = False
    if not whole:
        raise Refused("it is not one certificate in PEM")
    return found


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of its DER, in 64 hexadecimal digits."""
    return certificate.fingerprint(SHA256()).hex()


def authority(key: Key, start: datetime) -> x509.Certificate:
    """A new federation's own authority, which signs parties and nothing further."""
    digest = hashlib.sha256(public(key)).hexdigest()
    subject = _named(f"hush federation {digest[:16]}")
    return (
        _dated(subject, subject, start, start + timedelta(days=LASTS))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )


def issue(
    by: x509.Certificate,
    key: Key,
    name: str,
    party: Key | Signed,
    identity: bytes,
    start: datetime,
    days: int,
    host: str | None = None,
) -> x509.Certificate:
    """A certificate for a party's key, by the authority's key; with a host that of the server, else of a site."""
    theirs = public_key(party)
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if host is None else ExtendedKeyUsageOID.SERVER_AUTH
    names = [x509.UniformResourceIdentifier(_URI + identity.hex()), *([] if host is None else _hosts(host))]
    until = min(start + timedelta(days=days), by.not_valid_after_utc)
    return (
        _dated(_named(name), by.subject, start, until)
        .public_key(theirs)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(_NAMES(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(theirs), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )


def request(key: Key, name: str, identity: bytes) -> x509.CertificateSigningRequest:
    """What a site asks the authority to certify, signed by its TLS key."""
    names = _NAMES([x509.UniformResourceIdentifier(_URI + identity.hex())])
    asked = x509.CertificateSigningRequestBuilder().subject_name(_named(name)).add_extension(names, critical=False)
    return asked.sign(key, SHA256())


def read_request(text: bytes) -> x509.CertificateSigningRequest:
    """A request whose own signature is right."""
    try:
        found = x509.load_pem_x509_csr(text)
        right = found.is_signature_valid
    except _WRONG:
        right = False
    if not right:
        raise Refused("it holds no certificate request, or one with a wrong signature")
    return found


def name_of(of: Signed) -> str:
    """The common name, where the subject is that and nothing else."""
    try:
        found = list(of.subject)
    except _WRONG:
        found = []
    if len(found) != 1 or found[0].oid != NameOID.COMMON_NAME or not isinstance(found[0].value, str):
        raise Refused("its subject is not one common name")
    return found[0].value


def identity_of(of: Signed) -> bytes:
    """The Ed25519 key that it binds; one under which anybody can sign is refused."""
    try:
        uris = of.extensions.get_extension_for_class(_NAMES).value.get_values_for_type(x509.UniformResourceIdentifier)
        (digits,) = (uri.removeprefix(_URI) for uri in uris if uri.startswith(_URI))
        key = bytes.fromhex(digits)
        right = len(key) == 32 and key.hex() == digits and key not in WEAK
    except _WRONG:
        right = False
    if not right:
        raise Refused("it binds no Ed25519 key, or one under which anybody can sign")
    return key


def bound(text: bytes) -> tuple[str, bytes]:
    """The name and the identity that a certificate binds."""
    found = read(text)
    return name_of(found), identity_of(found)


def check_authority(found: x509.Certificate) -> None:
    """Refuse what is not an authority's own certificate."""
    public(found)
    try:
        found.verify_directly_issued_by(found)
        right = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except _WRONG:
        right = False
    if not right:
        raise Refused("it is not the certificate of an authority")


def check_issued(found: x509.Certificate, by: x509.Certificate, server: bool) -> None:
    """Refuse a certificate of another authority, or one for another purpose: a site's is none of the server's."""
    public(found)
    try:
        found.verify_directly_issued_by(by)
    except _WRONG:
        raise Refused("it is not by this federation's authority") from None
    try:
        ca = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        purposes = list(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except _WRONG:
        ca, purposes = True, []
    if ca or purposes != [ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH]:
        raise Refused(f"it is not the certificate of a {'server' if server else 'site'}")


def timely(found: x509.Certificate, at: datetime) -> bool:
    """Whether it is valid then."""
    return found.not_valid_before_utc <= at <= found.not_valid_after_utc


def names_host(found: x509.Certificate, host: str) -> bool:
    """Whether TLS takes this certificate for that host."""
    try:
        names = found.extensions.get_extension_for_class(_NAMES).value
    except _WRONG:
        return False
    return all(name in list(names) for name in _hosts(host))


def _hosts(host: str) -> list[x509.GeneralName]:
    """The host's names; those of this machine go together."""
    found: list[x509.GeneralName] = []
    for one in LOCAL if host in LOCAL else (host,):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(one)))
        except ValueError:
            found.append(x509.DNSName(one))
    return found


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _dated(subject: x509.Name, by: x509.Name, start: datetime, until: datetime) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(by).serial_number(x509.random_serial_number())
    return made.not_valid_before(start - EARLIER).not_valid_after(until)


def _usage(signs: bool) -> x509.KeyUsage:
    """An authority signs certificates, a party the handshake."""
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
