"""Ctrl-C and SIGTERM stop a party once: what comes again meanwhile does not disturb its goodbye."""

import signal
from types import FrameType


def stop_once() -> None:
    """From here on the first of either raises KeyboardInterrupt, and later ones are ignored."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
