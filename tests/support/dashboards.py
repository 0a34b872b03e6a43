# SPDX-License-Identifier: Apache-2.0
"""Dashboards: made of their sources, sound, and what their panels say of healthy and broken hosts."""
import glob
import hashlib
import json
import os
import shutil
import sys
import tempfile

import board_data
import board_drawing
import board_queries
import dashboard_lint
import status_drawing
from harness import BUILD, ROOT, Row, command, expect

SOURCES = os.path.join(ROOT, "dashboards", "src")
TOOLS = os.path.join(ROOT, "tests", "dashboards")
WORK = os.path.join(BUILD, "tests", "dashboards")


def install():
    """The packages of both lock files, where they are not there yet."""
    for folder in (SOURCES, TOOLS):
        with open(os.path.join(folder, "package-lock.json"), "rb") as f:
            wanted = hashlib.sha256(f.read()).hexdigest()
        stamp = os.path.join(folder, "node_modules", ".of-lock-file")
        if os.path.exists(stamp):
            with open(stamp, encoding="utf-8") as f:
                if f.read() == wanted:
                    continue
        command("npm", "ci", "--prefer-offline", cwd=folder)
        with open(stamp, "w", encoding="utf-8") as f:
            f.write(wanted)


def node(*args, check=True, **more):
    return command("node", *args, check=check, **more)


def fresh():
    """The boards are what their sources make, and another setting changes them."""
    done = node(os.path.join(SOURCES, "generate.mjs"), "--check", check=False)
    expect(done.returncode == 0, lambda: f"run node dashboards/src/generate.mjs:\n{done.stdout}")
    with tempfile.TemporaryDirectory(prefix="roce-boards-") as folder:
        node(os.path.join(SOURCES, "generate.mjs"), "--set", "runbooks=https://wiki/roce", "--to", folder)
        made = sorted(glob.glob(os.path.join(folder, "*.json")))
        expect(len(made) == len(dashboard_lint.UIDS), f"--to made {made}")
        for path in made:
            with open(path, encoding="utf-8") as f:
                expect('"https://wiki/roce"' in f.read(), f"{os.path.basename(path)} does not take --set runbooks=")
        shutil.copy(os.path.join(dashboard_lint.BOARDS, "roce-port.json"), os.path.join(folder, "roce-port.json"))
        done = node(os.path.join(SOURCES, "generate.mjs"), "--check", "--set", "runbooks=https://wiki/roce", "--to", folder, check=False)
        expect(done.returncode == 1 and done.stdout == "differs: roce-port.json\n", f"--check of an old board says {done.stdout!r}, exit {done.returncode}")
    done = node(os.path.join(SOURCES, "generate.mjs"), "--set", "colour=red", check=False)
    expect(done.returncode == 2, f"a setting that does not exist: exit {done.returncode}")


def schema():
    paths = [os.path.join(dashboard_lint.BOARDS, f"{uid}.json") for uid in dashboard_lint.UIDS]
    done = node(os.path.join(TOOLS, "schema.mjs"), *paths, check=False)
    expect(done.returncode == 0, lambda: done.stdout)
    seeds = [("legendFormatt", lambda p: p["targets"][0].update(legendFormatt="x")),
             ("colorMode", lambda p: p["options"].update(colorMode="backdrop")),
             ("graphmode", lambda p: p["options"].update(graphmode="none")),
             ("thresholds", lambda p: p["fieldConfig"]["defaults"]["thresholds"].update(mode="relative")),
             ("a key titel", lambda p: p.update(titel="x")),
             ("the kind graph", lambda p: p.update(type="graph"))]
    with tempfile.TemporaryDirectory(prefix="roce-boards-") as folder:
        board = json.dumps(dashboard_lint.boards()["roce-port"])
        bad = json.loads(board)
        states = [p for p in dashboard_lint.panels(bad) if p["type"] == "stat"]
        for (_, seed), panel in zip(seeds, states):
            seed(panel)
        path = os.path.join(folder, "roce-port.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(bad, f)
        done = node(os.path.join(TOOLS, "schema.mjs"), path, check=False)
    for (want, _), panel in zip(seeds, states):
        expect(any(panel["title"] in line and want in line for line in done.stdout.splitlines()), lambda: f"seeded `{want}` is not found:\n{done.stdout}")
    return f"{len(paths)} boards, {len(seeds)} seeds"


def rows():
    return [Row("boards-fresh", "boards are what their sources make", fresh),
            Row("boards-lint", "queries, links, texts and colours of boards, by reading", dashboard_lint.check),
            Row("boards-alert-links", "alerts lead to boards that are there", dashboard_lint.check_alert_links),
            Row("boards-lint-seeded", "the lint finds what is seeded", dashboard_lint.check_seeded),
            Row("boards-schema", "boards fit the schemas of the SDK's types", schema),
            Row("boards-data", "the samples that panels are tested on are such as both programs make", board_data.check_catalog),
            Row("boards-queries", "every query of every panel on a healthy and a broken fleet", board_queries.check),
            Row("boards-drawn", "boards drawn by Grafana's packages: texts, colours, units", board_drawing.check),
            Row("boards-drawn-seeded", "wrong colours, texts and units are found in what is drawn", board_drawing.check_seeded),
            Row("status-drawn", "the status page in Chromium: no error, no other host, axe-core, narrow and wide, dark and light, without scripts", status_drawing.check),
            Row("boards-drawn-15m", "boards over a quarter of an hour", lambda: board_drawing.check_range(900, "-15m", False), full_only=True),
            Row("boards-drawn-24h", "boards over a day", lambda: board_drawing.check_range(86400, "-24h", True), full_only=True)]


if __name__ == "__main__":
    # Read the difference: it is what people see at night.
    sys.exit(0 if sys.argv[1:] == ["--update"] and print(board_queries.check(update=True)) is None else 2)
