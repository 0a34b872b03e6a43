# SPDX-License-Identifier: Apache-2.0
"""The exporter's status page in Chromium: on a desk and on a phone, dark and light, with scripts and without, of a host that is well
and of one that is not. Pictures stay in build/tests/dashboards/status."""
import json
import os
import tempfile
import time

import e2e
import trees
from harness import BUILD, ROOT, command, expect

TOOL = os.path.join(ROOT, "tests", "dashboards", "status", "look.mjs")
OUT = os.path.join(BUILD, "tests", "dashboards", "status")
WIDTHS = {"desk": 1280, "phone": 390}
LOST = os.path.join(ROOT, "tests", "cases", "KR-42-pcie-lost-device")
WORDS = {"well": ("mlx5_3/1", "nvme7", "15 min peak"), "ill": ("mlx5_1/1", "the port is down", "warning", "ago)"),
         "lost": ("device lost", "1 failing", "fell off its PCIe bus"), "none": ("No RDMA device here",)}


def looks(jobs):
    """{name: facts}"""
    os.makedirs(OUT, exist_ok=True)
    path = os.path.join(OUT, "jobs.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"out": OUT, "jobs": jobs}, f)
    command("node", TOOL, path, timeout=300)
    found = {}
    for job in jobs:
        with open(os.path.join(OUT, f"{job['name']}.json"), encoding="utf-8") as f:
            found[job["name"]] = json.load(f)
    return found


def all_ways(host, url):
    return [{"name": f"{host}-{size}-{'dark' if dark else 'light'}{'' if script else '-no-script'}", "url": url, "width": width, "dark": dark, "script": script}
            for size, width in WIDTHS.items() for dark, script in ((False, True), (True, True), (False, False))]


def wrong(facts):
    return facts["errors"] + facts["foreign"] + facts["violations"] + ([f"{facts['wide']} pixels wider than the window"] if facts["wide"] > 0 else [])


def check():
    with tempfile.TemporaryDirectory(prefix="roce-status-") as top, e2e.Server(["--demo=made-up"]) as well, e2e.Server([f"--replay={LOST}"]) as lost:
        trees.make(top, 2)
        os.makedirs(f"{top}/none/sys")
        with e2e.Server([f"--path.sysfs={top}/sys", f"--path.procfs={top}/proc"]) as ill, e2e.Server([f"--path.sysfs={top}/none/sys"]) as none:
            for server in (ill, lost, none):
                server.get("/metrics")
            trees.write(f"{top}/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN")
            # Lines of the last minutes begin with the second point.
            for _ in range(2):
                time.sleep(10.5)
                for server in (well, ill):
                    server.get("/metrics")
            urls = {"well": f"http://127.0.0.1:{well.port}/", "ill": f"http://127.0.0.1:{ill.port}/"}
            jobs = [job for host, url in urls.items() for job in all_ways(host, url)]
            for host, server in (("lost", lost), ("none", none)):
                jobs += [job for job in all_ways(host, f"http://127.0.0.1:{server.port}/") if job["script"] and not job["dark"]]
            # What is put in, and a word of what is said of it. The page's own policy forbids the first.
            seeds = [("fetch('http://127.0.0.2:9/').catch(() => 0)", "127.0.0.2"),
                     ("document.querySelector('h1').style = 'color: #777; background: #888'", "color-contrast"),
                     ("document.body.append(new Image())", "image-alt"),
                     ("document.body.append(Object.assign(document.createElement('pre'), {textContent: 'x'.repeat(2000)}))", "wider than the window"),
                     ("console.error('seeded')", "seeded")]
            jobs += [{"name": f"seed-{i}", "url": urls["well"], "width": 1280, "dark": False, "script": True, "spoil": spoil} for i, (spoil, _) in enumerate(seeds)]
            found = looks(jobs)
    for i, (spoil, word) in enumerate(seeds):
        facts = found.pop(f"seed-{i}")
        expect(any(word in w for w in wrong(facts)), lambda s=spoil, f=facts: f"{s} is not found; found: {wrong(f)}")
    for name, facts in found.items():
        expect(not wrong(facts), lambda n=name, f=facts: f"{n}:\n" + "\n".join(wrong(f)[:10]))
        expect(3 <= facts["reached"] < 200, f"{name}: the Tab key reaches {facts['reached']} things")
        words = WORDS[name.split("-")[0]]
        expect(all(w.lower() in facts["text"].lower() for w in words), f"{name}: does not say {words}: {facts['text'][:400]}")
    return f"{len(found)} views, {len(seeds)} seeds"
