"""MAVLink clients: a ground station by pymavlink, and bare frames."""

import fcntl
import os
import pty
import socket
import struct
import time
import tty

from pymavlink import mavutil
from pymavlink.dialects.v20 import ardupilotmega as dialect

from lib import places, runner


class GroundStation:
    """pymavlink connected to a UDP port of the ground side."""

    def __init__(self, bench, port, system=255):
        self.link = mavutil.mavlink_connection(f"udpout:127.0.0.1:{port}", source_system=system, dialect="ardupilotmega")
        widen(self.link.port)
        self.beat_at = 0.0
        self.target = (1, 1)
        bench.add(self)

    @property
    def mav(self):
        return self.link.mav

    def stop(self):
        self.link.close()

    def beat(self):
        """A heartbeat, if it is time."""
        if time.monotonic() >= self.beat_at:
            self.beat_at = time.monotonic() + 1
            self.mav.heartbeat_send(dialect.MAV_TYPE_GCS, dialect.MAV_AUTOPILOT_INVALID, 0, 0, 4)

    def receive(self, types, timeout):
        """The next message of these types, or None."""
        end = time.monotonic() + timeout
        while True:
            self.beat()
            message = self.link.recv_match(type=types, blocking=True, timeout=min(0.2, max(0.0, end - time.monotonic())))
            if message is not None or time.monotonic() >= end:
                return message

    def wait_aircraft(self, timeout=15):
        """Until the autopilot's heartbeat is heard."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            message = self.receive("HEARTBEAT", 1)
            if message and message.autopilot == dialect.MAV_AUTOPILOT_ARDUPILOTMEGA:
                self.target = (message.get_srcSystem(), message.get_srcComponent())
                return
        raise runner.Failed(f"no heartbeat of the aircraft within {timeout} s")


def widen(sock):
    """Makes room for a burst in a socket of ours: what is lost there is not the link's fault."""
    SO_RCVBUFFORCE = 33
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)


class Frames:
    """Cuts a stream of bytes or a datagram into frames; looks at lengths only."""

    def __init__(self):
        self.rest = b""

    def feed(self, data):
        self.rest += data
        found = []
        while True:
            start = min((i for i in (self.rest.find(b"\xfd"), self.rest.find(b"\xfe")) if i >= 0), default=-1)
            if start < 0:
                self.rest = b""
                return found
            self.rest = self.rest[start:]
            if len(self.rest) < 3:
                return found
            if self.rest[0] == 0xFD:
                length = 12 + self.rest[1] + (13 if self.rest[2] & 1 else 0)
            else:
                length = 8 + self.rest[1]
            if len(self.rest) < length:
                return found
            found.append(self.rest[:length])
            self.rest = self.rest[length:]


def message_id(frame):
    if frame[0] == 0xFD:
        return int.from_bytes(frame[7:10], "little")
    return frame[5]


def payload(frame, length):
    """The payload, with the zeros that MAVLink 2 leaves away at its end."""
    begin = 10 if frame[0] == 0xFD else 6
    return frame[begin : begin + frame[1]].ljust(length, b"\0")


class Packer:
    """Makes frames of one system and component."""

    def __init__(self, system, component, version=2):
        self.mav = dialect.MAVLink(None, srcSystem=system, srcComponent=component)
        self.version = version

    def frame(self, message):
        data = message.pack(self.mav, force_mavlink1=self.version == 1)
        self.mav.seq = (self.mav.seq + 1) % 256
        return bytes(data)

    def heartbeat(self, autopilot):
        kind = dialect.MAV_TYPE_QUADROTOR if autopilot else dialect.MAV_TYPE_GCS
        pilot = dialect.MAV_AUTOPILOT_ARDUPILOTMEGA if autopilot else dialect.MAV_AUTOPILOT_INVALID
        return self.frame(dialect.MAVLink_heartbeat_message(kind, pilot, 0, 0, 4, 3))

    def command(self, number, target):
        """A numbered command."""
        high, low = float(number >> 16), float(number & 0xFFFF)
        command = dialect.MAVLink_command_long_message(*target, dialect.MAV_CMD_USER_1, 0, high, low, 0, 0, 0, 0, 0)
        return self.frame(command)


def command_number(frame):
    """The number in a command made by `Packer.command`."""
    if message_id(frame) != dialect.MAVLINK_MSG_ID_COMMAND_LONG:
        return None
    high, low, *_, command = struct.unpack("<7fH", payload(frame, 33)[:30])
    return int(high) << 16 | int(low) if command == dialect.MAV_CMD_USER_1 else None


class UdpPort:
    """A client of a `udpin` endpoint."""

    def __init__(self, port, place=places.HERE):
        self.socket = place.socket(socket.AF_INET, socket.SOCK_DGRAM)
        widen(self.socket)
        self.socket.setblocking(False)
        self.socket.connect(("127.0.0.1", port))

    def fileno(self):
        return self.socket.fileno()

    def send(self, data):
        try:
            self.socket.send(data)
        except OSError:
            pass  # Nobody listens at the moment.

    def receive(self):
        """Frames that are there."""
        found = []
        while True:
            try:
                found += Frames().feed(self.socket.recv(65536))
            except BlockingIOError:
                return found
            except ConnectionRefusedError:
                pass

    def close(self):
        self.socket.close()


class TcpPort(UdpPort):
    """A client of a `tcpin` endpoint."""

    def __init__(self, port, place=places.HERE):
        self.socket = place.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.frames = Frames()

    def receive(self):
        found = []
        while True:
            try:
                data = self.socket.recv(65536)
            except BlockingIOError:
                return found
            if not data:
                return found
            found += self.frames.feed(data)


class PtyPort:
    """A pseudo terminal at a path that stays, as /dev/ttyUSB0 does: it can be unplugged and plugged in again."""

    def __init__(self, path):
        self.path, self.master = path, -1
        self.frames = Frames()
        self.plug()

    def plug(self):
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        os.symlink(os.ttyname(slave), self.path + ".new")
        os.rename(self.path + ".new", self.path)
        os.close(slave)
        os.set_blocking(self.master, False)
        self.frames = Frames()

    def speed(self):
        """Bits per second that the line has been set to."""
        TCGETS2 = 0x802C542A
        slave = os.open(self.path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        settings = fcntl.ioctl(slave, TCGETS2, bytes(44))
        os.close(slave)
        return struct.unpack("<I", settings[40:])[0]

    def unplug(self):
        os.unlink(self.path)
        master, self.master = self.master, -1
        os.close(master)

    def fileno(self):
        return self.master

    def send(self, data):
        try:
            os.write(self.master, data)
        except OSError:
            pass  # Unplugged, or nobody reads.

    def receive(self):
        try:
            return self.frames.feed(os.read(self.master, 65536))
        except OSError:
            time.sleep(0.005)  # Nobody has opened the other end.
            return []

    def close(self):
        master, self.master = self.master, -1
        if master >= 0:
            os.close(master)
