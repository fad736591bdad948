"""What workers are given in tests of the pool: functions that a new process can find."""

import os
import signal
import threading
from pathlib import Path

from threadpoolctl import threadpool_info


def double(job):
    return {"double": 2 * job["number"], "pid": os.getpid()}


def sometimes(job):
    """Do what the job says: die, hang after a mark is made, answer, or answer and then die."""
    if job["do"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job["do"] == "hang":
        Path(job["mark"]).touch()
        threading.Event().wait()
    if job["do"] == "leave":
        threading.Timer(0.1, os._exit, [1]).start()
    return {"did": job["do"], "pid": os.getpid()}


def threads(job):
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))
    return {"threads": [pool["num_threads"] for pool in threadpool_info()]}
