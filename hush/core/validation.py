"""What a scheme is refused for, before any data is touched: what cannot run or would break a guarantee.

Every part checks what stands beside it; what concerns all of them is here.
"""

from typing import Protocol

from hush.core.packing import FLOATS
from hush.core.protocols import Aggregator, Coordinates, Downlink, Parts, Source, Stage, Step, named
from hush.core.spec import Spec
from hush.core.task import Registered
from hush.errors import Mistake

MEMORY = 8e9  # bytes that the rows of all clients together may take in a simulation


class Whole(Parts, Protocol):
    """All of a scheme."""

    @property
    def coordinates(self) -> Coordinates: ...
    @property
    def stages(self) -> tuple[Stage, ...]: ...
    @property
    def step(self) -> Step: ...
    @property
    def aggregator(self) -> Aggregator: ...
    @property
    def downlink(self) -> Downlink: ...
    @property
    def baseline(self) -> bool: ...
    @property
    def standalone(self) -> bool: ...
    @property
    def average(self) -> float: ...
    @property
    def featured(self) -> bool: ...
    @property
    def source(self) -> Source | None: ...
    def specs(self, size: int, clip: float | None = None) -> tuple[Spec, ...]: ...


def check(scheme: Whole, task: Registered) -> None:
    """Refuse, before any data is touched, what cannot run or would break a guarantee."""
    if scheme.featured and not task.problem.featured:
        raise Mistake(
            "this scheme trains a linear head on public features, and the task has a network on raw rows: take"
            " hush.fit((train, test), name, ...), which makes both, or say Task(featured=True) if its rows are features"
        )
    scheme.coordinates.check(scheme, task)
    specs = scheme.specs(scheme.coordinates.count(task.layout))
    _noise(scheme, specs[-1])
    scheme.sampling.check(scheme, task)
    scheme.trainer.check(scheme, task)
    for stage, before in zip(scheme.stages, specs, strict=False):
        if before.form.modulus is not None and not stage.keeps_integers:
            raise Mistake(f"{named(stage)} cannot keep to integers: put it before they are made")
        stage.check(scheme, task, before)
    _memory(scheme, task)
    if specs[-1].precision != scheme.aggregator.precision:
        raise Mistake("TwoBit(p) and BitVote(p) belong together: give both, with the same p")
    scheme.aggregator.check(scheme, task, specs[-1])
    _step(scheme, task)
    _buffers(scheme, task, specs[-1])
    _cohort(scheme, task, specs[-1])


def _noise(scheme: Whole, upload: Spec) -> None:
    """One noise, of which is known what it is worth."""
    source, trainer = scheme.source, scheme.trainer
    if (upload.noise is None) != (source is None):
        raise Mistake("a stage states noise and not what it is worth, or the reverse: give it both, see Source")
    if source is not None and trainer.level is not None:
        raise Mistake(
            f"{named(trainer)} protects records and {named(source)} protects clients: one ledger holds one of them;"
            " leave one out"
        )


def _memory(scheme: Whole, task: Registered) -> None:
    """What clients keep between rounds must fit a simulation."""
    needed = 4 * scheme.coordinates.count(task.layout) * task.clients
    if (scheme.standalone or any(stage.remembers for stage in scheme.stages)) and needed > MEMORY:
        raise Mistake(
            f"{task.clients} clients that each keep a row would need {needed / 1e9:.0f} GB: take fewer clients, or"
            " a smaller model"
        )


def _step(scheme: Whole, task: Registered) -> None:
    """What the server does with a mean, and what it releases."""
    sensed, found = [stage.recovery for stage in scheme.stages if stage.recovery is not None], scheme.step.recovery
    if sensed != ([] if found is None else [found]):
        raise Mistake("Sense(...) and Momentum(..., sense=...) belong together: give the very same Sense to both")
    scheme.step.check(scheme, task)
    if not 0 <= scheme.average < 1:
        raise Mistake(f"average={scheme.average} must be in [0, 1): what the released model keeps of the one before")
    if scheme.standalone and scheme.average:
        raise Mistake("each client trains alone and has a model of its own: leave average out")
    if scheme.baseline and not scheme.downlink.exact:
        raise Mistake("nothing travels down in this scheme: leave downlink_bits out")
    silent = scheme.baseline and not scheme.stages and scheme.coordinates.whole and scheme.aggregator.adds
    if scheme.standalone != scheme.step.stays or (scheme.standalone and not silent):
        raise Mistake(
            "standalone=True is for clients that send nothing: it goes with baseline=True and Stay(), all weights, no"
            " stages, and the plain sum"
        )
    if scheme.baseline and scheme.source is not None:
        raise Mistake(f"nothing travels in this scheme: {named(scheme.source)} would protect nobody, leave it out")


def _buffers(scheme: Whole, task: Registered, upload: Spec) -> None:
    """Batch statistics travel with all weights as they are, or not at all."""
    whole = scheme.coordinates.whole and (upload.form, upload.size) == (FLOATS, task.layout.parameters)
    whole = whole and scheme.downlink.exact
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


def _cohort(scheme: Whole, task: Registered, upload: Spec) -> None:
    """Enough clients, and no more than there are."""
    expected, least = scheme.sampling.cohort(task.clients), upload.least
    if expected < least:
        raise Mistake(
            f"cohort={expected:g} cannot fill the {least} places of two-bit with p={least + 1}: take a cohort of"
            f" at least {least}, or a smaller p"
        )
    if expected > task.clients:
        raise Mistake(f"cohort={expected:g} is larger than the population of {task.clients}: lower it")
