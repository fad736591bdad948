"""Words and numbers that stand for a reading that is not there."""

from __future__ import annotations

# What pandas reads as missing, in lower case.
MISSING_MARKS = (
    "", "nan", "-nan", "na", "n/a", "<na>", "#n/a", "#na", "null", "none", "nil",
    "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
)  # fmt: skip
