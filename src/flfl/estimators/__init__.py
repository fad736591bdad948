"""The scikit-learn face: estimators that fill a time x sensor table."""
