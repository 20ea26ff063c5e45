"""Ledger, accountants, calibration, the adversaries' views and the privacy card. May import data, random, errors."""
