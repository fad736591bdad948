"""Site and Coordinator: state machines that exchange encoded messages, and nothing else.

A federated algorithm is a *program*: the coordinator asks a question, every site answers from
its own data, and what comes back to the program is the sum of the answers. The programs do not
know who carries the messages (``engines/``), and an engine does not know the maths.
"""
