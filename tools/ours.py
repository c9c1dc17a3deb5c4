"""What the tools that put us beside others have in common."""

import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A release build.
AQUILA = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "aquila")
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"


def make_key(work, name):
    subprocess.run([AQUILA, "keys", "generate", "--key", f"{work}/{name}.key"], check=True, capture_output=True)


def key(work, name):
    """The public half."""
    shown = subprocess.run([AQUILA, "keys", "show", "--key", f"{work}/{name}.key"], capture_output=True, text=True, check=True)
    return re.search("aq1:[0-9a-f]+", shown.stdout)[0]


def why_not(control):
    """Why TCP may not use a congestion control here, and what helps; None if it may."""
    with open(ALLOWED) as file:
        allowed = file.read().split()
    if control in allowed:
        return None
    return f"TCP may not use it here: echo '{' '.join(allowed)} {control}' > {ALLOWED}, after modprobe tcp_{control}"
