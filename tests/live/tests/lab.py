"""The lab in real time: this very program in namespaces of its own, under a plan."""

import json
import os
import subprocess
import tempfile

from lib.programs import AQUILA
from lib.runner import Skip, check, test

PLAN = """
title = "In real time"
lasts = "9 s"
warm_up = "1 s"

[[link]]
name = "lte"
both = { rate = "5 Mbit/s", delay = "20 ms", queue = { bytes = "60 kB" } }

[[contender]]
kind = "aquila"

[[contender]]
name = "restarted"
kind = "aquila"
reconnect = "resume"

[[traffic]]
commands = { every = "100 ms" }

[[traffic]]
from = "air"
video = { rate = "8 Mbit/s", follow = true }

[[process]]
node = "ground"
run = "test -n \\"$AQUILA_LTE_HERE\\""

[[action]]
at = "4 s"
change = { up = { rate = "1500 kbit/s" } }

[[action]]
at = "6 s"
outage = { lasts = "300 ms", new_address = true, reconnect = true }

[[check]]
name = "a connection that goes on loses no command"
metric = "aquila.commands.up.lost_share"
max = 0

[[check]]
name = "the camera listens"
metric = "aquila.video.up.lost_share"
max = 0.4

[[check]]
name = "back soon after the outage"
metric = "aquila.commands.up.recovery_ms.max"
max = 400

[[check]]
name = "after a restart, too"
metric = "restarted.commands.up.recovery_ms.max"
max = 700
"""


@test("lab live: a plan of our own", seconds=60)
def lab_live(bench):
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "plan.toml")
        with open(plan, "w") as file:
            file.write(PLAN)
        command = [AQUILA, "lab", "live", plan, "--json", "--logs", folder, "--out", os.path.join(folder, "report"), "--pcap"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if result.returncode == 2 and "namespaces" in result.stderr:
            raise Skip(result.stderr.strip().splitlines()[-1])
        check(result.stdout.startswith("{"), f"exit code {result.returncode}: {result.stderr[-800:]}")
        judged = json.loads(result.stdout)
        if judged["invalid"] and "late" in judged["invalid"]:
            raise Skip(f"the machine was too slow: {judged['invalid'][:200]}")
        check(result.returncode == 0 and judged["pass"], f"exit code {result.returncode}: {judged['invalid']} {judged['checks']}")
        metrics, programs = judged["variants"][0]["metrics"], judged["variants"][0]["programs"]
        check(programs["aquila"][0][0]["exit_code"] == 0, f"programs: {programs}")
        check(metrics["aquila"]["commands"]["down"]["sent"] > 60, f"metrics: {metrics['aquila']['commands']}")
        reports = os.listdir(os.path.join(folder, "report"))
        check({"report.html", "metrics.json", "messages.csv", "links.csv", "events.csv", "pcap"} <= set(reports), f"{reports}")
        captures = os.listdir(os.path.join(folder, "report", "pcap"))
        check("aquila-1-air.pcapng" in captures, f"{captures}")
        up = metrics["aquila"]["commands"]["up"]
        restarted = metrics["restarted"]["commands"]["up"]["recovery_ms"]["max"]
        return f"commands p50 {up['latency_ms']['p50']} ms; back after {up['recovery_ms']['max']} ms, restarted {restarted} ms"
