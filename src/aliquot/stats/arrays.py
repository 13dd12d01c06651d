"""The array types that every room speaks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Seed = int | np.random.Generator
"""Every function that draws takes one; the same seed gives the same result."""
