"""Gold answers reach the reward functions as a list, however often they were wrapped on the way through MaxText."""

import json

import pytest

from components.rewards import maxtext_rewards


@pytest.mark.parametrize(
    ("column", "golds"),
    [
        ("42", ["42"]),
        ('["42"]', ["42"]),
        ('["1/2", "0.5"]', ["1/2", "0.5"]),
        ("[1, 2]", ["[1, 2]"]),  # a mathematical list is one answer
        ('["a", 1]', ['["a", 1]']),
        ('["broken', ['["broken']),
        ("", []),
    ],
)
def test_golds(column, golds):
    assert maxtext_rewards._golds(json.dumps([column, column])) == golds
