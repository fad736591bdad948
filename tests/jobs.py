"""What workers are given in tests of the pool: functions that a new process can find."""

import os
import signal
import time

from threadpoolctl import threadpool_info


def double(job):
    return {"double": 2 * job["number"], "pid": os.getpid()}


def sometimes(job):
    """Do what the job says: die, hang or answer."""
    if job["do"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job["do"] == "hang":
        time.sleep(600)
    return {"did": job["do"]}


def threads(job):
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))
    return {"threads": [pool["num_threads"] for pool in threadpool_info()]}
