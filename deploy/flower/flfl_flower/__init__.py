"""FLFL for Flower. What the two apps call is the package ``flfl`` that each party has installed."""
