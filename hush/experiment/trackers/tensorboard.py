"""TensorBoard: event files in a folder of the run's own below DIR."""

from pathlib import Path

from hush.experiment.trackers.feed import Lost

FLUSH = 5  # seconds until what was put can be seen


class Board:
    """A folder with event files."""

    def __init__(self, folder: Path, last: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.name, self.last = str(folder), last
        try:
            self.writer = SummaryWriter(str(folder), flush_secs=FLUSH)
        except OSError as error:
            raise Lost(error.strerror) from None

    def begin(self, chosen: dict[str, str]) -> None:
        """The settings as a table, on the page of texts."""
        lines = ["| setting | value |", "|---|---|", *(f"| {key} | {value} |" for key, value in chosen.items())]
        self.writer.add_text("settings", "\n".join(lines))

    def put(self, number: int, found: dict[str, float]) -> None:
        """A point on each curve."""
        try:
            for name, value in found.items():
                self.writer.add_scalar(name, value, number)
        except OSError as error:
            raise Lost(error.strerror) from None

    def close(self) -> None:
        """All on disk."""
        try:
            self.writer.close()
        except OSError as error:
            raise Lost(error.strerror) from None


def opened(place: str, run: str, known: str | None) -> Board:
    """The folder that the run had, or a new one: curves of two runs never share a folder."""
    if known is not None:
        return Board(Path(known), _last(Path(known)))
    names = (run if number == 1 else f"{run}-{number}" for number in range(1, 10**6))
    return Board(next(path for name in names if not (path := Path(place).absolute() / name).exists()), 0)


def _last(folder: Path) -> int:
    """The last round of which anything is on disk."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    if not folder.is_dir():
        return 0
    events = EventAccumulator(str(folder)).Reload()
    return max((events.Scalars(tag)[-1].step for tag in events.Tags()["scalars"]), default=0)
