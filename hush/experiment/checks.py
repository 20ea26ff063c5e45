"""What a configuration is refused for before any data is loaded."""

from hush.catalogue import entries
from hush.catalogue.entries import Entry
from hush.catalogue.settings import OWN
from hush.errors import Mistake
from hush.experiment.settings import PYTHON, Config, SamplingTable, SecureTable


def check(config: Config, entry: Entry) -> None:
    """What can be refused without data, and what would be silently ignored."""
    scheme, data, cohort = config.scheme, config.data, config.sampling.cohort
    train, secure, usual = config.train, config.secure, entry.example
    remedy = entries.remedy(entry.name)
    nodes = data.clients or entry.usual.get("clients")
    records, pooled, source = entry.level == "record", entry.pooled, usual.source
    correlated, floating = source is not None and source.correlated, source is not None and source.floating
    refused = {
        "against says whom the noise of a budget is sized for: give --epsilon with it": (
            scheme.against is not None and scheme.epsilon is None
        ),
        f"{entry.name} has the same noise against all: leave against out": (
            scheme.against not in (None, "model") and (records or usual.source is None or not usual.source.shared)
        ),
        "against='colluding' is for a secure sum, which colluding clients could help to read: add --secure": (
            scheme.against == "colluding" and secure.mode is None
        ),
        f"{entry.name} has no noise to set: {remedy}": (
            not entry.has("noise") and (scheme.epsilon is not None or scheme.noise is not None)
        ),
        f"{entry.name} has no clip to set: {remedy}": (
            not entry.has("clip") and (scheme.clip is not None or scheme.quantile is not None)
        ),
        f"{entry.name} needs its privacy: give --epsilon E --delta D, or --noise SIGMA": (
            entry.private and entry.has("noise") and scheme.epsilon is None and scheme.noise is None
        ),
        f"{entry.name} has no Top-K to vote on: leave select out": (
            scheme.select == "vote" and not usual.coordinates.probes
        ),
        f"select='vote' is a noisy vote and {entry.name} has no guarantee: {remedy}": (
            scheme.select == "vote" and not entry.private
        ),
        "quantile belongs to clip='adaptive': leave one of them out": (
            scheme.quantile is not None and scheme.clip not in (None, "adaptive")
        ),
        f"{entry.name} clips records at a fixed bound: give clip as a number, or 'paper'": (
            records and scheme.clip in ("public", "adaptive")
        ),
        "steps and epochs are both given: give one of them": train.steps is not None and train.epochs is not None,
        "ridge is one solve in place of steps, and both are given: give one of them": (
            train.ridge is not None and (train.steps is not None or train.epochs is not None)
        ),
        f"{entry.name} takes as many steps at every client: give steps, not epochs": (
            records and train.epochs is not None
        ),
        f"{entry.name} draws batches of a public size: give batch as a number": records and train.batch == "all",
        "balance='rates' belongs to schemes that protect records: take 'weights' or 'downsample'": (
            not records and train.balance == "rates"
        ),
        "share is for a balance of weights, or for records: leave it out": (
            not records and train.balance == "downsample" and train.share is not None
        ),
        f"{entry.name} runs on the CPU: leave device out": records and config.run.device != "cpu",
        "batches belongs to schemes that protect records: leave it out": not records and train.batches is not None,
        "divisor belongs to schemes that protect records: leave it out": not records and train.divisor is not None,
        **{
            f"{entry.name} has no {key} to set: leave it out": (
                getattr(scheme, key) is not None and not entry.has(key) and not (key == "bits" and secure.mode)
            )
            for key in OWN
            if key != "ratio"  # which one gives to many schemes at once, to compare them
        },
        **{
            f"{entry.name} has no {key} to set: leave train.{key} out": (
                getattr(train, key) is not None and not entry.has(key)
            )
            for key in ("rate", "steps", "epochs", "batch")
        },
        f"{entry.name} trains without balance={train.balance!r}: leave it out": (
            train.balance in (("downsample", "rates", "weights") if records else ("downsample",))
            and not entry.has("balance")
        ),
        f"{entry.name} draws its cohorts itself, by {usual.sampling.kind} sampling: leave sampling out": (
            not entry.has("sampling")
            and not pooled
            and config.sampling not in (SamplingTable(), SamplingTable(kind=usual.sampling.kind))
        ),
        f"sampling={config.sampling.kind} has no turns, and {entry.name} counts on them: leave it out, or take hush": (
            correlated and config.sampling.kind not in (None, "once")
        ),
        f"{entry.name} takes noise back, which needs a bound that stays: give clip as a number": (
            correlated and scheme.clip == "adaptive"
        ),
        f"{entry.name} protects records, and turns are for clients: take sampling fixed or poisson": (
            records and config.sampling.kind == "once"
        ),
        f"{entry.name} sends nothing: leave secure out": secure.mode is not None and usual.baseline,
        f"{entry.name} takes votes and not sums: leave secure out": (
            secure.mode is not None and usual.aggregator.precision is not None
        ),
        "servers, corrupt, rounding and noise of [secure] belong to a secure sum: add --secure": (
            secure.mode is None and secure != SecureTable()
        ),
        f"{entry.name} has no noise that clients add as integers: leave noise out of [secure]": (
            secure.noise is not None and not (floating and source is not None and source.shared)
        ),
        f"{entry.name} has no noise that rounding could add to: leave rounding out": (
            secure.rounding is not None and not floating
        ),
        "rounding and bits are both given: give one, the other follows from it": (
            secure.rounding is not None and scheme.bits is not None and not entry.has("bits")
        ),
        "select='vote' has no secure sum: take select='public', or leave secure out": (
            secure.mode is not None and scheme.select == "vote"
        ),
        f"{entry.name} trains on features: leave model out": (
            entry.featured and config.model.name not in (None, "head")
        ),
        f"{entry.name} has a bound of its own: give clip as a number, or 'adaptive'": (
            entry.featured and scheme.clip in ("paper", "public")
        ),
        f"{entry.name} trains on the data itself: leave features and scattering_order out": (
            not entry.featured and (scheme.features is not None or scheme.scattering_order is not None)
        ),
        f"features={scheme.features!r} must be how many there are, or file.py:function": (
            isinstance(scheme.features, str) and scheme.features != PYTHON and ".py:" not in scheme.features
        ),
        f"features={scheme.features} are your own, without scattering: leave scattering_order out": (
            isinstance(scheme.features, str) and scheme.scattering_order is not None
        ),
        "passes belongs to sampling once: add it": (
            config.sampling.passes is not None and (config.sampling.kind or usual.sampling.kind) != "once"
        ),
        f"{entry.name} draws nobody, each client trains in every round: leave cohort and sampling out": (
            usual.standalone and (cohort not in (None, nodes) or config.sampling.kind not in (None, "fixed"))
        ),
        f"{entry.name} has all data in one place: leave partition, clients and sampling out": (
            pooled
            and (
                data.partition not in (None, "pooled")
                or data.clients not in (None, 1)
                or cohort not in (None, 1)
                or config.sampling.kind not in (None, "fixed")
            )
        ),
        f"partition='pooled' is for schemes with all data in one place, and {entry.name} has clients": (
            not pooled and data.partition == "pooled"
        ),
        "size belongs to partition='iid': leave it out": (
            data.size is not None and data.partition not in (None, "iid")
        ),
        "shards belongs to partition='shards': add it": data.shards is not None and data.partition != "shards",
        "alpha belongs to partition='dirichlet': add it": (data.alpha is not None and data.partition != "dirichlet"),
        "column belongs to partition='column': add it": data.column is not None and data.partition != "column",
    }
    if scheme.epsilon is not None and scheme.delta is None:
        raise Mistake(
            f"epsilon={scheme.epsilon:g} needs a delta: add --delta 1e-5, less than one over the"
            f" {'records' if records else 'clients'}"
        )
    for sentence, wrong in refused.items():
        if wrong:
            raise Mistake(sentence)
    if cohort is not None and data.clients is not None and cohort > data.clients:
        raise Mistake(f"cohort={cohort} is larger than the population of {data.clients}: lower it")
