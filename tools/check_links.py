#!/usr/bin/env python3
"""Checks that the links between the project's Markdown files, and from them to its files, lead somewhere.

    tools/check_links.py

Links to the web are not followed.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(path):
    """The headings of a file as links name them: lower case, without punctuation, spaces as hyphens."""
    with open(path, encoding="utf-8") as file:
        headings = HEADING.findall(without_code(file.read()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def faults(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        links = LINK.findall(without_code(file.read()))
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        where = os.path.normpath(os.path.join(ROOT, os.path.dirname(path), file)) if file else os.path.join(ROOT, path)
        if not os.path.exists(where):
            yield f"{path}: there is no {link}"
        elif anchor and where.endswith(".md") and anchor not in anchors(where):
            yield f"{path}: {link} has no such heading"


def main():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    files = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    found = [fault for path in files if os.path.exists(os.path.join(ROOT, path)) for fault in faults(path)]
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    if not found:
        print(f"{len(files)} Markdown files, all links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
