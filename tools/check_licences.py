#!/usr/bin/env python3
"""Checks that every crate the workspace is built from has a licence that we may ship under MIT OR Apache-2.0.

    tools/check_licences.py

Reads `cargo metadata`; needs nothing but Python. Fails naming the crate.
"""

import json
import os
import re
import subprocess
import sys

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}
# Weak copyleft by file, unchanged by us, source at crates.io: what a user must be told is in docs/dependencies.md.
EXCEPTIONS = {}
OURS = "MIT OR Apache-2.0"


def permits(expression, allowed):
    """Whether an SPDX expression can be met with the licences in `allowed`. Old crates write OR as a slash."""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def either():
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value |= both()
        return value

    def both():
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value &= one()
        return value

    def one():
        token = tokens.pop(0)
        if token == "(":
            value = either()
            if tokens.pop(0) != ")":
                raise ValueError
            return value
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token = f"{token} WITH {tokens.pop(0)}"
        return token in allowed

    value = either()
    if tokens:
        raise ValueError
    return value


def fault(package):
    """What is wrong with the licence of a package, if anything."""
    name, licence = package["name"], package["license"]
    if package["source"] is None:
        return None if licence == OURS else f"is ours and must be {OURS}"
    if not licence:
        return "names no licence"
    try:
        return None if permits(licence, ALLOWED | {EXCEPTIONS.get(name)}) else f"is under {licence}"
    except (IndexError, ValueError):
        return f"has a licence that is no SPDX expression: {licence}"


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)
    packages = sorted(metadata["packages"], key=lambda package: package["name"])
    faults = [(package, fault(package)) for package in packages]
    for package, reason in faults:
        if reason:
            print(f"{package['name']} {package['version']} {reason}", file=sys.stderr)
    unused = EXCEPTIONS.keys() - {package["name"] for package in packages}
    for name in sorted(unused):
        print(f"{name} is no dependency any more: take it out of EXCEPTIONS", file=sys.stderr)
    if unused or any(reason for _, reason in faults):
        return 1
    print(f"{len(packages)} crates, all licences allowed; by exception: {', '.join(sorted(EXCEPTIONS)) or 'none'}")
    return 0


if __name__ == "__main__":
    assert permits("(MIT OR Apache-2.0) AND Unicode-3.0", ALLOWED) and not permits("MIT AND GPL-3.0", ALLOWED)
    assert permits("Apache-2.0 WITH LLVM-exception", ALLOWED) and permits("MIT/GPL-2.0", ALLOWED)
    assert not permits("GPL-2.0 WITH Classpath-exception-2.0", ALLOWED)
    sys.exit(main())
