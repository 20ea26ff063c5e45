"""Hospital records: from tables of any kind, by a schema in TOML, to sparse features."""

from hush.data.records.building import Records, build, fingerprint, split
from hush.data.records.dealing import Dealt, deal
from hush.data.records.schema import Schema, read_schema
from hush.data.records.sieve import Rule

__all__ = ["Dealt", "Records", "Rule", "Schema", "build", "deal", "fingerprint", "read_schema", "split"]
