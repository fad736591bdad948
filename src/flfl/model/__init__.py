"""The maths: pure functions on arrays. No input or output, no state, no federation.

Rows are sensors and columns are slots, as in the paper; ``Y J P Q L D`` keep its meaning
(``docs/notation.md`` is the dictionary).
"""
