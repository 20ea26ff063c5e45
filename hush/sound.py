"""What a scheme is refused for, before any data is touched: what cannot run or would break a guarantee."""

from typing import TYPE_CHECKING

from hush.aggregators import BitVote, SecureSum, Sum
from hush.coordinates import All
from hush.downlink import Exact
from hush.errors import Mistake
from hush.packing import FLOATS, Integers
from hush.sampling import Once
from hush.stages import Coins, CorrelatedNoise, IntegerNoise, Sense, ServerNoise, TopFeedback, TwoBit, Weigh
from hush.steps import Momentum, Stay
from hush.task import Task
from hush.trainers import Dpsgd

if TYPE_CHECKING:
    from hush.scheme import Scheme

MEMORY = 8e9  # bytes that the rows of all clients together may take in a simulation


def check(scheme: "Scheme", task: Task) -> None:
    """Refuse, before any data is touched, what cannot run or would break a guarantee."""
    scheme.coordinates.check(task)
    spec = scheme.specs(scheme.coordinates.count(task.layout))[-1]
    if (spec.noise is None) != (scheme.source is None):
        raise Mistake("a stage states noise and not what it is worth, or the reverse: give it both, see Source")
    if scheme.level == "client" and isinstance(scheme.trainer, Dpsgd):
        raise Mistake("Dpsgd protects records and Noise protects clients: one ledger holds one of them; leave one out")
    if scheme.level == "record" and any(isinstance(stage, Weigh) for stage in scheme.stages):
        raise Mistake("Weigh() under Dpsgd tells each client's number of records: leave it out")
    if not scheme.private and scheme.coordinates.election(task.layout) is not None:
        raise Mistake("a noisy vote does not protect updates without noise: add Clip and Noise, or take TopK")
    if isinstance(scheme.sampling, Once) and scheme.level == "record":
        raise Mistake("Once(...) is for schemes that protect clients: take Fixed(size) with Dpsgd")
    if isinstance(scheme.sampling, Once) and scheme.coordinates.election(task.layout) is not None:
        raise Mistake("a vote on the coordinates would be one turn more for each client: take TopK with Once(...)")
    if isinstance(scheme.trainer, Dpsgd):
        scheme.trainer.check(task)
    _memory(scheme, task)
    _pairs(scheme, task)
    whole = isinstance(scheme.coordinates, All) and (spec.form, spec.size) == (FLOATS, task.layout.parameters)
    whole = whole and scheme.down == Exact()
    if task.layout.buffers and (scheme.private or not whole):
        reason = (
            "its batch statistics leave the clients without noise"
            if scheme.private
            else "its batch statistics do not travel with a part of the weights, with their signs, or rounded"
        )
        raise Mistake(
            f"the model has buffers that training changes ({task.layout.buffers[0]}): {reason};"
            " replace BatchNorm by GroupNorm, or set track_running_stats=False"
        )
    expected, least = scheme.sampling.cohort(task.clients), spec.least
    if expected < least:
        raise Mistake(
            f"cohort={expected:g} cannot fill the {least} places of two-bit with p={least + 1}: take a cohort of"
            f" at least {least}, or a smaller p"
        )
    if expected > task.clients:
        raise Mistake(f"cohort={expected:g} is larger than the population of {task.clients}: lower it")


def _pairs(scheme: "Scheme", task: Task) -> None:
    """Parts of which one is nothing without the other."""
    places = [stage.places for stage in scheme.stages if isinstance(stage, TwoBit)]
    if places != ([scheme.aggregator.places] if isinstance(scheme.aggregator, BitVote) else []):
        raise Mistake("TwoBit(p) and BitVote(p) belong together: give both, with the same p")
    specs = scheme.specs(scheme.coordinates.count(task.layout))
    for stage, before in zip(scheme.stages, specs, strict=False):
        if isinstance(before.form, Integers) and not isinstance(stage, IntegerNoise | ServerNoise | CorrelatedNoise):
            raise Mistake(f"{type(stage).__name__} cannot keep to whole numbers: put it before they are made")
        if isinstance(stage, CorrelatedNoise):
            _turns(scheme, stage)
        if isinstance(stage, Coins):
            stage.check(before, scheme.sampling.cohort(task.clients))
    if isinstance(scheme.aggregator, SecureSum):
        scheme.aggregator.check(specs[-1].form, scheme.sampling.tolerance, scheme.sampling.floor)
        expected = scheme.sampling.cohort(task.clients)
        if expected < scheme.sampling.floor:
            raise Mistake(
                f"cohort={expected:g} is below the {scheme.sampling.floor} clients that a secure sum needs: take"
                " larger cohorts"
            )
        if scheme.coordinates.election(task.layout) is not None:
            raise Mistake("a vote on the coordinates is not held in whole numbers: take TopK with a public batch")
    senses = [stage for stage in scheme.stages if isinstance(stage, Sense)]
    sense = scheme.step.sense if isinstance(scheme.step, Momentum) else None
    if senses != ([] if sense is None else [sense]):
        raise Mistake("Sense(...) and Momentum(..., sense=...) belong together: give the very same Sense to both")
    if isinstance(scheme.step, Momentum) and not scheme.coordinates.fixed:
        raise Mistake("Momentum keeps a number for each weight, and coordinates are drawn each round: fix them")
    if not 0 <= scheme.average < 1:
        raise Mistake(f"average={scheme.average} must be in [0, 1): what the released model keeps of the one before")
    if scheme.alone and scheme.average:
        raise Mistake("each client trains alone and has a model of its own: leave average out")
    if scheme.apart and scheme.down != Exact():
        raise Mistake("nothing travels down in this scheme: leave down out")
    silent = scheme.apart and not scheme.stages and isinstance(scheme.coordinates, All) and scheme.aggregator == Sum()
    if scheme.alone != isinstance(scheme.step, Stay) or (scheme.alone and not silent):
        raise Mistake(
            "alone=True is for clients that send nothing: it goes with apart=True and Stay(), all weights, no"
            " stages, and the plain sum"
        )


def _turns(scheme: "Scheme", noise: CorrelatedNoise) -> None:
    """What CorrelatedNoise counts on: rounds of a client that are a pass apart, and the same numbers each time."""
    turns = (scheme.sampling.rounds, scheme.sampling.passes) if isinstance(scheme.sampling, Once) else None
    if turns != (noise.rounds, noise.passes):
        raise Mistake(
            f"CorrelatedNoise(rounds={noise.rounds}, passes={noise.passes}) needs clients that keep to their turns:"
            f" give sampling=Once(cohorts={noise.rounds // noise.passes}, passes={noise.passes})"
        )
    if not scheme.coordinates.fixed:
        raise Mistake("CorrelatedNoise takes back earlier noise, and coordinates are drawn each round: fix them")


def _memory(scheme: "Scheme", task: Task) -> None:
    """What clients keep between rounds must still fit the next one, and a simulation."""
    feeds = any(isinstance(stage, TopFeedback) for stage in scheme.stages)
    if feeds and not scheme.coordinates.fixed:
        raise Mistake("TopFeedback keeps what it did not send, and coordinates are drawn each round: fix them")
    if feeds and isinstance(scheme.trainer, Dpsgd):
        raise Mistake("TopFeedback carries one round's noise into another, uncounted by Dpsgd: leave it out")
    needed = 4 * scheme.coordinates.count(task.layout) * task.clients
    if (feeds or scheme.alone) and needed > MEMORY:
        raise Mistake(
            f"{task.clients} clients that each keep a row would need {needed / 1e9:.0f} GB: take fewer clients, or"
            " a smaller model"
        )
