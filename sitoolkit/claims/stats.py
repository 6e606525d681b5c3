"""How sure a share of small numbers is: counts come in, bounds and chances go out."""

from __future__ import annotations

import math

__all__ = ["unseen_value_chance", "wilson_lower", "wilson_upper"]

_Z = 1.959963984540054  # two-sided 95 %


def wilson_lower(k: int, n: int, z: float = _Z) -> float:
    """Lower end of Wilson's score interval for a share of `k` in `n` (E. B. Wilson, 1927).

    >>> round(wilson_lower(6, 6), 2), round(wilson_lower(60, 60), 2)
    (0.61, 0.94)

    Args:
        k: how often it held, 0 <= k <= n.
        n: out of how many; 0 gives 0.0.
        z: normal quantile; 1.96 is 95 % two-sided.
    """
    return _wilson(k, n, z, -1.0)


def wilson_upper(k: int, n: int, z: float = _Z) -> float:
    """Upper end of the same interval; 1.0 where `n` is 0."""
    return _wilson(k, n, z, 1.0) if n else 1.0


def _wilson(k: int, n: int, z: float, side: float) -> float:
    if n <= 0:
        return 0.0
    share = k / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return min(1.0, max(0.0, (centre + side * half) / (1 + z * z / n)))


def unseen_value_chance(distinct: int, n: int) -> float:
    """Chance that `n` draws show only `distinct` values although one more, equally likely value exists.

    >>> round(unseen_value_chance(3, 16), 2)
    0.04

    The union bound over which value stays unseen: (d + 1) (d / (d + 1))^n.
    """
    return min(1.0, (distinct + 1) * (distinct / (distinct + 1)) ** n)
