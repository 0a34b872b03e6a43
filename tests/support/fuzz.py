# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: every input of the corpora once, then new ones for a time shared by all targets. The short run takes the
targets of the build for unit tests, which compiles nothing twice; the long one those that are optimised."""
import os
import shutil
import tempfile

import builds
import exporter
from harness import BUILD, ROOT, Failed, Row, command, expect

SECONDS, SECONDS_FULL = 60, 300
CORPUS = os.path.join(ROOT, "tests", "fuzz", "corpus")


def targets():
    folder = os.path.join(ROOT, "tests", "fuzz")
    return sorted(n[: -len("_fuzz.cc")] for n in os.listdir(folder) if n.endswith("_fuzz.cc"))


def program(name, preset="asan"):
    return os.path.join(BUILD, preset, "bin", f"{name}_fuzz")


def replay():
    inputs = 0
    for name in targets():
        folder = os.path.join(CORPUS, name)
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        expect(files, f"{name}: no corpus")
        command(program(name), *[os.path.join(folder, f) for f in files], env=exporter.environment(program(name)), timeout=600)
        inputs += len(files)
    return f"{len(targets())} targets, {inputs} inputs"


def fuzz(seconds, preset):
    each = max(5, seconds // max(1, len(targets())))
    for name in targets():
        with tempfile.TemporaryDirectory(prefix="roce-fuzz-") as work:
            new = os.path.join(work, "new")
            os.makedirs(new)
            try:
                command(program(name, preset), f"-max_total_time={each}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=0",
                        "-verbosity=0", f"-artifact_prefix={work}/", new, os.path.join(CORPUS, name), env=exporter.environment(program(name, preset)), timeout=each + 300)
            except Failed as e:
                kept = []
                for f in os.listdir(work):
                    if f.startswith(("crash-", "leak-", "timeout-", "oom-", "slow-unit-")):
                        os.makedirs(os.path.join(BUILD, "tests", "fuzz"), exist_ok=True)
                        kept.append(shutil.copy(os.path.join(work, f), os.path.join(BUILD, "tests", "fuzz", f"{name}-{f}")))
                raise Failed(f"{name}: input kept in {kept}\n{e}") from None
    return f"{len(targets())} targets, {each} s each"


def long_run():
    builds.build("fuzz", "fuzzers")
    return fuzz(SECONDS_FULL, "fuzz")


def rows():
    return [Row("fuzz-build", "build, preset asan", lambda: builds.build("asan", "fuzzers")),
            Row("fuzz-replay", "corpora", replay),
            Row("fuzz-run", f"{SECONDS} s over all targets", lambda: fuzz(SECONDS, "asan"), alone=True),
            Row("fuzz-long", f"{SECONDS_FULL} s over all targets, optimised", long_run, full_only=True, alone=True)]
