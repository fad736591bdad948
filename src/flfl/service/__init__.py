"""Real parties on real machines: what ``flfl coordinator``, ``site``, ``keys`` and ``status`` do.

``config`` reads what operators wrote, ``keys`` makes certificates and identities, ``agreement`` is
what all parties of a run agree on, ``grid`` and ``sources`` bring an owner's readings onto the
common times, ``coordinator`` and ``site`` are the two services.
"""
