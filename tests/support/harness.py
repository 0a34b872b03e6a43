# SPDX-License-Identifier: Apache-2.0
"""Groups and rows: what tests/run runs, times, prints and records."""
import concurrent.futures
import dataclasses
import datetime
import os
import subprocess
import sys
import threading
import time
import traceback

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.join(ROOT, "build")
JOBS = os.cpu_count() or 1


class Failed(Exception):
    """A check that did not hold; the text says what was found and what was expected."""


def expect(condition, text):
    if not condition:
        raise Failed(text() if callable(text) else text)


@dataclasses.dataclass
class Row:
    id: str
    what: str
    run: object            # callable; raises Failed (or anything) when it falls short; may return a remark
    full_only: bool = False
    ci_only: bool = False  # a full row, or several, do the same and more
    alone: bool = False    # measures time or uses the whole machine: not beside another row

    def runs_in(self, full):
        return not self.ci_only if full else not self.full_only


@dataclasses.dataclass
class Group:
    name: str
    what: str
    rows: object           # callable -> list of Row
    workers: int = 1       # rows at a time
    prepare: object = None  # callable, before the rows
    finish: object = None   # callable, after them
    background: bool = False  # may run beside other groups


@dataclasses.dataclass
class Outcome:
    id: str
    what: str
    ok: bool
    seconds: float
    remark: str = ""


_print_lock = threading.Lock()


def say(text):
    with _print_lock:
        print(text, flush=True)


def command(*args, cwd=ROOT, env=None, timeout=3600, quiet=True, check=True, text=True, stdin=None):
    """Runs a command; on failure raises Failed with the end of its output."""
    full = dict(os.environ, **env) if env else None
    done = subprocess.run(args, cwd=cwd, env=full, timeout=timeout, text=text, input=stdin, stdout=subprocess.PIPE if quiet else None,
                          stderr=subprocess.STDOUT if quiet else None)
    if check and done.returncode != 0:
        tail = "\n".join((done.stdout or "").strip().splitlines()[-40:]) if text else ""
        raise Failed(f"{' '.join(args[:6])}: exit {done.returncode}\n{tail}")
    return done


def run_row(row):
    start = time.monotonic()
    try:
        remark = row.run() or ""
        return Outcome(row.id, row.what, True, time.monotonic() - start, str(remark))
    except Failed as e:
        return Outcome(row.id, row.what, False, time.monotonic() - start, str(e))
    except Exception:  # a broken test is a failed test
        return Outcome(row.id, row.what, False, time.monotonic() - start, traceback.format_exc())


def run_group(group, full, only=None, from_id=None, earlier=None, keep=None):
    """Runs a group's rows; returns their outcomes in order. Rows before `from_id` are taken from `earlier`; `keep` takes
    each outcome when it is there."""
    start = time.monotonic()
    before = 0.0
    say(f"== {group.name}: {group.what}")
    outcomes = []
    try:
        rows = [r for r in group.rows() if r.runs_in(full) and (only is None or r.id in only)]
    except Exception as e:
        rows = []
        outcomes.append(Outcome(group.name, "list the rows", False, 0, str(e) if isinstance(e, Failed) else traceback.format_exc()))
    if from_id is not None:
        ids = [r.id for r in rows]
        if from_id in ids:
            kept = ids[: ids.index(from_id)]
            outcomes += [earlier[i] for i in kept if i in earlier]
            before = sum(o.seconds for o in outcomes)
            rows = [r for r in rows if r.id not in kept or r.id not in earlier]
    if rows:
        failed_before = None
        if group.prepare:
            prepared = run_row(Row(f"{group.name}-prepare", "prepare", group.prepare))
            if not prepared.ok:
                failed_before = prepared
                outcomes.append(prepared)
                show(prepared)
        if failed_before is None:
            alone = [r for r in rows if r.alone]
            beside = [r for r in rows if not r.alone]
            results = {}
            with concurrent.futures.ThreadPoolExecutor(max(1, group.workers)) as pool:
                futures = {pool.submit(run_row, r): r for r in beside}
                for f in concurrent.futures.as_completed(futures):
                    results[futures[f].id] = f.result()
                    show(f.result(), keep)
            for r in alone:
                results[r.id] = run_row(r)
                show(results[r.id], keep)
            outcomes += [results[r.id] for r in rows]
        if group.finish:
            finished = run_row(Row(f"{group.name}-finish", "clean up", group.finish))
            if not finished.ok:
                outcomes.append(finished)
                show(finished)
    seconds = before + time.monotonic() - start
    bad = sum(not o.ok for o in outcomes)
    say(f"== {group.name}: {len(outcomes) - bad} passed, {bad} failed, {seconds:.0f} s")
    return outcomes, seconds


def show(outcome, keep=None):
    if keep:
        keep(outcome)
    line = f"{'ok  ' if outcome.ok else 'FAIL'} {outcome.id:<28} {outcome.what}  ({outcome.seconds:.1f} s)"
    if outcome.remark:
        line += "".join(f"\n       {part}" for part in outcome.remark.strip().splitlines()[:60])
    say(line)


def commit_id():
    """The commit, with `+changes` when tracked or new files differ from it (test results aside)."""
    try:
        commit = subprocess.run(["git", "-c", "safe.directory=*", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run(["git", "-c", "safe.directory=*", "status", "--porcelain", "--", ".", ":!tests/results"], cwd=ROOT,
                                 capture_output=True, text=True, check=True).stdout.strip()
        return commit + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write_table(group, outcomes, commit, seconds):
    """tests/results/<date>-<group>.md"""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    folder = os.path.join(ROOT, "tests", "results")
    os.makedirs(folder, exist_ok=True)
    bad = sum(not o.ok for o in outcomes)
    lines = [f"# {group.name}: {group.what}", "", f"- commit: {commit}", f"- date: {date}",
             f"- {len(outcomes) - bad} passed, {bad} failed, {seconds:.0f} s", "",
             "| ID | what | result | seconds | remark |", "|---|---|---|---|---|"]
    for o in outcomes:
        remark = (o.remark.strip().splitlines() or [""])
        text = remark[-1] if not o.ok else remark[0]
        lines.append("| {} | {} | {} | {:.1f} | {} |".format(o.id, o.what.replace("|", "\\|"), "ok" if o.ok else "FAILED", o.seconds,
                                                          text.replace("|", "\\|")[:200]))
    path = os.path.join(folder, f"{date}-{group.name}.md")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    return path


def fail_usage(text):
    print(text, file=sys.stderr)
    sys.exit(2)
