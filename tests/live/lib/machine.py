"""How late the machine lets programs run."""

import threading
import time

STEP = 0.002
# One wake in a hundred later than this: what has deadlines in real time was held up by the machine.
LATE = 0.01


class Watch(threading.Thread):
    """Wakes every 2 ms while it lives, and notes how late."""

    def __init__(self):
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.wakes = []
        self.start()

    def run(self):
        while not self.over.is_set():
            due = time.monotonic() + STEP
            time.sleep(STEP)
            self.wakes.append(time.monotonic() - due)

    def stop(self):
        self.over.set()

    def late(self):
        """Seconds that one wake in a hundred was late, or more; 0 if the machine kept up."""
        wakes = sorted(self.wakes)
        one_in_a_hundred = wakes[len(wakes) * 99 // 100] if wakes else 0.0
        return one_in_a_hundred if one_in_a_hundred >= LATE else 0.0
