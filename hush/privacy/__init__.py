"""The ledger, the accountants, calibration, the adversaries' views and the privacy card."""

from hush.privacy.accountants import ACCOUNTANTS, Release, epsilon, gaussian_epsilon
from hush.privacy.calibration import noise_for, spent
from hush.privacy.card import Facts, card, render
from hush.privacy.events import LEVELS, SAMPLINGS, Cohorts, Event, Level, Sampling, relation, releases, repeated
from hush.privacy.ledger import Ledger
from hush.privacy.views import Participation, model_epsilon, paper_epsilon, stated, unnoticed_epsilon, views

__all__ = [
    "ACCOUNTANTS",
    "LEVELS",
    "SAMPLINGS",
    "Cohorts",
    "Event",
    "Facts",
    "Ledger",
    "Level",
    "Participation",
    "Release",
    "Sampling",
    "card",
    "epsilon",
    "gaussian_epsilon",
    "model_epsilon",
    "noise_for",
    "paper_epsilon",
    "relation",
    "releases",
    "render",
    "repeated",
    "spent",
    "stated",
    "unnoticed_epsilon",
    "views",
]
