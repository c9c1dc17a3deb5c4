#!/usr/bin/env python3
"""Checks that each crate depends on no more than docs/architecture.md says.

    tools/check_tree.py

`proto`, `fec`, `emu` and `plan` are sans-IO: nothing below them may open a socket or run a task. `emu` must not see `proto`, so that
the emulator cannot favour the link it tests. Tests may use more; they are not looked at.
"""

import os
import subprocess
import sys

IO = {"async-io", "async-std", "mio", "nix", "noq", "noq-udp", "polling", "rtnetlink", "serialport", "smol", "socket2"}
IO |= {"tokio", "tokio-serial"}
OURS = {"aquila", "aquila-proto", "aquila-fec", "aquila-emu", "aquila-plan", "aquila-net", "aquila-lab"}
OURS |= {"aquila-bundle", "aquila-depot"}

# Crate: those of ours that it may depend on, and what must not be anywhere below it.
RULES = {
    "aquila-fec": (set(), IO | {"rand_core"}),
    "aquila-proto": ({"aquila-fec"}, IO),
    "aquila-emu": (set(), IO | {"noq-proto", "rustls"}),
    "aquila-plan": (set(), IO),
    "aquila-bundle": (set(), {"noq-proto", "rustls"}),
    "aquila-depot": ({"aquila-proto", "aquila-fec"}, {"mio", "noq", "noq-udp", "rtnetlink", "socket2", "tokio"}),
    "aquila-net": ({"aquila-proto", "aquila-fec", "aquila-depot", "aquila-bundle"}, set()),
    "aquila-lab": (OURS - {"aquila", "aquila-lab"}, set()),
    "aquila": (OURS - {"aquila"}, set()),
}


def below(crate):
    """Names of everything that `crate` is built with."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = ["cargo", "tree", "--locked", "-p", crate, "-e", "normal,build", "--prefix", "none", "-f", "{p}"]
    lines = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines if line} - {crate}


def main():
    faults = []
    for crate, (allowed, forbidden) in RULES.items():
        found = below(crate)
        if len(found) < 2:
            faults.append(f"{crate} seems to depend on nothing: is the name right?")
        faults += [f"{crate} must not depend on {name}" for name in sorted(found & (OURS - allowed | forbidden))]
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"{len(RULES)} crates depend on what they may")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
