"""A search for what must not be there: a site's arrays in the coordinator's reach, a site's
numbers in an upload."""

import gc
import struct
import types

import numpy as np


class Boundary:
    """Listens to a run (as an engine's tap) and searches the coordinator after every upload.

    Parameters
    ----------
    coordinator : whatever the coordinator side is
    private : called for the arrays that belong to the sites *now*
    secrets : numbers that must not stand in any upload, as floats or in fixed point
    """

    def __init__(self, coordinator, private, secrets):
        self.coordinator, self.private, self.secrets = coordinator, private, set(secrets)
        self.arrays_seen, self.leaks, self.uploads = 0, [], []

    def tap(self, direction, site, data):
        if direction != "up":
            return
        self.uploads.append(data)
        private = [array for array in self.private() if array.size]
        # Every latent number of the moment is a secret too; counts such as 1.0 are not.
        for array in private:
            if array.dtype == float and array.size < 100:
                self.secrets.update(v for v in array.ravel().tolist() if v != round(v))
        for thing in reachable(self.coordinator):
            if isinstance(thing, np.ndarray):
                self.arrays_seen += 1
                if any(np.shares_memory(thing, array) for array in private):
                    self.leaks.append((site, thing.shape))

    def check(self):
        assert self.arrays_seen, "the search must find the coordinator's own arrays"
        assert not self.leaks, f"the coordinator reaches a site's arrays: {self.leaks[:3]}"
        everything = b"".join(self.uploads)
        for secret in self.secrets:
            assert struct.pack("<d", secret) not in everything, secret
            fixed = round(secret * 2**30)
            # Small integers stand for many things; a secret has more digits than that.
            assert abs(fixed) < 2**20 or struct.pack("<q", fixed) not in everything, secret


def reachable(root):
    """Everything the garbage collector can reach: attributes, generator locals, closures."""
    seen, todo = {}, [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, types.FunctionType):
            # A function's globals lead to the whole program; what it closes over is its own.
            todo.extend(cell.cell_contents for cell in thing.__closure__ or ())
            todo.extend(thing.__defaults__ or ())
            continue
        if isinstance(thing, types.GeneratorType):
            if thing.gi_frame is not None:
                todo.extend(thing.gi_frame.f_locals.values())
            todo.append(thing.gi_yieldfrom)
            continue
        if isinstance(thing, types.FrameType | types.CodeType | types.BuiltinFunctionType):
            continue
        todo.extend(gc.get_referents(thing))
        if isinstance(thing, np.ndarray) and thing.base is not None:
            todo.append(thing.base)
    return list(seen.values())
