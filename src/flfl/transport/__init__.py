"""Who carries the messages: same protocol, same bits.

``inprocess`` has all parties in one process. Between machines each party has a link (``link``);
``dispatcher`` and ``responder`` are the coordinator's and a site's part of a run on any link.
"""
