"""The maths: pure functions on arrays. No input or output, no state, no federation.

Rows are sensors and columns are slots, as in the paper; ``Y J P Q L D`` keep its meaning
(``docs/notation.md`` is the dictionary).
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Words = NDArray[np.uint64]
