"""What is on file of the catalogue is what its parts say."""

import json

import pytest

from hush.catalogue.entries import ENTRIES
from hush.experiment import listing


def test_every_scheme_is_listed_in_the_catalogues_order():
    assert listing.names() == list(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_the_file_is_current(name):
    """If not: `make tables`."""
    assert json.loads(listing.PLACE.read_text())[name] == json.loads(json.dumps(listing.describe(name)))


def test_another_name_of_a_scheme():
    assert listing.about("fl-bas-1") == listing.about("fl-basic")
