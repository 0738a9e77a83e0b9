"""The lines that mutate.py takes away stand where it looks for them."""

from acceptance.mutate import Mutation, caught_by, mutated, mutations
from over import over


@over("one", mutations(), lambda one: str(one.id))
def test_a_mutation_has_its_lines_and_the_tests_of_its_row(one: Mutation):
    assert mutated(one) != ""
    assert caught_by(one.id)


def test_sixty_and_more_features_are_taken_away():
    assert len({one.id for one in mutations() if one.id.startswith("S")}) >= 60
