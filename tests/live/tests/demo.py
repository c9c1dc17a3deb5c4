"""The demo, as a person's first command."""

import json
import socket
import subprocess
import time

from lib.programs import AQUILA
from lib.runner import check, test


def fly(*arguments, timeout=60):
    return subprocess.run([AQUILA, "demo", *arguments], capture_output=True, text=True, timeout=timeout)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@test("demo of 20 seconds", seconds=60)
def demo(bench):
    result = fly("--headless", "--seconds", "20", "--json")
    check(result.returncode == 0, f"exit code {result.returncode}: {result.stderr[-500:]}")
    check(len(result.stdout.strip().splitlines()) == 1, f"not one line: {result.stdout[:300]}")
    report = json.loads(result.stdout)
    for way in ("c2_up_ms", "c2_down_ms"):
        values = [report[way][name] for name in ("p50", "p95", "p99", "max")]
        check(all(map(is_number, values)) and values == sorted(values) and values[0] >= 0, f"{way}: {report[way]}")
    check(is_number(report["propagation_ms"]) and report["propagation_ms"] > 0, f"propagation_ms: {report['propagation_ms']}")
    video = report["video"]
    for name in ("frames_sent", "frames_shown", "frames_late"):
        check(isinstance(video[name], int), f"video.{name}: {video[name]}")
    check(500 < video["frames_sent"] <= 610, f"{video['frames_sent']} frames sent in 20 s at 30 a second")
    check(video["frames_shown"] > 0.75 * video["frames_sent"], f"{video['frames_shown']} of {video['frames_sent']} frames shown")
    check(all(is_number(video["latency_ms"][name]) for name in ("p50", "p95", "p99")), f"latency_ms: {video['latency_ms']}")
    check(is_number(video["psnr_db"]) and video["psnr_db"] > 25, f"psnr_db: {video['psnr_db']}")
    handover = report["handover"]
    check(handover["without_control_ms"] >= handover["outage_ms"] > 0, f"handover: {handover}")
    beyond = handover["without_control_ms"] - handover["outage_ms"] - report["propagation_ms"]
    check(beyond < 500, f"without control {beyond:.0f} ms longer than the outage and propagation")
    check(report["c2_down_ms"]["p50"] < 50 and report["c2_up_ms"]["p50"] < 100, "the link is slow")
    check(not {"bearers", "replication", "cut"} & report.keys(), "one bearer is reported like several")
    figures = {name: report[name] for name in ("c2_up_ms", "c2_down_ms")}
    return f"{json.dumps(figures)}, {video['frames_shown']} of {video['frames_sent']} frames, {video['psnr_db']} dB, {beyond:.0f} ms after the handover"


@test("demo over a made-up link", seconds=30)
def demo_made_up(bench):
    result = fly("--headless", "--seconds", "8", "--profile", "uav", "--seed", "24", "--json")
    check(result.returncode == 0, f"exit code {result.returncode}: {result.stderr[-500:]}")
    report = json.loads(result.stdout)
    check((report["profile"], report["seed"]) == ("uav", 24), f"{report['profile']}, seed {report['seed']}")
    check("above many cells" in result.stderr, f"it is not said what link it is: {result.stderr[:300]}")
    return f"{report['video']['frames_shown']} of {report['video']['frames_sent']} frames"


@test("demo over two bearers, one cut in flight", seconds=40)
def demo_bearers(bench):
    result = fly("--headless", "--seconds", "15", "--profile", "clean", "--bearers", "2", "--json")
    check(result.returncode == 0, f"exit code {result.returncode}: {result.stderr[-500:]}")
    report = json.loads(result.stdout)
    bearers = {bearer["name"]: bearer for bearer in report["bearers"]}
    check(sorted(bearers) == ["lte-a", "lte-b"], f"bearers: {sorted(bearers)}")
    check(all(bearer["state"] == "up" and bearer["bytes_up"] > 0 for bearer in bearers.values()), f"bearers: {bearers}")
    commands, cut, cost = report["commands"], report["cut"], report["replication"]
    check(commands["sent"] > 200 and commands["delivered"] == commands["sent"] and commands["twice"] == 0, f"commands: {commands}")
    check(cut["bearer"] in bearers and 5 < cut["at_s"] < 9 and 2.5 < cut["lasted_s"] < 4, f"cut: {cut}")
    for text in (f"{cut['bearer']} is cut", f"{cut['bearer']} is there again"):
        check(text in result.stderr, f"'{text}' is not in the log: {result.stderr[-1000:]}")
    # The bounds themselves are for an idle machine.
    check(cut["commands"] > 40 and is_number(cut["worst_command_ms"]), f"cut: {cut}")
    check(cut["worst_command_ms"] < cut["bound_ms"] + 200 and cut["first_picture_ms"] < 1000, f"cut: {cut}")
    # The cut was felt: what came first by the other bearer then came by no other.
    other = next(bearer for name, bearer in bearers.items() if name != cut["bearer"])
    check(other["control_first_up"] > 10 and other["control_first_down"] > 10, f"nothing came first by the other one: {bearers}")
    check(cost["copies"] > 200 and 0 < cost["share"] < 0.2, f"replication: {cost}")
    return (
        f"cut of {cut['lasted_s']} s: worst command {cut['worst_command_ms']:.0f} ms ({cut['commands_beyond']} of {cut['commands']} beyond "
        f"{cut['bound_ms']:.0f}), first picture after {cut['first_picture_ms']:.0f} ms; copies are {cost['share']:.1%} of all"
    )


@test("demo: table, ports taken, Ctrl-C")
def demo_table(bench):
    result = fly("--headless", "--seconds", "5")
    check(result.returncode == 0, f"exit code {result.returncode}: {result.stderr[-500:]}")
    check("p99" in result.stdout or "99" in result.stdout, f"no table: {result.stdout}")
    # A ground station is there already: the demo sends to it.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mavlink, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as video:
        mavlink.bind(("127.0.0.1", 14550))
        video.bind(("127.0.0.1", 5600))
        process = subprocess.Popen([AQUILA, "demo", "--headless", "--seconds", "60", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for sock, begin in ((mavlink, (0xFD, 0xFE)), (video, (0x80,))):
            sock.settimeout(8)
            packet = sock.recv(2048)
            check(packet[0] in begin, f"{packet[:16].hex()} on port {sock.getsockname()[1]}")
    time.sleep(2)
    began = time.monotonic()
    process.send_signal(2)
    out, err = process.communicate(timeout=10)
    took = time.monotonic() - began
    check(process.returncode == 0, f"Ctrl-C: exit code {process.returncode}: {err.decode()[-300:]}")
    check(took < 2, f"Ctrl-C: {took:.1f} s")
    json.loads(out)
    return f"Ctrl-C within {took * 1e3:.0f} ms"
