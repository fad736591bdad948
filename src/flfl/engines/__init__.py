"""Who carries the messages: same protocol, same bits.

``inprocess`` has all parties in one process. Between machines each party has a link (``link``);
``conduct`` and ``attend`` are the coordinator's and a site's part of a run, whoever carries it.
"""
