"""Attacks on the data behind a run: what one upload shows, and whether somebody was in the training."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from hush.audit.analytic import Analytic, readable
from hush.audit.chunks import Say
from hush.audit.curves import Curve
from hush.audit.dealing import Deal
from hush.audit.inversion import Attack, Inversion, invert, picture
from hush.audit.matching import Matching
from hush.audit.membership import Membership, Unit, membership
from hush.audit.properties import Inference, repeated
from hush.core.task import Task
from hush.data import files
from hush.errors import Mistake
from hush.experiment.fronts import Plain
from hush.experiment.report import page
from hush.experiment.resolving import Experiment

PICTURE = "inversion.png"
CROWD = 10  # clients of a sum in which a property is looked for
MOST = 400  # clients that the attacker has, and as many that it attacks


def simulated(experiment: Experiment) -> Task:
    """The task of a run whose rows are all here."""
    if not isinstance(experiment.task, Task):
        raise Mistake("the rows of this run are elsewhere, at its sites: attack a simulation of it")
    return experiment.task


def inversion(experiment: Experiment, client: int) -> Inversion:
    """A client's rows from its first upload: read off a linear first layer, or matched where there is none."""
    task, train = simulated(experiment), experiment.config.train
    if experiment.scheme.featured and not isinstance(experiment.front, Plain):
        raise Mistake(
            "this run trains on public features of the rows, and no attack here goes back from features to rows: attack"
            " a run of a network on the same data, say of fl-top-dp, or take hush audit property or membership"
        )
    attack: Attack = Analytic()
    if not readable(task.layout, task.train.inputs[:1].numel()):
        if not train.rate or not train.steps:
            raise Mistake(
                "the first layer is not linear with a bias, so that rows are found by steps of gradient descent as the"
                " clients', and this run has none: attack one with [train] rate and steps"
            )
        attack = Matching(train.rate, train.steps)
    return invert(experiment.scheme, task, client, attack, seed=experiment.config.run.seed)


def keep(found: Inversion, run: Path) -> None:
    """The picture in the run's directory, and on its page."""
    files.write(run / PICTURE, picture(found))
    if (run / "report.html").exists():
        page.write(run)


def property_of_label(
    experiment: Experiment, label: int, repetitions: int, say: Say | None = None
) -> tuple[Inference, ...]:
    """Whether a client holds a row of this class: from its upload, or from the sum where that is secure."""
    task = simulated(experiment)
    size = max(2, round(float(task.sizes.double().median())))
    trait = (task.train.targets == label).numpy()
    if not trait.any():
        raise Mistake(f"no row has the label {label}: choose another")
    # Half of the rows are the attacker's; of those with the trait each client that holds the property needs one.
    clients = min(MOST, len(task.train) // (4 * size), int(trait.sum()) // 2)
    summed = experiment.scheme.secure
    deal = Deal(clients=max(4, clients // 2 * 2), size=size, present=1, others=2 * CROWD if summed else 0)
    return repeated(
        experiment.scheme,
        task.problem,
        task.train,
        np.asarray(trait),
        deal,
        repetitions=repetitions,
        view="sum" if summed else "upload",
        cohort=CROWD if summed else round(experiment.scheme.sampling.cohort(task.clients)),
        seed=experiment.config.run.seed,
        say=say,
    )


def membership_of(experiment: Experiment, shadows: int, unit: Unit, say: Say | None = None) -> Membership:
    """As many trainings as shadows, each on half of the records or clients."""
    wanted = experiment.config.run
    return membership(experiment.scheme, simulated(experiment), wanted.rounds, shadows, wanted.seed, unit=unit, say=say)


class Rates(NamedTuple):
    """True positives where so few non-members are taken for members."""

    auc: float
    at_one_in_thousand: float
    at_one_in_hundred: float

    @classmethod
    def of(cls, curve: Curve) -> "Rates":
        """Of a curve."""
        return cls(curve.auc, curve.at(0.001), curve.at(0.01))
