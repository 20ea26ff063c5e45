"""Sites as the channel of a server's rounds, and the line to its second server."""

from collections.abc import Callable
from dataclasses import dataclass

from hush.errors import Aborted
from hush.federation.channel import Messages
from hush.federation.sites import Sites


@dataclass(frozen=True)
class Network:
    """Sites as a channel: client k is the k-th of these names."""

    sites: Sites
    names: tuple[str, ...]
    charter: str

    def phase(self, name: str, messages: Messages, timeout: float | None) -> tuple[dict[int, bytes], dict[int, str]]:
        """The answers by client, and of clients that refused, why."""
        names, numbers = self.names, {site: number for number, site in enumerate(self.names)}
        asked = {names[client]: data for client, data in messages.items()}
        answers, refused = self.sites.ask(asked, self.charter, timeout)
        return (
            {numbers[site]: data for site, data in answers.items()},
            {numbers[site]: why for site, why in refused.items()},
        )


def line_to(sites: Sites, site: str, digest: str, timeout: float | None) -> Callable[[bytes], bytes]:
    """Questions to one site, which is needed; Aborted where it does not answer."""

    def ask(data: bytes) -> bytes:
        answers, refused = sites.ask({site: data}, digest, timeout)
        if site not in answers:
            raise Aborted(f"{site}: {refused.get(site, 'it did not answer in time')}")
        return answers[site]

    return ask
