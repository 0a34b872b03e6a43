# SPDX-License-Identifier: Apache-2.0
"""Checks of the sources themselves."""
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import tempfile

import exporter
from harness import BUILD, JOBS, ROOT, Row, command, expect

# From the bottom up; a file includes its own layer and those that stand before it. The configuration stands beside them:
# only the program itself knows both.
LAYERS = ["base", "kernel", "metrics", "catalog", "collectors", "engine", "health", "web"]
BESIDE = {"config": {"base"}}
# May be included by a layer beside those below it: both read files in the forms of the configuration.
ALSO = {"web": {"config"}, "health": {"config"}}
# The prober shares these with the exporter, and is known to none of it.
SHARED = {"base", "kernel", "metrics", "catalog", "web", "config"}
# Headers that cost a compiler a second or more: each in one .cc file of a program alone.
HEAVY = {"CLI/": "exporter/config/", "nlohmann/": None, "libfyaml.h": "exporter/config/", "civetweb.h": "exporter/web/"}


def tracked(*suffixes):
    """Files of the project, those too that are not committed yet."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [p for p in listed.stdout.splitlines() if p.endswith(suffixes) and os.path.isfile(os.path.join(ROOT, p))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def cxx_files():
    return [p for p in tracked(".cc", ".h") if p.startswith(("exporter/", "probes/", "tests/"))
            and "/lab/" not in p]


def clang_format():
    command("clang-format-19", "--dry-run", "-Werror", *cxx_files())


def first_lines():
    bad = []
    for path in tracked(".cc", ".h", ".c", ".def", ".py", ".sh", ".cmake", ".mjs") + ["tests/run"] + scripts("packaging/", "#!"):
        head = read(path).split("\n", 2)[:2]
        if not any("SPDX-License-Identifier: " in l for l in head):
            bad.append(path)
    expect(not bad, f"no licence line: {bad}")


def text_hygiene():
    bad = []
    for path in tracked(".cc", ".h", ".c", ".py", ".sh", ".md", ".cmake", ".txt", ".def", ".mjs"):
        text = read(path)
        if path.startswith(("tests/cases/", "tests/fuzz/corpus/", "tests/golden/")):
            continue
        if re.search(r"[ \t]+$", text, re.M):
            bad.append(f"{path}: blanks at a line's end")
        if text and not text.endswith("\n"):
            bad.append(f"{path}: last line does not end")
        if re.search(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", text):
            bad.append(f"{path}: a mark of unfinished work")
    expect(not bad, "\n".join(bad))


def shell():
    shells = ("#!/bin/bash", "#!/bin/sh")
    found = [p for p in tracked("") if p.endswith(".sh") or p == ".ci/run"] + scripts("tests/", *shells) + scripts("packaging/", *shells)
    command("shellcheck", "-S", "warning", "-e", "SC1091,SC2148", *found, "packaging/completion/roce_exporter", "--shell=bash")


def scripts(below, *starts):
    """Programs without an ending, by their first line."""
    return [p for p in tracked("") if p.startswith(below) and "." not in os.path.basename(p) and read_start(p).startswith(starts)]


def read_start(path):
    with open(os.path.join(ROOT, path), "rb") as f:
        return f.read(64).decode("ascii", "replace")


def python():
    for path in tracked(".py") + scripts("tests/", "#!/usr/bin/env python3") + scripts("packaging/", "#!/usr/bin/env python3"):
        compile(read(path), path, "exec")


def format_rows():
    return [Row("format-cxx", "clang-format 19 changes nothing", clang_format),
            Row("format-licence", "every source names its licence", first_lines),
            Row("format-text", "no stray blanks, no marks of unfinished work", text_hygiene),
            Row("format-shell", "shellcheck", shell),
            Row("format-python", "Python files compile", python)]


def includes_of(path):
    return re.findall(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', read(path), re.M)


def directions():
    bad = []
    for path in cxx_files():
        if path.startswith(("exporter/", "probes/")):
            allowed = SHARED if path.startswith("probes/") else set()
            bad += [f"{path} includes {i}" for i in includes_of(path)
                    if i.startswith("probes/" if path.startswith("exporter/") else "exporter/")
                    and not (path.startswith("probes/") and i.split("/")[1] in allowed)]
        m = re.match(r"exporter/(\w+)/", path)
        if not m:
            continue
        layer = m.group(1)
        allowed = BESIDE.get(layer) or set(LAYERS[: LAYERS.index(layer)] if layer in LAYERS else []) | ALSO.get(layer, set())
        for included in includes_of(path):
            n = re.match(r"exporter/(\w+)/", included)
            if n and n.group(1) != layer and n.group(1) not in allowed:
                bad.append(f"{path} includes {included}")
    expect(not bad, "\n".join(bad))


def heavy():
    users, bad = {}, []
    for path in cxx_files():
        for included in includes_of(path):
            for part, place in HEAVY.items():
                if included.startswith(part) and not path.startswith("tests/"):
                    users.setdefault(part, []).append(path)
                    if path.endswith(".h") or (place and not path.startswith(place)):
                        bad.append(f"{path} includes {included}")
    for part, paths in users.items():
        programs = {p.split("/")[0] for p in paths}
        if HEAVY[part] and len(paths) > len(programs):
            bad.append(f"{part}: in {paths}")
    expect(not bad, "\n".join(bad))


def stand_alone():
    """Each header compiles by itself: it is the first include of its own .cc file, or is compiled here."""
    database = json.load(open(os.path.join(BUILD, "release", "compile_commands.json"), encoding="utf-8"))
    flags = set()
    for entry in database:
        flags.update(re.findall(r"-(?:I|isystem) ?\S+|-D\S+|-std=\S+", entry["command"]))
    flags = [f for flag in sorted(flags) for f in flag.split(" ")]
    headers = [p for p in tracked(".h") if p.startswith("exporter/")]
    every = len(headers)
    headers = [h for h in headers if not os.path.exists(os.path.join(ROOT, h[:-2] + ".cc")) or includes_of(h[:-2] + ".cc")[:1] != [h]]

    def one(header):
        return subprocess.run(["g++", "-fsyntax-only", "-x", "c++", "-std=c++20", "-Wall", "-Wextra", *[f for f in flags if not f.startswith("-std")],
                               "-include", os.path.join(ROOT, header), "/dev/null"], capture_output=True, text=True, check=False)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for header, done in zip(headers, pool.map(one, headers)):
            expect(done.returncode == 0, lambda: f"{header}:\n{done.stderr[:1500]}")
    return f"{every} headers, {len(headers)} compiled here"


def include_rows():
    return [Row("includes-layers", "no file includes a layer above its own", directions),
            Row("includes-heavy", "costly headers in one file each", heavy)]


def reference():
    code, out, err = exporter.call("metrics-reference")
    expect(code == 0, err)
    expect(out == read("packaging/docs/metrics.md"), "packaging/docs/metrics.md is not what `roce_exporter metrics-reference` prints")


def example_is_whole():
    code, out, err = exporter.call("--help")
    expect(code == 0, err)
    flags = {name for name in re.findall(r"^  --collector\.([a-z_]+)$", out, re.M)} - {"disable-defaults"}
    example = set(re.findall(r"^  #?([a-z_]+):", read("packaging/config/roce_exporter.yml"), re.M))
    expect(len(flags) > 30 and flags <= example, f"packaging/config/roce_exporter.yml lacks {sorted(flags - example)} of {len(flags)} collectors")


def checks_reference():
    code, out, err = exporter.call("checks-reference")
    expect(code == 0, err)
    expect(out == read("packaging/docs/checks.md"), "packaging/docs/checks.md is not what `roce_exporter checks-reference` prints")


def prober_call(*words):
    return command(os.path.join(os.path.dirname(exporter.binary()), "roce_prober"), *words).stdout


def prober_reference():
    expect(prober_call("metrics-reference") == read("packaging/docs/metrics-prober.md"),
           "packaging/docs/metrics-prober.md is not what `roce_prober metrics-reference` prints")


def prober_example():
    """The example as it is, and with every line that it offers uncommented: those that name files aside."""
    path = os.path.join(ROOT, "packaging", "config", "roce_prober.yml")
    prober_call("check-config", path)
    text = re.sub(r"^(\s*)#(\S.*)$", lambda m: m.group(0) if "_file" in m.group(2) or m.group(2).startswith(("state_dir", "listen_addresses: [\":14794"))
                  else m.group(1) + m.group(2), read("packaging/config/roce_prober.yml"), flags=re.M)
    text = re.sub(r"^(\s*)#(  -.*)$", r"\1\2", text, flags=re.M)
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
        f.write(text)
        f.flush()
        prober_call("check-config", f.name)


def reference_rows():
    return [Row("reference-example", "each collector is in the example of a configuration", example_is_whole),
            Row("reference-metrics", "packaging/docs/metrics.md is what the program prints", reference),
            Row("reference-checks", "packaging/docs/checks.md is what the program prints", checks_reference),
            Row("reference-prober", "packaging/docs/metrics-prober.md is what the program prints", prober_reference),
            Row("reference-prober-example", "the prober's example configuration is good, also with all of it in use", prober_example),
            Row("includes-alone", "every header compiles alone", stand_alone)]


def tidy_of(files):
    """Findings in these files. One that was clean stays so while neither it nor anything that it includes changes."""
    clean = os.path.join(BUILD, "tests", "tidy")
    os.makedirs(clean, exist_ok=True)
    commands = {os.path.relpath(e["file"], ROOT): e for e in json.load(open(os.path.join(BUILD, "clang", "compile_commands.json"), encoding="utf-8"))}
    settings = read(".clang-tidy")

    def one(path):
        entry = commands[path]
        words = [w for w in entry["command"].split() if os.path.basename(w) != "ccache"]
        words = words[: words.index("-o")] + ["-E", "-P", entry["file"]]
        text = subprocess.run(words, cwd=entry["directory"], capture_output=True, check=True).stdout
        mark = os.path.join(clean, hashlib.sha256(settings.encode() + text + read(path).encode()).hexdigest())
        if os.path.exists(mark):
            return None
        done = subprocess.run(["clang-tidy-19", "--quiet", "-p", os.path.join(BUILD, "clang"), path], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            open(mark, "w", encoding="utf-8").close()
        return done
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        found = list(zip(files, pool.map(one, files)))
    bad = [f"{p}\n{d.stdout[-2500:]}" for p, d in found if d and d.returncode != 0]
    expect(not bad, "\n".join(bad))
    return f"{len(files)} files, {sum(1 for _, d in found if not d)} unchanged since they were clean"


def tidy():
    expect(os.path.exists(os.path.join(BUILD, "clang", "compile_commands.json")), "preset clang is not configured: run the build group first")
    return tidy_of([p for p in tracked(".cc") if p.startswith("exporter/")])


def tidy_rows():
    return [Row("tidy-exporter", "no finding in exporter/", tidy, full_only=True)]
