# SPDX-License-Identifier: Apache-2.0
"""Builds by preset, unit tests, and both again under sanitizers."""
import concurrent.futures
import os
import re
import threading

import cases
import exporter
from harness import BUILD, JOBS, ROOT, Failed, Row, command, expect


_one_at_a_time = threading.Lock()  # rows beside each other may ask for the same target: what one runs, no other writes


def build(preset, target=None):
    with _one_at_a_time:
        command("cmake", "--preset", preset)
        done = command("cmake", "--build", "--preset", preset, "-j", str(JOBS), *(["--target", target] if target else []))
    warnings = [l for l in done.stdout.splitlines() if re.search(r"\bwarning: ", l)]
    expect(not warnings, lambda: "\n".join(warnings[:20]))


SANITIZED = ("asan", "tsan")
# The others' tests run in one thread, where TSan has nothing to see; the preset builds no more than these.
THREADED = ("base", "engine", "kernel", "probes", "web")


def rows():
    """The release is compiled by g++, the sanitizers' builds, which hold the unit tests, by clang in half of g++'s time.
    Both compilers' plain builds of everything are left to the full tier."""
    return [Row(f"build-{p}", f"preset {p}", lambda p=p: build(p), full_only=p in ("clang", "debug"))
            for p in ("release", *SANITIZED, "clang", "debug")]


def unit_tests(preset):
    """Runs every unit test program of the preset; returns how many tests ran."""
    folder = os.path.join(BUILD, preset, "bin")
    programs = sorted(n for n in os.listdir(folder) if n.startswith("unit_")) if os.path.isdir(folder) else []
    layers = sorted(d for d in os.listdir(os.path.join(ROOT, "tests", "unit"))
                    if any(f.endswith("_test.cc") for _, _, files in os.walk(os.path.join(ROOT, "tests", "unit", d)) for f in files))
    if preset == "tsan":
        layers = [l for l in layers if l in THREADED]
    expect(programs == [f"unit_{l}" for l in layers], f"test programs {programs}, folders with tests {layers}")
    total = 0
    for name in programs:
        program = os.path.join(folder, name)
        done = command(program, "--gtest_brief=1", "--gtest_shuffle", env=exporter.environment(program), timeout=900)
        m = re.search(r"\[==========\] (\d+) tests? from", done.stdout)
        expect(m and int(m.group(1)) > 0, f"{name}: no test ran\n{done.stdout[-1500:]}")
        expect("SKIPPED" not in done.stdout and "DISABLED" not in done.stdout, f"{name}: skipped or disabled tests\n{done.stdout[-1500:]}")
        total += int(m.group(1))
    return f"{total} tests"


def unit_rows():
    return [Row(f"unit-{p}", f"all unit tests, preset {p}", lambda p=p: unit_tests(p), full_only=p not in SANITIZED)
            for p in (*SANITIZED, "clang", "debug")]


def all_cases(preset):
    program = exporter.binary(preset)
    bad = []

    def one(case):
        try:
            case.run(program)
        except Exception as e:  # told below, with the name of the case
            bad.append(f"{case.name}: {e}")

    found = cases.all_cases()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, found))
    if bad:
        raise Failed("\n".join(bad))
    return f"{len(found)} cases"


def sanitizer_rows():
    return [Row(f"{p}-cases", f"cases, preset {p}", lambda p=p: all_cases(p)) for p in SANITIZED]
