"""pymavlink downloads all parameters, and uploads a mission and reads it back."""

import time

from pymavlink.dialects.v20 import ardupilotmega as dialect

from lib.mav import GroundStation
from lib.rig import Rig
from lib.runner import Failed, check, test

PARAMETERS = 1348
ITEMS = 200
# A ground station asks again for what is missing when nothing has come for so long.
QUIET = 1.5


def download(station, timeout):
    """Parameters by index, how many were asked for again, and the time it took."""
    began = time.monotonic()
    station.mav.param_request_list_send(*station.target)
    found, again = {}, 0
    while len(found) < PARAMETERS:
        message = station.receive("PARAM_VALUE", QUIET)
        if time.monotonic() - began > timeout:
            raise Failed(f"{len(found)} of {PARAMETERS} parameters within {timeout} s, {again} asked for again")
        if message is None:
            for index in [index for index in range(PARAMETERS) if index not in found][:20]:
                station.mav.param_request_read_send(*station.target, b"", index)
                again += 1
        elif message.param_index < PARAMETERS:
            check(message.param_count == PARAMETERS, f"param_count is {message.param_count}")
            found[message.param_index] = (message.param_id, message.param_value, message.param_type)
    return found, again, time.monotonic() - began


def parameters(bench, loss):
    rig = Rig(bench, link={"loss": loss, "delay": 20, "up_rate": "4M", "down_rate": "4M"}, aircraft=True)
    station = GroundStation(bench, rig.ports["ground mavlink"])
    station.wait_aircraft()
    found, again, took = download(station, 45)
    names = {name for name, _, _ in found.values()}
    check(len(names) == PARAMETERS, f"{len(names)} different names")
    stats = rig.relay.stats()
    lost = stats["up"]["loss"] + stats["down"]["loss"]
    check((lost > 0) == (loss > 0), f"{lost} packets lost by the emulated link")
    # Each is kept until it is acknowledged: nothing has to be asked for twice.
    check(again == 0, f"{again} parameters had to be asked for again, in {took:.1f} s")
    return f"{len(found)} of {PARAMETERS} in {took:.1f} s, {again} asked for again, {lost} packets lost on the link"


@test("parameters at 0 % loss")
def parameters_0(bench):
    return parameters(bench, 0)


@test("parameters at 2 % loss")
def parameters_2(bench):
    return parameters(bench, 2)


@test("parameters at 5 % loss")
def parameters_5(bench):
    return parameters(bench, 5)


def mission_items(target):
    """A take-off and a tour, each item different in every field that matters."""
    for n in range(ITEMS):
        yield dialect.MAVLink_mission_item_int_message(
            *target,
            n,
            dialect.MAV_FRAME_GLOBAL_RELATIVE_ALT,
            dialect.MAV_CMD_NAV_TAKEOFF if n == 1 else dialect.MAV_CMD_NAV_WAYPOINT,
            0,
            1,
            float(n % 7),
            0.0,
            0.0,
            0.0,
            -353632620 + 1000 * n,
            1491652370 - 700 * n,
            20.0 + n / 4,
            0,
        )


def upload(station, items, timeout):
    began = time.monotonic()
    station.mav.mission_count_send(*station.target, len(items), 0)
    wanted = ["MISSION_REQUEST_INT", "MISSION_REQUEST", "MISSION_ACK"]
    while time.monotonic() - began < timeout:
        message = station.receive(wanted, 5)
        check(message is not None, "no MISSION_REQUEST and no MISSION_ACK for 5 s")
        if message.get_type() == "MISSION_ACK":
            check(message.type == dialect.MAV_MISSION_ACCEPTED, f"MISSION_ACK says {message.type}")
            return time.monotonic() - began
        station.mav.send(items[message.seq])
    raise Failed(f"mission not uploaded within {timeout} s")


def read_back(station, timeout):
    began = time.monotonic()
    station.mav.mission_request_list_send(*station.target, 0)
    count = station.receive("MISSION_COUNT", 5)
    check(count is not None, "no MISSION_COUNT within 5 s")
    items = []
    while len(items) < count.count:
        station.mav.mission_request_int_send(*station.target, len(items), 0)
        item = station.receive("MISSION_ITEM_INT", 5)
        check(item is not None, f"no answer for item {len(items)} within 5 s")
        check(item.seq == len(items), f"asked for item {len(items)}, got {item.seq}")
        check(time.monotonic() - began < timeout, f"mission not read within {timeout} s")
        items.append(item)
    station.mav.mission_ack_send(*station.target, dialect.MAV_MISSION_ACCEPTED, 0)
    return items, time.monotonic() - began


@test("mission of 200 items at 2 % loss", seconds=90)
def mission(bench):
    rig = Rig(bench, link={"loss": 2, "delay": 10, "up_rate": "4M", "down_rate": "4M"}, aircraft=True)
    station = GroundStation(bench, rig.ports["ground mavlink"])
    station.wait_aircraft()
    items = list(mission_items(station.target))
    up = upload(station, items, 40)
    read, down = read_back(station, 40)
    check(len(read) == ITEMS, f"{len(read)} items read back")
    fields = ["seq", "frame", "command", "autocontinue", "param1", "param2", "param3", "param4", "x", "y", "z"]
    # Item 0 is the aircraft's home, which it keeps as it is.
    for sent, got in list(zip(items, read))[1:]:
        for field in fields:
            check(getattr(sent, field) == getattr(got, field), f"item {sent.seq}: {field} differs: {sent} and {got}")
    return f"uploaded in {up:.1f} s, read back in {down:.1f} s, {ITEMS} items identical"
