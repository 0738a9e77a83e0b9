"""Factor and solutions against numpy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchstone.core.stats.cholesky import factor, forward, log_determinant, solve


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_is_what_numpy_says(size, seed, scale):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(size, size))
    matrix = scale * (half @ half.T + 0.1 * np.eye(size))
    right = rng.normal(size=size)
    lower = factor(matrix.tolist())
    dense = np.array([row + [0.0] * (size - len(row)) for row in lower])
    np.testing.assert_allclose(dense, np.linalg.cholesky(matrix), rtol=1e-6, atol=1e-9 * scale)
    np.testing.assert_allclose(solve(lower, right.tolist()), np.linalg.solve(matrix, right), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(dense @ forward(lower, right.tolist()), right, rtol=1e-6, atol=1e-9)
    assert log_determinant(lower) == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-6)


def test_reads_only_the_lower_half():
    assert factor([[4.0], [2.0, 5.0]]) == [[2.0], [1.0, 2.0]]


@pytest.mark.parametrize("matrix", [[[0.0]], [[1.0], [1.0, 1.0]], [[1.0], [2.0, 1.0]], [[float("nan")]]])
def test_refuses_what_is_not_positive_definite(matrix):
    with pytest.raises(ValueError, match="not positive definite"):
        factor(matrix)
