"""Why no connection comes about: one TLS handshake, for what it says of a certificate that is not taken."""

import socket
import ssl

from hush.federation.kit import Kit

SOON = 3.0  # seconds for each step of it
# What a server says of a certificate, by the words of OpenSSL.
_ALERTS = {
    "UNKNOWN_CA": "it is by another authority than the server's",
    "CERTIFICATE_EXPIRED": "it is not valid at the server's time",
    "CERTIFICATE_REVOKED": "it was revoked",
    "CERTIFICATE_REQUIRED": "the server sees none",
    "BAD_CERTIFICATE": "the server cannot read it",
    "UNSUPPORTED_CERTIFICATE": "it is not that of a site",
    "CERTIFICATE_UNKNOWN": "the server does not take it",
    "DECRYPT_ERROR": "its key is another",
}


def refused_by_tls(kit: Kit) -> str | None:
    """Which certificate is not taken, and why, in one sentence; None where nobody listens, or TLS is not the reason."""
    place = f"{kit.host}:{kit.port}"
    try:
        if _greeted(kit) or _greeted(kit):  # not twice, as it would be by a server that is stopped just now
            return None
        why = "it is by another authority, or not valid at the server's time"
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message or "it is not right"
        return f"what answers at {place} is not the server of this kit: its certificate is not taken ({why})"
    except ssl.SSLError as error:
        found = [why for alert, why in _ALERTS.items() if (error.reason or "").endswith(alert)]
        if not found:
            return None
        why = found[0]
    except OSError:
        return None
    return (
        f"the server at {place} does not let this site in, because of its certificate ({why}): check the kit and the"
        " clock, or ask the coordinator for a new certificate"
    )


def _greeted(kit: Kit) -> bool:
    """Whether the server says anything after the handshake; one that refuses a certificate may just hang up then."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.load_verify_locations(kit.authority)
    tls.load_cert_chain(kit.certificate, kit.key)
    tls.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((kit.host, kit.port), SOON) as raw,
        tls.wrap_socket(raw, server_hostname=kit.host) as line,
    ):
        return line.recv(1) != b""
