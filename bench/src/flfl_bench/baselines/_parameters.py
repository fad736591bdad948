"""What a method's parameters may be, in scikit-learn's words."""

from __future__ import annotations

from numbers import Integral, Real

from sklearn.utils._param_validation import Interval

COUNT = Interval(Integral, 1, None, closed="left")
WHOLE = Interval(Integral, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
