"""Sites on separate machines, over a broker that they already run.

``packets`` cuts messages to what a broker takes, ``topics`` says who writes where, ``link`` keeps
one party connected. They know nothing of the maths, nor of what is secret: the same state machines
as in-process give and take the same bytes.
"""
