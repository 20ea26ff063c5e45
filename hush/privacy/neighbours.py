"""Which two worlds an epsilon compares: the neighbour relation, as it is proven for each adversary."""

from hush.privacy.events import Cohorts, Level, relation


def neighbours(view: str, sampling: Cohorts, level: Level = "client", *, trusted: bool = False) -> str:
    """The world without one client, or one record, as `view` meets it; sampling is that of the clients.

    model   The client is never drawn. The sum of the others with the completed noise has the distribution of a round
            that did not draw it, whatever the size of the cohort: this is the pair of Poisson sampling's proof. Of a
            cohort of fixed size another client is drawn in its place.
    server  It knows who was drawn and who answered, so both worlds have the same cohort and the same dropouts. The
            client sends zeros, also in place of an adaptive clip's count, and its share of the noise: the noise is
            the same in both, and the sum moves by at most S. Of a cohort of fixed size it sends another client's update
            in place of its own, which moves it by 2 S.

    Where turns are public, readers of the models know the cohorts as the server does.
    trusted: the noise is the server's.
    """
    if level == "record":
        return "the client leaves the record's place in its batches empty"
    share = "" if trusted else " and its share of the noise"
    if view == "model" and sampling == "poisson":
        return "the client is never drawn"
    if view == "model" and sampling == "fixed":
        return "another client is drawn in its place"
    if sampling == "fixed":
        return "the client sends another client's update" + share
    return "the client sends zeros" + share


def sentence(views: list[str], sampling: Cohorts, batches: Cohorts, level: Level, trusted: bool) -> str:
    """The relation, and what it is for each of these views; views that share a world are named together."""
    worlds: dict[str, list[str]] = {}
    for view in views:
        worlds.setdefault(neighbours(view, sampling, level, trusted=trusted), []).append(view)
    worded = "; ".join(f"{', '.join(names)}: {world}" for world, names in worlds.items())
    return f"{relation(sampling if level == 'client' else batches, level)}. {worded}"
