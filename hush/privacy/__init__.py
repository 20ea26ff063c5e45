"""The ledger, the accountants, calibration, the adversaries' views and the privacy card. May import data and errors."""
