"""FLFL for Flower. All it does is in the package ``flfl`` that each party has installed."""
