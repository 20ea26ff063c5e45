"""The server's side of a round of one phase: uploads as they come, combined in the order of the cohort."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from hush.core.spec import Asked, Total, Uploads

Combine = Callable[[Iterable[Uploads], Asked], Total]
Unpack = Callable[[int, bytes], Uploads]


@dataclass
class Single:
    """Each client of the cohort sends one upload. Floats are added in the cohort's order, whoever came first."""

    phase: ClassVar[str] = "upload"
    combine: Combine
    asked: Asked
    unpack: Unpack
    _got: dict[int, Uploads] = field(default_factory=dict)

    def take(self, client: int, data: bytes) -> None:
        """An upload; Refused where it is not exactly right."""
        self._got[client] = self.unpack(client, data)

    def advance(self) -> dict[int, bytes]:
        """There is no other phase."""
        return {}

    def total(self) -> Total:
        """Of all that was taken."""
        came = (self._got[client] for client in self.asked.cohort.tolist() if client in self._got)
        return self.combine(came, self.asked)
