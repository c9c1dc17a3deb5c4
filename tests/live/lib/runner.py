"""Collects tests, runs them one after the other, and says how each went."""

import os
import shutil
import signal
import sys
import time
import traceback

from lib import places, programs

TESTS = []


class Skip(Exception):
    """A test cannot run here; says what is missing."""


class Failed(AssertionError):
    """A check did not hold."""


class Test:
    """`needs`: programs that must be there, and "namespaces" or "root"."""

    def __init__(self, function, name, needs, seconds):
        self.function, self.name, self.needs, self.seconds = function, name, needs, seconds

    def missing(self):
        for need in self.needs:
            there = {"namespaces": places.PRIVATE, "root": os.geteuid() == 0}
            if not there.get(need, shutil.which(need)):
                return need
        return None


def test(name, needs=(), seconds=60):
    """Marks a function as a test. It is given its `Bench`, and returns what is worth printing."""

    def mark(function):
        TESTS.append(Test(function, name, needs, seconds))
        return function

    return mark


def check(holds, text):
    """Fails with `text` unless it holds."""
    if not holds:
        raise Failed(text)


def wait_until(what, holds, timeout, every=0.02):
    """Waits until `holds()` is true, and returns it."""
    end = time.monotonic() + timeout
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"not within {timeout} s: {what}")
        time.sleep(every)


class Bench:
    """What a test works with: a directory, and programs that end with it."""

    def __init__(self, directory):
        self.directory = directory
        self.things = []

    def path(self, name):
        return os.path.join(self.directory, name)

    def add(self, thing):
        """`thing.stop()` is called when the test ends, last added first."""
        self.things.append(thing)
        return thing

    def stop(self):
        while self.things:
            try:
                self.things.pop().stop()
            except Exception:
                traceback.print_exc()


def run(only, work, keep):
    tests = [test for test in TESTS if not only or any(text in test.name for text in only)]
    counts = {"ok": 0, "FAIL": 0, "skip": 0}
    shutil.rmtree(work, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    for each in tests:
        outcome, detail, took = run_one(each, work, keep)
        counts[outcome] += 1
        print(f"{outcome:4}  {each.name} ({took:.1f} s){': ' if detail else ''}{detail}", flush=True)
    print(f"took {time.monotonic() - began:.0f} s")
    print(f"{counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped")
    return 1 if counts["FAIL"] else 0


def run_one(test, work, keep):
    missing = test.missing()
    if missing:
        return "skip", f"no {missing}", 0.0
    directory = os.path.join(work, test.name.replace(" ", "-").replace("/", "-"))
    os.makedirs(directory)
    bench = Bench(directory)
    outcome, detail = "ok", None
    began = time.monotonic()

    def too_long(*_):
        raise Failed(f"not done within {test.seconds} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(test.seconds)
    try:
        detail = test.function(bench)
        crashed = [thing.name for thing in bench.things if isinstance(thing, programs.Program) and thing.has_crashed()]
        check(not crashed, f"ended though it should not: {', '.join(crashed)}")
    except Skip as reason:
        outcome, detail = "skip", str(reason)
    except Failed as failure:
        outcome, detail = "FAIL", str(failure)
    except KeyboardInterrupt:
        raise
    except Exception:
        outcome, detail = "FAIL", traceback.format_exc()
    finally:
        signal.alarm(0)
        bench.stop()
    if outcome != "FAIL" and not keep:
        shutil.rmtree(directory, ignore_errors=True)
    elif outcome == "FAIL":
        detail = f"{detail} [logs: {directory}]"
    return outcome, detail or "", time.monotonic() - began
