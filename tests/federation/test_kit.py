"""Kits: what is in them, who may read them, what is refused, and that TLS takes exactly the right ones."""

import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from hush.errors import Mistake, Refused
from hush.federation import certificates as issued
from hush.federation import coordinator, enrolment, kit
from hush.federation.enrolment import Grant, Request
from hush.secure.keys import WEAK, Identity

NOW = datetime.now(UTC)


@pytest.fixture
def trial(tmp_path):
    """A federation of the sites a and b, on this machine."""
    return coordinator.init(tmp_path / "trial", "localhost", sites=("b", "a"))


@pytest.fixture
def real(tmp_path):
    """A federation without sites, at a host of its own."""
    return coordinator.init(tmp_path / "real", "fl.example.org")


def admitted(real, folder, name="mine"):
    """A site's folder, its request and the answer."""
    asked = enrolment.request(folder, name)
    return asked, Grant.read(coordinator.approve(real, asked))


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_trial_has_every_kit(trial):
    site = kit.read(trial.path.parent / "a")
    assert (trial.name, trial.coordinator, site.name, site.coordinator) == ("server", True, "a", False)
    assert (site.host, site.port, site.simulation) == ("localhost", 8900, None)
    assert site.federation == trial.federation == issued.fingerprint(kit.certificate(trial.authority))
    assert site.server == trial.server == Identity(trial.identity_seed).public
    assert [one.name for one in kit.roster(trial)] == ["a", "b"] == list(kit.certificates(trial))
    assert kit.roster(trial)[0].key == Identity(site.identity_seed).public
    assert kit.roster(trial)[0].until - NOW > timedelta(days=364)
    assert site.certificate.read_bytes() == kit.certificates(trial)["a"]
    assert site.state.is_dir()
    assert site.state.stat().st_mode & 0o777 == 0o700
    assert site.identity_seed.hex() not in repr(site)
    assert repr(site.identity_seed) not in repr(site)


def test_the_certificates_say_what_tls_asks_for(trial):
    def extension(path, kind):
        return kit.certificate(path).extensions.get_extension_for_class(kind)

    ca = extension(trial.authority, x509.BasicConstraints)
    assert (ca.critical, ca.value) == (True, x509.BasicConstraints(ca=True, path_length=0))
    assert extension(trial.authority, x509.KeyUsage).value.key_cert_sign
    for folder, purpose in (("coordinator", "serverAuth"), ("a", "clientAuth")):
        path = trial.path.parent / folder / "cert.pem"
        assert not extension(path, x509.BasicConstraints).value.ca
        assert extension(path, x509.KeyUsage).value.digital_signature
        assert not extension(path, x509.KeyUsage).value.key_cert_sign
        assert [one._name for one in extension(path, x509.ExtendedKeyUsage).value] == [purpose]
    names = extension(trial.certificate, x509.SubjectAlternativeName).value
    assert [str(one.value) for one in names][1:] == ["localhost", "127.0.0.1"]
    own = extension(trial.path.parent / "a" / "cert.pem", x509.SubjectAlternativeName).value
    key = kit.roster(trial)[0].key
    assert [one.value for one in own] == [f"hush:ed25519:{key.hex()}"]


def test_a_site_that_asks_is_approved_and_accepts(real, tmp_path):
    asked, grant = admitted(real, tmp_path / "mine", "hospital-1")
    with pytest.raises(Mistake, match="not complete"):
        kit.read(tmp_path / "mine")
    found = enrolment.accept(tmp_path / "mine", grant)
    assert (found.name, found.host, found.federation) == ("hospital-1", "fl.example.org", real.federation)
    assert found.server == real.server
    assert found == kit.read(tmp_path / "mine")
    (member,) = kit.roster(real)
    assert (member.name, member.key.hex()) == ("hospital-1", asked.identity)
    assert kit.member(found.certificate.read_bytes(), found.authority.read_bytes()) == member


def test_a_sites_secrets_are_in_nothing_that_it_sends_nor_at_the_coordinator(real, tmp_path):
    _, grant = admitted(real, tmp_path / "mine")
    site = enrolment.accept(tmp_path / "mine", grant)
    key = issued.read_key(site.key.read_bytes())
    scalar = key.private_numbers().private_value.to_bytes(32, "big")
    body = b"".join(site.key.read_bytes().splitlines()[1:-1])
    for secret in (site.identity_seed, scalar):
        for form in (secret, secret.hex().encode(), body[40:80]):
            sent = {**files_of(real.path), "request": (tmp_path / "mine" / "request.json").read_bytes()}
            assert [name for name, data in sent.items() if form in data] == []
    assert b"PRIVATE" not in (tmp_path / "mine" / "request.json").read_bytes() + b"".join(
        data for name, data in files_of(real.path / "sites").items()
    )


def test_only_the_owner_reads_what_is_secret(trial, tmp_path):
    old = os.umask(0)
    try:
        open_to_all = coordinator.init(tmp_path / "open", "localhost", sites=("c",))
        enrolment.request(tmp_path / "asked", "c")
    finally:
        os.umask(old)
    for folder in (open_to_all.path, tmp_path / "open" / "c", tmp_path / "asked"):
        assert folder.stat().st_mode & 0o777 == 0o700
        for name in kit.SECRETS:
            if (folder / name).exists():
                assert (folder / name).stat().st_mode & 0o777 == 0o600
    for name in kit.SECRETS:
        (trial.path / name).chmod(0o640)
        with pytest.raises(Mistake, match=f"{name} can be read by others: chmod 600"):
            kit.read(trial.path)
        (trial.path / name).chmod(0o600)
    kit.read(trial.path)


def test_a_rehearsal_repeats_and_says_so(tmp_path):
    one, two, other = (
        coordinator.init(tmp_path / place, "localhost", sites=("a",), simulation=seed)
        for place, seed in (("one", 3), ("two", 3), ("other", 4))
    )
    assert one.server == two.server != other.server
    assert kit.roster(one)[0].key == kit.roster(two)[0].key != kit.roster(other)[0].key
    assert kit.roster(one)[0].key != one.server
    assert one.federation != two.federation
    assert json.loads((tmp_path / "one" / "a" / "kit.json").read_text())["simulation"] == 3
    assert kit.read(tmp_path / "one" / "a").simulation == 3
    with pytest.raises(Mistake, match="rehearsal"):
        coordinator.approve(one, enrolment.request(tmp_path / "asked", "c"))
    with pytest.raises(Mistake, match="name each --site"):
        coordinator.init(tmp_path / "none", "localhost", simulation=3)


WRONG_NAMES = ["", "A", "1a", "-a", "a_b", "a.b", "a/b", "../a", "server", "a" * 41, "a\n", "é"]


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_names_that_no_site_has(name, tmp_path):
    with pytest.raises(Mistake, match="no name of a site"):
        enrolment.request(tmp_path / "x", name)
    with pytest.raises(Mistake, match="no name of a site"):
        coordinator.init(tmp_path / "x", "localhost", sites=(name,))
    assert not (tmp_path / "x").exists()


def test_names_that_sites_have(tmp_path):
    for name in ("a", "site-2", "a" * 40, "a-"):
        assert enrolment.request(tmp_path / name, name).name == name


@pytest.mark.parametrize(
    "host", ["", "a b", "x:80", "http://x", "0.0.0.0", "::", "*.x.org", "1.2.3", "a..b", "é", "fe80::1%a"]
)
def test_hosts_that_nobody_reaches(host, tmp_path):
    with pytest.raises(Mistake, match="is no host"):
        coordinator.init(tmp_path / "x", host)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("FL.Example.org", ["fl.example.org"]),
        ("10.0.0.7", ["10.0.0.7"]),
        ("2001:DB8::1", ["2001:db8::1"]),
        ("127.0.0.1", ["localhost", "127.0.0.1"]),
    ],
)
def test_the_host_is_in_the_servers_certificate(host, known, tmp_path):
    made = kit.read(coordinator.init(tmp_path / "x", host).path)
    names = kit.certificate(made.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one.value) for one in names][1:] == known


def test_nothing_is_overwritten_and_a_failure_leaves_nothing(trial, tmp_path, monkeypatch):
    before = files_of(tmp_path)
    with pytest.raises(Mistake, match="coordinator exists: choose another"):
        coordinator.init(tmp_path / "trial", "localhost")
    with pytest.raises(Mistake, match="trial exists: choose another"):
        enrolment.request(tmp_path / "trial", "c")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "b").symlink_to("nowhere")
    with pytest.raises(Mistake, match="b exists: choose another"):
        coordinator.init(tmp_path / "new", "localhost", sites=("a", "b"))
    assert files_of(tmp_path) == before

    def fails(*given, **named):
        raise OSError(5, "Input/output error", "key.pem")

    (tmp_path / "new" / "b").unlink()
    monkeypatch.setattr(issued, "key_pem", fails)
    for folder in (tmp_path / "new", tmp_path / "deep" / "er"):
        with pytest.raises(Mistake, match="cannot be written"):
            coordinator.init(folder, "localhost", sites=("a", "b"))
    with pytest.raises(Mistake, match="cannot be written"):
        enrolment.request(tmp_path / "deep" / "mine", "c")
    assert files_of(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"trial", "new"}
    assert list((tmp_path / "new").iterdir()) == []


def test_a_name_is_approved_once_and_its_keys_once(real, tmp_path):
    asked, _ = admitted(real, tmp_path / "mine")
    before = files_of(real.path)
    with pytest.raises(Mistake, match="mine is on the roster already"):
        coordinator.approve(real, enrolment.request(tmp_path / "second", "mine"))
    identity, key = Identity(kit.seed(tmp_path / "mine")), issued.new_key()
    csr = issued.pem(issued.request(key, "other", identity.public)).decode()
    signature = identity.sign(enrolment._words("other", issued.public(key))).hex()
    with pytest.raises(Mistake, match="other has the keys of mine"):
        coordinator.approve(real, Request("other", csr, asked.identity, signature))
    assert files_of(real.path) == before


def test_a_revoked_site_is_off_the_roster_and_its_keys_stay_out(real, tmp_path):
    asked, _ = admitted(real, tmp_path / "mine")
    pem = kit.certificates(real)["mine"]
    gone = coordinator.revoke(real, "mine")
    assert kit.roster(real) == ()
    assert gone.parent == real.path / "revoked"
    assert gone.read_bytes() == pem
    assert list((real.path / "sites").iterdir()) == []
    for name in ("mine", "../cert", "server"):
        with pytest.raises(Mistake, match="not on the roster"):
            coordinator.revoke(real, name)
    with pytest.raises(Mistake, match="were revoked"):
        coordinator.approve(real, asked)
    coordinator.approve(real, enrolment.request(tmp_path / "second", "mine"))
    assert [one.name for one in kit.roster(real)] == ["mine"]


def test_a_certificate_is_renewed_for_the_same_keys(tmp_path):
    real = coordinator.init(tmp_path / "real", "localhost", days=1, start=NOW - timedelta(days=2))
    asked = enrolment.request(tmp_path / "mine", "mine")
    answer = coordinator.approve(real, asked, days=1, start=NOW - timedelta(days=2))
    with pytest.raises(Mistake, match="not valid now"):
        Grant.read(answer)
    with pytest.raises(Mistake, match=r"expired on .*hush federation renew"):
        kit.read(real.path)
    assert kit.roster(real) == ()
    coordinator.renew(kit.whole(real.path), "server")
    assert kit.read(real.path) == real
    site = enrolment.accept(tmp_path / "mine", Grant.read(coordinator.renew(real, "mine", 2)))
    assert kit.roster(real)[0].key.hex() == asked.identity
    later = enrolment.accept(tmp_path / "mine", Grant.read(coordinator.renew(real, "mine", 30)))
    assert later == site
    assert kit.certificate(site.certificate).not_valid_after_utc > NOW + timedelta(days=29)
    with pytest.raises(Mistake, match="not on the roster"):
        coordinator.renew(real, "other")


@pytest.mark.parametrize("days", [0, -1, 4000])
def test_days_that_no_certificate_lasts(days, tmp_path):
    with pytest.raises(Mistake, match="--days"):
        coordinator.init(tmp_path / "x", "localhost", days=days)


def changed(path, **facts):
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def test_a_request_that_its_keys_did_not_sign(real, tmp_path):
    asked, other = enrolment.request(tmp_path / "mine", "mine"), enrolment.request(tmp_path / "other", "other")
    path = tmp_path / "request.json"
    weak = issued.new_key()
    (point,) = {key for key in WEAK if key == bytes([1, *bytes(31)])}
    wrong = [
        ({"signature": other.signature}, "did not sign"),
        ({"signature": "zz"}, "did not sign"),
        ({"identity": other.identity}, "not the one that its keys signed"),
        ({"name": "other"}, "not the one that its keys signed"),
        ({"name": "\ud800"}, "no request"),
        ({"request": other.request}, "not the one that its keys signed"),
        ({"request": "none"}, "no certificate request"),
        ({"request": issued.pem(issued.request(weak, "mine", point)).decode()}, "anybody can sign"),
        ({"format": 2}, "no request"),
        ({"more": 1}, "no request"),
        ({"name": 3}, "no request"),
    ]
    for facts, sentence in wrong:
        shutil.copy(tmp_path / "mine" / "request.json", path)
        changed(path, **facts)
        with pytest.raises(Mistake, match=sentence):
            Request.read(path)
    for data in (b"", b"[", b"[" * 60000, b"\xff", b"{}", b" " * 70000):
        path.write_bytes(data)
        with pytest.raises(Mistake, match=r"request.json"):
            Request.read(path)
    with pytest.raises(Mistake, match="cannot be read"):
        Request.read(tmp_path)
    assert asked.fingerprint != other.fingerprint != replace(other, identity=asked.identity).fingerprint


def test_a_key_that_is_not_on_p_256_is_refused(tmp_path):
    identity = Identity.new()
    for key in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())):
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"hush:ed25519:{identity.public.hex()}")])
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mine")])
        csr = x509.CertificateSigningRequestBuilder().subject_name(subject).add_extension(names, False)
        text = issued.pem(csr.sign(key, SHA256())).decode()
        path = tmp_path / "request.json"
        facts = {"name": "mine", "request": text, "identity": identity.public.hex(), "signature": "00" * 64}
        path.write_text(json.dumps({**facts, "format": 1}))
        with pytest.raises(Mistake, match="P-256"):
            Request.read(path)


def test_an_answer_for_others_completes_nothing(real, trial, tmp_path):
    _, grant = admitted(real, tmp_path / "mine")
    _, other = admitted(real, tmp_path / "other", "other")
    foreign = coordinator.init(tmp_path / "foreign", "fl.example.org")
    namesake = enrolment.request(tmp_path / "namesake", "mine")
    before = files_of(tmp_path / "mine")
    with pytest.raises(Mistake, match="the answer is for other"):
        enrolment.accept(tmp_path / "mine", other)
    with pytest.raises(Mistake, match="other keys"):
        enrolment.accept(tmp_path / "mine", Grant.read(coordinator.approve(foreign, namesake)))
    (tmp_path / "mine" / "key.pem").chmod(0o644)
    with pytest.raises(Mistake, match="read by others"):
        enrolment.accept(tmp_path / "mine", grant)
    (tmp_path / "mine" / "key.pem").chmod(0o600)
    assert files_of(tmp_path / "mine") == before
    enrolment.accept(tmp_path / "mine", grant)
    with pytest.raises(Mistake, match="already"):
        enrolment.accept(tmp_path / "mine", Grant.read(tmp_path / "foreign/coordinator/sites/mine.kit.json"))
    with pytest.raises(Mistake, match="no request"):
        enrolment.accept(tmp_path / "nowhere", grant)
    assert trial.federation != real.federation != foreign.federation


def test_an_answer_that_was_changed_on_its_way(real, trial, tmp_path):
    _, grant = admitted(real, tmp_path / "mine")
    path, ours = tmp_path / "answer.json", real.path / "sites" / "mine.kit.json"
    wrong = [
        ({"host": "evil.example.org"}, "its host is not the server's"),
        ({"name": "other"}, "fingerprint or name"),
        ({"federation": "0" * 64}, "fingerprint or name"),
        ({"port": 0}, "port"),
        ({"authority": trial.authority.read_text()}, "not by this federation's authority"),
        ({"authority": grant.certificate}, "not the certificate of an authority"),
        ({"server": trial.certificate.read_text()}, "not by this federation's authority"),
        ({"server": grant.certificate}, "not the certificate of a server"),
        ({"certificate": grant.server}, "not the certificate of a site"),
        ({"authority": grant.authority + trial.authority.read_text()}, "not one certificate"),
        ({"certificate": ""}, "not one certificate"),
    ]
    for facts, sentence in wrong:
        shutil.copy(ours, path)
        changed(path, **facts)
        with pytest.raises(Mistake, match=sentence):
            Grant.read(path)
    assert Grant.read(ours) == grant


def test_a_kit_that_is_not_whole_is_a_mistake(trial, tmp_path):
    place = trial.path.parent / "a"
    other = coordinator.init(tmp_path / "other", "localhost", sites=("a",))
    theirs, said = other.path.parent / "a", (place / "kit.json").read_bytes()
    damages = {
        "kit.json": [b"", b"{}", said.replace(b'"a"', b'"b"'), said.replace(trial.federation.encode(), b"0" * 64)],
        "ca.pem": [b"", other.authority.read_bytes(), trial.authority.read_bytes() + other.authority.read_bytes()],
        "cert.pem": [b"", (theirs / "cert.pem").read_bytes(), (trial.path.parent / "b" / "cert.pem").read_bytes()],
        "key.pem": [b"", (theirs / "key.pem").read_bytes()],
        "identity.key": [b"", b"zz", b"00" * 31, b"00" * 32, b"\xff"],
    }
    for name, contents in damages.items():
        whole = (place / name).read_bytes()
        for data in contents:
            (place / name).write_bytes(data)
            with pytest.raises(Mistake) as raised:
                kit.read(place)
            assert "\n" not in str(raised.value)
        (place / name).unlink()
        with pytest.raises(Mistake):
            kit.read(place)
        (place / name).write_bytes(whole)
        (place / name).chmod(0o600)
    kit.read(place)
    for wrong in (tmp_path / "nowhere", tmp_path, place / "kit.json", tmp_path / ("x" * 300)):
        with pytest.raises(Mistake, match="no kit"):
            kit.read(wrong)
    with pytest.raises(Mistake, match="is not a kit but holds some"):
        kit.read(trial.path.parent)
    with pytest.raises(Mistake, match="the coordinator's has the roster"):
        kit.roster(kit.read(place))


def test_a_kit_before_and_after_its_time(tmp_path):
    for start, sentence in ((NOW - timedelta(days=2), "expired on"), (NOW + timedelta(days=2), "not valid before")):
        made = coordinator.init(tmp_path / sentence[:3], "localhost", days=1, sites=("a",), start=start)
        for path in (made.path, made.path.parent / "a"):
            with pytest.raises(Mistake, match=sentence):
                kit.read(path)
        with pytest.raises(Refused, match="not valid now"):
            kit.member((made.path / "sites" / "a.pem").read_bytes(), made.authority.read_bytes())


def test_a_certificate_under_anothers_name_is_refused(trial, tmp_path):
    sites = trial.path / "sites"
    shutil.copy(sites / "a.pem", sites / "b.pem")
    with pytest.raises(Mistake, match=r"b\.pem is the certificate of a"):
        kit.roster(trial)
    foreign = coordinator.init(tmp_path / "foreign", "localhost", sites=("b",))
    shutil.copy(foreign.path / "sites" / "b.pem", sites / "b.pem")
    with pytest.raises(Mistake, match="not by this federation's authority"):
        kit.certificates(trial)
    shutil.copy(trial.certificate, sites / "b.pem")
    with pytest.raises(Mistake, match="not the certificate of a site"):
        kit.roster(trial)


def test_what_is_no_member_is_refused(trial, tmp_path):
    foreign = coordinator.init(tmp_path / "foreign", "localhost", sites=("a",))
    pem, authority = kit.certificates(trial)["a"], trial.authority.read_bytes()
    for wrong, by in (
        (pem, foreign.authority.read_bytes()),
        (pem, pem),
        (trial.certificate.read_bytes(), authority),
        (authority, authority),
        (pem + pem, authority),
        (b"", authority),
        (pem, b""),
    ):
        with pytest.raises(Refused):
            kit.member(wrong, by)
    ca, key = kit.certificate(trial.authority), issued.read_key((trial.path / "ca-key.pem").read_bytes())
    for name in ("server", "Upper"):
        made = issued.issue(ca, key, name, issued.new_key(), Identity.new().public, NOW, 1)
        with pytest.raises(Refused, match="no name of a site"):
            kit.member(issued.pem(made), authority)
    with pytest.raises(Refused, match="anybody can sign"):
        kit.member(issued.pem(issued.issue(ca, key, "c", issued.new_key(), min(WEAK), NOW, 1)), authority)


def test_a_damaged_certificate_is_refused_and_nothing_else(trial):
    """Any bytes changed: never another exception, and never a member."""
    draw, authority = random.Random(5), trial.authority.read_bytes()
    der = kit.certificate(trial.path / "sites" / "a.pem").public_bytes(serialization.Encoding.DER)
    for _ in range(400):
        wrong = bytearray(der)
        for _ in range(draw.choice((1, 1, 3))):
            wrong[draw.randrange(len(wrong))] ^= draw.randrange(1, 256)
        with pytest.raises(Refused):
            kit.member(ssl.DER_cert_to_PEM_cert(bytes(wrong)).encode(), authority)


def handshake(server, client, host="localhost"):
    """What mutual TLS over loopback comes to: the site's common name as the server sees it, or the error."""
    inner = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inner.verify_mode = ssl.CERT_REQUIRED
    outer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context, own in ((inner, server), (outer, client)):
        context.load_verify_locations(own / "ca.pem")
        context.load_cert_chain(own / "cert.pem", own / "key.pem")
    seen = []

    def serve(listener):
        connection, _ = listener.accept()
        connection.settimeout(5)
        try:
            with inner.wrap_socket(connection, server_side=True) as secured:
                seen.append(dict(pair for (pair,) in secured.getpeercert()["subject"])["commonName"])
                secured.sendall(b"hello")
        except OSError as error:
            connection.close()
            seen.append(error)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), 5) as plain,
                outer.wrap_socket(plain, server_hostname=host) as secured,
            ):
                said = secured.recv(5)
        except OSError as error:
            said = error
        thread.join(10)
    return seen[0], said


def test_tls_between_the_server_and_its_sites(trial):
    for host in ("localhost", "127.0.0.1"):
        assert handshake(trial.path, trial.path.parent / "a", host) == ("a", b"hello")
    _, said = handshake(trial.path, trial.path.parent / "a", "fl.example.org")
    assert isinstance(said, ssl.SSLCertVerificationError)


def test_tls_after_a_request(tmp_path):
    real = coordinator.init(tmp_path / "real", "127.0.0.1")
    _, grant = admitted(real, tmp_path / "mine")
    enrolment.accept(tmp_path / "mine", grant)
    assert handshake(real.path, tmp_path / "mine", "127.0.0.1") == ("mine", b"hello")


def test_tls_refuses_a_site_of_another_authority(trial, tmp_path):
    foreign = coordinator.init(tmp_path / "foreign", "localhost", sites=("a",))
    shutil.copy(trial.authority, foreign.path.parent / "a" / "ca.pem")  # it trusts our server, which must refuse it
    seen, said = handshake(trial.path, foreign.path.parent / "a")
    assert isinstance(seen, ssl.SSLCertVerificationError)
    assert isinstance(said, OSError) or said == b""


def test_tls_refuses_an_expired_site(trial):
    place = trial.path.parent / "a"
    coordinator.renew(trial, "a", 1, start=NOW - timedelta(days=2))
    shutil.copy(trial.path / "sites" / "a.pem", place / "cert.pem")
    seen, _ = handshake(trial.path, place)
    assert isinstance(seen, ssl.SSLCertVerificationError)
    assert "expired" in str(seen)


def test_tls_refuses_a_site_in_the_place_of_the_server(trial):
    """A site's certificate has neither the host's name nor the purpose; without the name the purpose decides."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert context.check_hostname
    _, said = handshake(trial.path.parent / "b", trial.path.parent / "a")
    assert isinstance(said, ssl.SSLCertVerificationError)
    assert "purpose" in str(said)


def test_nothing_heavy_is_imported():
    code = "import sys, hush.federation.coordinator, hush.cli.federation; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
