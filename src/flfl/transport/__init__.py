"""Who carries the messages: one process (``local``), an MQTT broker (``mqtt``) or Flower.

They know nothing of the maths, nor of what is secret: the same state machines give and take the
same bytes. ``dispatcher`` and ``responder`` are the two sides of a run between machines.
"""
