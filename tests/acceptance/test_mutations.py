"""The lines that mutate.py takes away stand where it looks for them."""

import pytest
from acceptance.feature_rows import row_of
from acceptance.mutate import Mutation, mutated, mutations


@pytest.mark.parametrize("one", mutations(), ids=lambda one: one.id)
def test_a_mutation_has_its_lines_and_the_tests_of_its_row(one: Mutation):
    assert mutated(one) != ""
    assert row_of(one.id).tests


def test_sixty_and_more_features_are_taken_away():
    assert len({one.id for one in mutations()}) >= 60
