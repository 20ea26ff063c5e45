"""What a run of clients, one of records and one with a secure sum know of themselves."""

from dataclasses import replace

from hush.privacy.facts import Facts
from hush.privacy.sums import IntegerSum

FACTS = Facts(
    scheme="fl-top-dp",
    private=True,
    rounds=200,
    delta=1e-5,
    accountant="pld",
    sampling="fixed",
    population=6000,
    cohort=100,
    epsilon={
        "model": 3.0972,
        "server": 21.5,
        "server_median": 8.25,
        "upload": "none",
        "upload_median": "none",
    },
    participation_worst=12,
    participation_median=3.0,
    assumptions=("shares are sized for at least 80 clients of a cohort",),
    unnoised=("the public batch", "the test accuracy, on data that the server holds"),
    paper_epsilon=1.0006,
)

RECORDS = replace(
    FACTS,
    scheme="fl-sign-dp",
    level="record",
    rounds=300,
    population=314,
    cohort=3,
    batch=300 / 804,
    reach=2,
    epsilon={"model": 16.23, "server": 21.84, "server_median": 13.0, "upload": 21.84, "upload_median": 13.0},
    paper_epsilon=1.043,
    unnoticed_epsilon=3.772,
)

WHOLE = IntegerSum("skellam", 12, 267.868, 8317, 272.297, 1.54, 0.01654, 0.77337)
SUMMED = replace(FACTS, sampling="poisson", secure="simulated", corrupt=0.1, tolerance=0.2, integers=WHOLE)
