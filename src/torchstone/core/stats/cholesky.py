"""The Cholesky factor of a small positive definite matrix, and what is solved with it, in plain Python.

For the some dozens of readings of a search: a library for matrices would take longer to import than all of this to run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

Vector = Sequence[float]
Matrix = Sequence[Vector]


def factor(matrix: Matrix) -> list[list[float]]:
    """Return lower triangular rows L (row i has i + 1 entries) with L Lᵀ = matrix; only its lower half is read.

    Raises ValueError if the matrix is not positive definite (Golub & Van Loan, Matrix Computations, §4.2).
    """
    rows: list[list[float]] = []
    for i, given in enumerate(matrix):
        row: list[float] = []
        for j in range(i):
            above = rows[j]
            row.append((given[j] - sum(map(mul, row, above))) / above[j])
        rest = given[i] - sum(map(mul, row, row))
        if not rest > 0.0:
            raise ValueError(f"the matrix is not positive definite: pivot {i} is {rest:g}")
        row.append(math.sqrt(rest))
        rows.append(row)
    return rows


def forward(lower: Matrix, right: Vector) -> list[float]:
    """Return x with L x = right."""
    x: list[float] = []
    for row, value in zip(lower, right, strict=True):
        x.append((value - sum(map(mul, row, x))) / row[-1])
    return x


def solve(lower: Matrix, right: Vector) -> list[float]:
    """Return x with L Lᵀ x = right."""
    x = forward(lower, right)
    for i in reversed(range(len(x))):
        row = lower[i]
        x[i] /= row[i]
        for j in range(i):
            x[j] -= row[j] * x[i]
    return x


def log_determinant(lower: Matrix) -> float:
    """Return the logarithm of the determinant of L Lᵀ."""
    return 2.0 * sum(math.log(row[-1]) for row in lower)
