"""Network namespaces: where programs and sockets are."""

import contextlib
import ctypes
import os
import random
import socket
import subprocess

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

# Whether we are in a namespace of our own, and may make more.
PRIVATE = False


def ip(*arguments, place=None):
    """Runs `ip`."""
    prefix = place.prefix() if place else []
    subprocess.run([*prefix, "ip", *map(str, arguments)], check=True, capture_output=True, text=True)


class Here:
    """The namespace that the tests are in."""

    name = "here"

    def prefix(self):
        return []

    @contextlib.contextmanager
    def inside(self):
        yield

    def socket(self, *arguments):
        return socket.socket(*arguments)


HERE = Here()


class Namespace(Here):
    """Another namespace, joined to ours by a veth: `ours` here, `theirs` there."""

    count = 0

    def __init__(self, ours, theirs):
        Namespace.count += 1
        self.name = f"aquila-{os.getpid()}-{Namespace.count}"
        self.near, self.far = f"aqn{Namespace.count}", f"aqf{Namespace.count}"
        ip("netns", "add", self.name)
        ip("link", "add", self.near, "type", "veth", "peer", "name", self.far, "netns", self.name)
        ip("addr", "add", ours, "dev", self.near)
        ip("link", "set", self.near, "up")
        ip("addr", "add", theirs, "dev", self.far, place=self)
        ip("link", "set", "lo", "up", place=self)
        ip("link", "set", self.far, "up", place=self)
        # A veth that comes up may swallow the first ARP request, which the kernel repeats only after a second: before
        # it nothing that we send leaves. Mobile links do not ask; here we measure our own recovery, not ARP's.
        for place, device in ((HERE, self.near), (self, self.far)):
            setting = f"/proc/sys/net/ipv4/neigh/{device}/retrans_time_ms"
            with place.inside(), open(setting, "w") as file:
                file.write("50")

    def prefix(self):
        return ["ip", "netns", "exec", self.name]

    @contextlib.contextmanager
    def inside(self):
        """This thread is in the namespace; sockets stay where they are made."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.name}") as there:
            if _libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                _libc.setns(home.fileno(), CLONE_NEWNET)

    def socket(self, *arguments):
        with self.inside():
            return socket.socket(*arguments)

    def stop(self):
        subprocess.run(["ip", "link", "del", self.near], capture_output=True)
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)


_given = set()


def _unasked_ports():
    """Ports that the kernel gives to nobody who did not name them, so that a program that is started again finds its own free."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        low, high = map(int, file.read().split())
    return range(20_000, low) if low > 25_000 else range(high + 1, 65_535)


def free_port(kind=socket.SOCK_DGRAM):
    """A port of loopback that is free, and was not given before; so is the next, since RTP's companion goes there."""
    ports = _unasked_ports()
    for _ in range(1000):
        port = random.choice(ports)
        if _given & {port, port + 1}:
            continue
        with socket.socket(socket.AF_INET, kind) as one, socket.socket(socket.AF_INET, kind) as two:
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
        _given.update({port, port + 1})
        return port
    raise OSError(f"no two free ports in a row from {ports.start} to {ports.stop}")
