"""How a site gets its kit: it makes its own keys and asks, the coordinator approves, and it accepts the answer.

In earnest a private key never leaves the machine that made it. What travels is a request and its answer, and each side
holds the fingerprint of what it got against what the other read out to it over another channel.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from hush.data import files
from hush.errors import Mistake, Refused
from hush.federation import certificates as issued
from hush.federation import kit as kits
from hush.federation.kit import Kit
from hush.secure.keys import Identity, verify

ASKED = {"format": int, "name": str, "request": str, "identity": str, "signature": str}
GRANTED = {"format": int, "name": str, "host": str, "port": int, "federation": str} | dict.fromkeys(
    ("authority", "certificate", "server"), str
)


@dataclass(frozen=True)
class Request:
    """What a site asks for: a certificate for its TLS key, and its identity, which signed that key."""

    name: str
    request: str
    identity: str
    signature: str
    format: int = 1

    @property
    def asked(self) -> x509.CertificateSigningRequest:
        """The certificate request."""
        return issued.read_request(self.request.encode())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its name and both keys: what the site reads out."""
        return hashlib.sha256(_words(self.name, issued.public(self.asked)) + bytes.fromhex(self.identity)).hexdigest()

    @classmethod
    def read(cls, path: Path) -> "Request":
        """From its file; one whose keys did not sign it is a Mistake."""
        found = kits.facts(kits.content(path), ASKED)
        if found is None:
            raise Mistake(f"{path} is no request of hush, or damaged: ask the site for its request.json")
        asked = cls(**found)
        try:
            identity, name = issued.identity_of(asked.asked), issued.name_of(asked.asked)
            words = _words(asked.name, issued.public(asked.asked))
            if identity.hex() != asked.identity or name != asked.name or not kits.named(name):
                raise Refused("its name or identity is not the one that its keys signed")
            if not re.fullmatch("[0-9a-f]{128}", asked.signature) or not verify(
                identity, bytes.fromhex(asked.signature), words
            ):
                raise Refused("its identity did not sign it")
        except Refused as why:
            raise Mistake(f"{path} is not right, {why}: ask the site for its request.json") from None
        return asked


@dataclass(frozen=True)
class Grant:
    """What an approved site gets back: certificates of the authority, of itself and of the server, host and port."""

    name: str
    host: str
    port: int
    federation: str
    authority: str
    certificate: str
    server: str
    format: int = 1

    @classmethod
    def read(cls, path: Path) -> "Grant":
        """From its file; one that is not of one federation is a Mistake."""
        found = kits.facts(kits.content(path), GRANTED)
        if found is None:
            raise Mistake(f"{path} is no answer to a request, or damaged: ask the coordinator for NAME.kit.json")
        grant = cls(**found)
        try:
            authority, server = issued.read(grant.authority.encode()), issued.read(grant.server.encode())
            issued.check_authority(authority)
            issued.check_issued(server, authority, server=True)
            issued.identity_of(server)
            one = kits.member(grant.certificate.encode(), grant.authority.encode())
            if issued.fingerprint(authority) != grant.federation or one.name != grant.name:
                raise Refused("its fingerprint or name is not that of its certificates")
            if issued.name_of(server) != issued.SERVER or not issued.names_host(server, grant.host):
                raise Refused("its host is not the server's")
            if not 1 <= grant.port <= 65535:
                raise Refused("its port is not from 1 to 65535")
        except Refused as why:
            raise Mistake(f"{path} is not right, {why}: ask the coordinator for it again") from None
        return grant


def request(folder: Path, name: str) -> Request:
    """A site's own keys in a new folder, and its request to the coordinator."""
    kits.check_name(name)
    free(folder)
    place, key, seed = Path(os.path.abspath(folder)), issued.new_key(), os.urandom(32)
    identity = Identity(seed)
    signature = identity.sign(_words(name, issued.public(key)))
    csr = issued.pem(issued.request(key, name, identity.public)).decode()
    asked = Request(name, csr, identity.public.hex(), signature.hex())

    def fill(draft: Path) -> None:
        secrets(draft / place.name, key, seed)
        files.write(draft / place.name / "request.json", as_json(asdict(asked)))

    with writing(folder):
        files.add_folders(place.parent, fill)
    return asked


def check_own(folder: Path, grant: Grant) -> None:
    """A Mistake where the answer is not for the keys in this folder."""
    name, _ = _waiting(folder, grant)
    kits.check_private(folder)
    cert, place = issued.read(grant.certificate.encode()), folder / "key.pem"
    key, identity = kits.checked(place, issued.read_key, kits.content(place)), Identity(kits.seed(folder)).public
    if grant.name != name:
        raise Mistake(f"the answer is for {grant.name}, and {folder} is of {name}: ask the coordinator for its own")
    if issued.public(cert) != issued.public(key) or issued.identity_of(cert) != identity:
        raise Mistake(f"the answer's certificate is for other keys than those in {folder}: send its request.json again")


def accept(folder: Path, grant: Grant) -> Kit:
    """Complete the kit of a site, or renew its certificate, with what the coordinator handed back."""
    check_own(folder, grant)
    name, simulation = _waiting(folder, grant)
    authority, cert = issued.read(grant.authority.encode()), grant.certificate.encode()
    server = issued.identity_of(issued.read(grant.server.encode()))
    with writing(folder):
        complete(folder, name, grant.host, grant.port, authority, server, cert, simulation)
    return kits.read(folder)


def check_fingerprint(found: str, given: str) -> None:
    """A Mistake where it is not the one that was read out."""
    if re.sub(r"[\s:]", "", given).lower() != found:
        raise Mistake(f"the file has another fingerprint than {given[:100]!r}: ask the other side for both again")


def secrets(folder: Path, key: issued.Key, seed: bytes) -> None:
    """A party's private keys, in a folder of its own."""
    folder.mkdir(mode=0o700)
    files.write(folder / "key.pem", issued.key_pem(key), private=True)
    files.write(folder / "identity.key", f"{seed.hex()}\n".encode(), private=True)


def complete(
    folder: Path,
    name: str,
    host: str,
    port: int,
    authority: x509.Certificate,
    server: bytes,
    certificate: bytes,
    simulation: int | None,
) -> None:
    """What makes a kit of private keys; kit.json comes last, so that a kit is whole where it has one."""
    facts = {"format": 1, "name": name, "host": host, "port": port, "federation": issued.fingerprint(authority)}
    files.write(folder / "ca.pem", issued.pem(authority))
    files.write(folder / "cert.pem", certificate)
    files.write(folder / "kit.json", as_json({**facts, "server": server.hex(), "simulation": simulation}))


def as_json(facts: dict[str, Any]) -> bytes:
    """A file that people may read."""
    return f"{json.dumps(facts, indent=2)}\n".encode()


def free(folder: Path) -> None:
    """A Mistake where something is in the way of a new folder."""
    if os.path.lexists(folder):
        raise Mistake(f"{folder} exists: choose another")


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A place that cannot be written to is a Mistake; a full disk is said by the command line."""
    try:
        yield
    except FileExistsError as error:
        raise Mistake(f"{error.filename} exists: choose another") from None
    except OSError as error:
        if files.full(error):
            raise
        raise Mistake(f"{folder} cannot be written ({error.strerror}): choose another place") from None


def _words(name: str, public: bytes) -> bytes:
    """What an identity signs to bind a TLS key to itself and a name."""
    return b"hush request 1\n" + name.encode() + b"\n" + public


def _waiting(folder: Path, grant: Grant) -> tuple[str, int | None]:
    """Whose kit is to be completed, and the seed of its rehearsal; one of another federation is not touched."""
    if not os.path.exists(folder / "kit.json"):
        if not os.path.exists(folder / "request.json"):
            raise Mistake(f"{folder} holds no request: make one with hush federation request")
        return Request.read(folder / "request.json").name, None
    facts = kits.described(folder)
    if facts["federation"] != grant.federation:
        raise Mistake(f"{folder} is of the federation {facts['federation']} already: make a new request for another")
    return facts["name"], facts["simulation"]
