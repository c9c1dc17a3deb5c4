"""Programs under test and beside it: started, watched, ended."""

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import time

from lib import places, runner

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
# Copies, so that a build beside the tests does not change what is tested.
PROGRAMS = os.path.join(TARGET, "live", "bin")
AQUILA = os.path.join(PROGRAMS, "aquila")

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Program:
    """A program whose output goes to a log."""

    def __init__(self, bench, name, command, place=places.HERE, stdin=subprocess.DEVNULL, env=None, log=None):
        self.name, self.log = name, log or bench.path(f"{name}.log")
        self.ended_by_us = False
        with open(self.log, "ab") as output:
            # Another program may have written to it before.
            self.begin = output.tell()
            self.process = subprocess.Popen(
                [*place.prefix(), *map(str, command)],
                stdin=stdin,
                stdout=output,
                stderr=output,
                cwd=bench.directory,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                # Programs must not outlive the tests, whatever becomes of these.
                preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )
        self.pid = self.process.pid

    def text(self):
        """The log so far, without colours."""
        with open(self.log, "rb") as file:
            file.seek(self.begin)
            return _COLOUR.sub("", file.read().decode(errors="replace"))

    def wait_log(self, pattern, timeout=10, after=0):
        """Waits for a line of the log, ignoring the first `after` characters; returns the match."""
        found = lambda: re.search(pattern, self.text()[after:])
        try:
            return runner.wait_until(f"'{pattern}' in the log of {self.name}", found, timeout)
        except runner.Failed as failure:
            tail = "\n".join(self.text().splitlines()[-8:])
            raise runner.Failed(f"{failure}; it ends:\n{tail}") from None

    def memory(self):
        """Resident bytes, and the most so far."""
        with open(f"/proc/{self.pid}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        return tuple(int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))

    def has_crashed(self):
        return self.process.poll() is not None and not self.ended_by_us

    def end(self, how=signal.SIGTERM, timeout=5):
        """Ends it; returns its exit code and the seconds that it took."""
        self.ended_by_us = True
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise runner.Failed(f"{self.name} did not end within {timeout} s of signal {how}") from None
        return code, time.monotonic() - began

    def stop(self):
        self.ended_by_us = True
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
                self.process.wait()


class Side(Program):
    """`aquila air` or `aquila ground`, with a status page."""

    def __init__(self, bench, side, options, place=places.HERE, log=None, env=None, program=AQUILA):
        self.side, self.place, self.page = side, place, places.free_port(socket.SOCK_STREAM)
        options = [*options, "--status", f"127.0.0.1:{self.page}"]
        super().__init__(bench, side if log is None else log, [program, side, *options], place, env=env)

    def fetch(self, path):
        """Status code and body of a page."""
        with self.place.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(3)
            connection.connect(("127.0.0.1", self.page))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while block := connection.recv(65536):
                answer += block
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def status(self):
        return json.loads(self.fetch("/status")[1])

    def is_up(self):
        try:
            return any(bearer["state"] == "up" for bearer in self.status()["bearers"])
        except OSError:
            return False


class Told(Program):
    """An emulator that takes commands on its standard input."""

    @staticmethod
    def words(options):
        return [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]

    def tell(self, command):
        """Gives it a command and returns the answer."""
        before = len(self.text())
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.wait_log(r"(.*)\n", after=before).group(1)
        runner.check(not answer.startswith("error"), f"the {self.name} says: {answer}")
        return answer


class Relay(Told):
    """An emulated link. `options` as of the example `emulated_link`."""

    def __init__(self, bench, port, to, **options):
        command = [f"{PROGRAMS}/emulated_link", "--listen", f"127.0.0.1:{port}", "--to", to, *self.words(options)]
        super().__init__(bench, "relay", command, stdin=subprocess.PIPE)
        self.wait_log("listening on")

    def stats(self):
        return json.loads(self.tell("stats"))


class Radios(Told):
    """A pair of serial radios. `options` as of the example `serial_radio`."""

    def __init__(self, bench, **options):
        self.links = {side: bench.path(f"{side}-radio") for side in ("air", "ground")}
        ends = [f"--{side}={link}" for side, link in self.links.items()]
        ends = [word for end in ends for word in end.split("=", 1)]
        super().__init__(bench, "radios", [f"{PROGRAMS}/serial_radio", *ends, *self.words(options)], stdin=subprocess.PIPE)
        self.wait_log("ready")


class Aircraft(Program):
    """The simulated aircraft, connected to a MAVLink port of the air side."""

    def __init__(self, bench, to, place=places.HERE):
        command = [f"{PROGRAMS}/aircraft_udp", "copter", "127.0.0.1:0", f"127.0.0.1:{to}"]
        super().__init__(bench, "aircraft", command, place)
