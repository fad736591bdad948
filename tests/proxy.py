"""A small TCP proxy that cuts, stalls and delays what goes through it."""

import contextlib
import socket
import threading
import time


class Proxy:
    """Stands between a party and the broker.

    ``cut_after`` bytes in a direction ("up" is to the broker) all connections are cut, in the
    middle of whatever is being said, and new ones refused for ``seconds``; ``stall`` keeps them
    open but carries nothing; ``delay`` holds every piece back.
    """

    def __init__(self, target):
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.delay = 0.0
        self._until_cut = {"up": None, "down": None}
        self._dark_until = self._still_until = 0.0
        self._seconds, self._pairs, self._lock = 0.0, [], threading.Lock()
        self.cuts = 0
        self._open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, count, direction="up", seconds=1.0):
        self._seconds = seconds
        self._until_cut[direction] = count

    def cut(self, seconds=1.0):
        self._dark_until = time.monotonic() + seconds
        self.cuts += 1
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def stall(self, seconds):
        self._still_until = time.monotonic() + seconds

    def close(self):
        self._open = False
        self.cut(1e9)
        self._listener.close()

    def _accept(self):
        while self._open:
            try:
                mine, _ = self._listener.accept()
            except OSError:
                return
            if time.monotonic() < self._dark_until:
                mine.close()
                continue
            try:
                theirs = socket.create_connection(("127.0.0.1", self._target), 5)
            except OSError:
                mine.close()
                continue
            with self._lock:
                self._pairs.append((mine, theirs))
            for way in ((mine, theirs, "up"), (theirs, mine, "down")):
                threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _carry(self, source, sink, direction):
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                while time.monotonic() < self._still_until:
                    time.sleep(0.05)
                if self.delay:
                    time.sleep(self.delay)
                left = self._until_cut[direction]
                if left is not None:
                    self._until_cut[direction] = left - len(data)
                    if left <= len(data):
                        self._until_cut[direction] = None
                        sink.sendall(data[:left])
                        self.cut(self._seconds)
                        return
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
