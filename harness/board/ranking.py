"""Who is better than whom: paired tests on common samples, Holm, ranks and tie groups.

    p = pairwise(matrix, clusters)          # (rows, rows) p values of paired t tests
    ranks, letters = rank(means, p)         # [1, 1, 3], ["a", "a", "b"]

A row's rank is one more than the number of rows that are better beyond doubt (Holm over all pairs
of the column, 5 %). Rows that share a letter are not told apart by the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..comparisons import holm, paired_from_sums

Array = np.ndarray[Any, Any]

ALPHA: Final = 0.05


def pairwise(matrix: Array, clusters: Array) -> Array:
    """p values of the paired t tests over clusters between all rows.

    :param matrix: (rows, samples), NaN where a row lacks a sample; a pair uses what both have.
    :param clusters: (samples,) the cluster of each sample, as whole numbers.
    :returns: (rows, rows), symmetric, 1 on the diagonal and for pairs without common clusters.
    """
    matrix = np.asarray(matrix, float)
    p: Array = np.ones((len(matrix), len(matrix)))
    if matrix.shape[1] == 0:
        return p
    _, clusters = np.unique(clusters, return_inverse=True)
    whole = ~np.isnan(matrix).any(1)
    places = np.flatnonzero(whole)
    p[np.ix_(places, places)] = _complete(matrix[whole], clusters)
    for i in np.flatnonzero(~whole):
        for j in range(len(matrix)):
            if i != j:
                p[i, j] = p[j, i] = _pair(matrix[i] - matrix[j], clusters)
    return p


def _pair(differences: Array, clusters: Array) -> float:
    keep = ~np.isnan(differences)
    if not keep.any():
        return 1.0
    sizes = np.bincount(clusters[keep])
    sums = np.bincount(clusters[keep], weights=differences[keep])
    return paired_from_sums(sums[sizes > 0], sizes[sizes > 0].astype(float)).p


def _complete(matrix: Array, clusters: Array) -> Array:
    """The same for rows without gaps, all pairs at once from the products of residuals."""
    rows, n = matrix.shape
    sizes = np.bincount(clusters).astype(float)
    count = len(sizes)
    p: Array = np.ones((rows, rows))
    if rows < 2 or count < 2:
        return p
    means = matrix.mean(1)
    sums = np.stack([np.bincount(clusters, weights=row, minlength=count) for row in matrix])
    residuals = sums - means[:, None] * sizes
    products = residuals @ residuals.T
    own = np.diag(products)
    squares = np.maximum(own[:, None] + own[None, :] - 2 * products, 0.0)
    squares[squares < 1e-12 * np.maximum(own[:, None], own[None, :])] = 0.0
    error = np.sqrt(squares * count / (count - 1)) / n
    difference = means[:, None] - means[None, :]
    sure = error > 0
    t = np.divide(difference, error, out=np.zeros_like(error), where=sure)
    p[sure] = two_sided_all(t[sure], count - 1)
    p[~sure & (np.abs(difference) > 1e-12)] = 2.0 ** max(1 - count, -1000)
    return p


def two_sided_all(t: Array, df: float) -> Array:
    """P(|T| > |t|) for many t of the same degrees of freedom (relative error below 1e-6).

    The incomplete beta function by its continued fraction (Abramowitz and Stegun 26.5.8, Lentz),
    for all at once; equal t are computed once.
    """
    import math

    unique, back = np.unique(np.abs(np.asarray(t, float)), return_inverse=True)
    x = df / (df + unique * unique)
    a, b = df / 2, 0.5
    turned = x > (a + 1) / (a + b + 2)
    left = np.where(turned, b, a)
    right = np.where(turned, a, b)
    y = np.where(turned, 1 - x, x)
    with np.errstate(divide="ignore"):
        log_front = (
            math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
            + left * np.log(y) + right * np.log1p(-y)
        )  # fmt: skip
    value = np.exp(log_front) * _fraction(y, left, right) / left
    found: Array = np.where(turned, 1 - value, value)[back]
    return found


def _fraction(x: Array, a: Array, b: Array) -> Array:
    c: Array = np.ones_like(x)
    d: Array = 1.0 / (1.0 - (a + b) * x / (a + 1))
    value: Array = d.copy()
    for m in range(1, 2000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            value *= c * d
        if np.all(np.abs(c * d - 1.0) < 1e-12):
            break
    return value


def adjust(p: Array) -> Array:
    """Holm's adjustment over all pairs of a symmetric matrix of p values."""
    upper = np.triu_indices(len(p), 1)
    adjusted: Array = np.ones_like(p)
    adjusted[upper] = holm(p[upper].tolist())
    both: Array = np.minimum(adjusted, adjusted.T)
    return both


def rank(means: Sequence[float], p: Array) -> tuple[list[int], list[str]]:
    """Ranks and letters of rows from their means and the adjusted p values.

    >>> p = np.array([[1, 0.5, 0.01], [0.5, 1, 0.02], [0.01, 0.02, 1]])
    >>> rank([0.9, 0.8, 0.3], p)
    ([1, 1, 3], ['a', 'a', 'b'])
    """
    order = np.argsort(-np.asarray(means), kind="stable")
    beaten = (p < ALPHA) & (np.asarray(means)[:, None] < np.asarray(means)[None, :])
    ranks = [1 + int(row.sum()) for row in beaten]
    apart = p[np.ix_(order, order)] < ALPHA
    sorted_letters = _letters(apart)
    letters = [""] * len(ranks)
    for place, text in zip(order, sorted_letters, strict=True):
        letters[place] = text
    return ranks, letters


def _letters(apart: Array) -> list[str]:
    """Letters such that two rows share one exactly if they are not apart.

    A letter is a set of rows of which no two are apart. Sets are grown greedily, in the order of
    the rows, around each pair that no set covers yet; where "not apart" is an interval of the
    order, as it mostly is, they are the fewest.
    """
    count = len(apart)
    everyone = (1 << count) - 1  # sets of rows as bits
    near = [everyone & ~sum(1 << int(j) for j in np.flatnonzero(row)) for row in apart]
    covered = [0] * count
    sets: set[int] = set()
    for i in range(count):
        while open_pairs := near[i] & ~covered[i]:
            grown = _grown(i, open_pairs & -open_pairs, near)
            sets.add(grown)
            for k in _members(grown):
                covered[k] |= grown
    letters = [""] * count
    for k, places in enumerate(sorted(map(_members, sets))):
        for i in places:
            letters[i] += _letter(k)
    return letters


def _grown(row: int, other: int, near: Sequence[int]) -> int:
    """The set around a row and another (as a bit), to which no row can be added."""
    grown = 1 << row | other
    left = near[row] & near[other.bit_length() - 1] & ~grown
    while left:
        lowest = left & -left
        grown |= lowest
        left &= near[lowest.bit_length() - 1] & ~lowest
    return grown


def _members(bits: int) -> list[int]:
    return [k for k in range(bits.bit_length()) if bits >> k & 1]


def _letter(k: int) -> str:
    """a, b, ..., z, a1, b1, ..."""
    return chr(97 + k % 26) + (str(k // 26) if k >= 26 else "")
