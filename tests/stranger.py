"""Another user of this machine, who may knock at a site's door and do nothing else."""

import multiprocessing
import os

from flfl.engines.door import knock
from flfl.engines.letters import question

# A process of its own: what the tests have loaded does not like to be forked.
_PROCESSES = multiprocessing.get_context("forkserver")
FILES = ("site0.csv", "site0.toml", "keys/site0.identity", "site0-state/lock")


def gets(home, door, group):
    """Which of the site's files somebody of that group can read, and who answers the door."""
    receiving, sending = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=_try, args=(home, door, group, sending))
    process.start()
    try:
        assert receiving.poll(30), "the other user never said a word"
        return receiving.recv()
    finally:
        process.join(10)


def _try(home, door, group, sending):
    os.setgroups([group])
    os.setgid(65534)
    os.setuid(65534)
    reply = knock(door, question("trial", []), 20)
    sending.send({name: _reads(home / name) for name in FILES} | {"site": reply.header["site"]})


def _reads(path):
    try:
        return path.open("rb").close() is None
    except PermissionError:
        return False
