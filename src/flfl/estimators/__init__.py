"""The scikit-learn face: estimators that fill a time x sensor table."""

from flfl.estimators.base import BaseRecoverer
from flfl.estimators.flfl import FLFL
from flfl.estimators.paper import PaperFLFL

__all__ = ["FLFL", "BaseRecoverer", "PaperFLFL"]
