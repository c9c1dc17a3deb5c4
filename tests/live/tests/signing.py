"""Frames pass byte-identical: signed, unsigned, version 1, unknown; SETUP_SIGNING stays on the machine."""

import os
import time

from pymavlink.dialects.v20 import ardupilotmega as dialect

from lib import mav
from lib.mav import Packer, UdpPort
from lib.rig import Rig
from lib.runner import check, test, wait_until

# MAV_CMD_USER_1 and others are transactions: each is delivered. STATUSTEXT and the like as well.
ROUNDS = 30


def ends(bench, rig):
    """A client beside the aircraft and one beside the ground station, which know of each other."""
    air, ground = UdpPort(rig.ports["air mavlink"]), UdpPort(rig.ports["ground mavlink"])
    bench.add(Closing(air, ground))
    pilots = {"air": Packer(1, 1), "ground": Packer(255, 190)}

    def met():
        air.send(pilots["air"].heartbeat(autopilot=True))
        ground.send(pilots["ground"].heartbeat(autopilot=False))
        time.sleep(0.1)
        return ground.receive() and air.receive()

    wait_until("heartbeats both ways", met, 10)
    time.sleep(0.3)
    air.receive(), ground.receive()
    return air, ground


class Closing:
    def __init__(self, *things):
        self.things = things

    def stop(self):
        for thing in self.things:
            thing.close()


def samples(packer, target):
    """Messages of several kinds; each differs from all others."""
    for n in range(ROUNDS):
        yield packer.command(n, target)
        yield packer.frame(dialect.MAVLink_statustext_message(6, f"text number {n}".encode()))
        yield packer.frame(dialect.MAVLink_param_value_message(f"P{n}".encode(), float(n), 9, ROUNDS, n))


def unknown(n):
    """A frame of a message that no dialect has, with a signature that nobody can check."""
    body = bytes([n]) + os.urandom(20)
    # Length, incompatible flags (signed), compatible flags, sequence, system, component, id 7,000,001.
    return bytes([0xFD, len(body), 1, 0, n, 1, 1]) + (7_000_001).to_bytes(3, "little") + body + os.urandom(2 + 13)


def exchange(sender, receiver, frames):
    """Sends frames one by one and returns those of them that came out, and those that came out altered."""
    sent, got = list(frames), []
    for frame in sent:
        sender.send(frame)
        time.sleep(0.005)
        got += receiver.receive()
    end = time.monotonic() + 3
    while time.monotonic() < end and set(sent) - set(got):
        got += receiver.receive()
        time.sleep(0.02)
    ids = {mav.message_id(frame) for frame in sent}
    altered = [frame for frame in got if frame not in set(sent) and mav.message_id(frame) in ids]
    return [frame for frame in got if frame in set(sent)], altered


def judge(what, sent, result):
    got, altered = result
    check(not altered, f"{what}: {len(altered)} altered, such as {altered[0].hex() if altered else ''}")
    missing = [frame for frame in sent if frame not in set(got)]
    check(not missing, f"{what}: {len(missing)} of {len(sent)} did not come out, such as {missing[0].hex() if missing else ''}")
    check(len(got) == len(sent), f"{what}: {len(got) - len(sent)} came out twice")


@test("signed and other frames byte-identical both ways")
def identical(bench):
    rig = Rig(bench, link={"delay": 10})
    air, ground = ends(bench, rig)
    key, count = bytes(range(32)), 0
    for signed in (True, False):
        for version in (2, 1):
            if signed and version == 1:
                continue
            up, down = Packer(1, 1, version), Packer(255, 190, version)
            if signed:
                for packer in (up, down):
                    packer.mav.signing.secret_key = key
                    packer.mav.signing.sign_outgoing = True
                    packer.mav.signing.timestamp = int((time.time() - 1420070400) * 100_000)
            what = f"MAVLink {version}{' signed' if signed else ''}"
            for way, (sender, receiver, packer, target) in {
                "up": (air, ground, up, (255, 190)),
                "down": (ground, air, down, (1, 1)),
            }.items():
                frames = list(samples(packer, target))
                check(all((frame[2] & 1 == 1) == signed for frame in frames if frame[0] == 0xFD), "pymavlink did not sign")
                judge(f"{what} {way}", frames, exchange(sender, receiver, frames))
                count += len(frames)
    # One kind of telemetry, of which only the newest is kept if several wait: one at a time.
    for n in range(10):
        frame = unknown(n)
        judge("unknown message", [frame], exchange(air, ground, [frame]))
        count += 1
    return f"{count} frames identical"


def verify(bench, loss):
    # Two of these may be up at a time.
    state = {side: bench.path(f"{side}-state-{loss}") for side in ("air", "ground")}
    rig = Rig(bench, link={"delay": 10, "loss": loss}, state=state)
    air, ground = ends(bench, rig)
    checker = dialect.MAVLink(None)
    checker.signing.secret_key = os.urandom(32)
    checker.signing.allow_unsigned_callback = lambda *_: False
    packer = Packer(255, 190)
    packer.mav.signing.secret_key, packer.mav.signing.sign_outgoing = checker.signing.secret_key, True
    packer.mav.signing.timestamp = int((time.time() - 1420070400) * 100_000)
    got, _ = exchange(ground, air, [packer.command(n, (1, 1)) for n in range(200)])
    check(len(got) == 200, f"{len(got)} of 200 signed commands arrived")
    # Autopilots do the same: a signature whose timestamp is not newer than the one before is refused.
    refused = []
    for n, frame in enumerate(got):
        try:
            checker.decode(bytearray(frame))
        except dialect.MAVError:
            refused.append(n)
    return refused


@test("signatures are accepted")
def verify_clean(bench):
    refused = verify(bench, 0)
    check(not refused, f"{len(refused)} of 200 signed commands came after later ones and were refused for it")
    return "200 of 200 accepted"


@test("signatures are accepted at 2 and 5 % loss")
def verify_loss(bench):
    accepted = []
    for loss in (2, 5):
        # One that is lost three times in a row is not waited for any longer: at 5 % one of 8000, so one of 200 is borne.
        refused = verify(bench, loss)
        check(len(refused) <= (loss > 2), f"{len(refused)} of 200 signed commands came after later ones at {loss} % loss")
        accepted.append(f"{200 - len(refused)} of 200 at {loss} %")
    return ", ".join(accepted) + " accepted"


@test("setup_signing stays on the machine")
def setup_signing(bench):
    rig = Rig(bench, link={"delay": 10})
    air, ground = ends(bench, rig)
    for sender, receiver, packer, target in ((ground, air, Packer(255, 190), (1, 1)), (air, ground, Packer(1, 1), (255, 190))):
        secret = dialect.MAVLink_setup_signing_message(*target, os.urandom(32), int(time.time()))
        broadcast = dialect.MAVLink_setup_signing_message(0, 0, os.urandom(32), int(time.time()))
        frames = [packer.frame(secret), packer.frame(broadcast)]
        last = packer.command(7, target)
        for frame in [*frames, last]:
            sender.send(frame)
        got = []
        wait_until("the command behind them", lambda: got.extend(receiver.receive()) or last in got, 5)
        time.sleep(0.5)
        got += receiver.receive()
        crossed = [frame for frame in got if mav.message_id(frame) == dialect.MAVLINK_MSG_ID_SETUP_SIGNING]
        check(not crossed, f"{len(crossed)} SETUP_SIGNING crossed the link")
    for side in (rig.air, rig.ground):
        dropped = side.status()["mavlink"]["dropped"]["setup_signing"]
        check(dropped == 2, f"{side.side} counts {dropped} of 2 SETUP_SIGNING kept back")
    return "4 kept back and counted"
