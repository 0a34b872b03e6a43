# SPDX-License-Identifier: Apache-2.0
"""Command line of tests/run."""
import json
import os
import sys
import time

import groups
import harness
from harness import BUILD, Outcome, commit_id, fail_usage, run_group, say, write_table

STATE = os.path.join(BUILD, "tests", "full.json")


def main(words):
    update = "--update" in words
    words = [w for w in words if w != "--update"]
    from_id = None
    if "--from" in words:
        at = words.index("--from")
        if at + 1 >= len(words):
            fail_usage("tests/run: --from needs a row ID")
        from_id = words[at + 1]
        del words[at:at + 2]
    if words == ["--list"]:
        for g in groups.ALL:
            print(f"{g.name}: {g.what}")
            for r in g.rows():
                print(f"  {r.id:<32} {r.what}{'  [full]' if r.full_only else '  [CI]' if r.ci_only else ''}")
        return 0
    if any(w in ("-h", "--help") for w in words):
        with open(os.path.join(harness.ROOT, "tests", "run"), encoding="utf-8") as f:
            print("".join(l[2:] for l in f.readlines()[2:8]), end="")
        return 0
    full = bool(words) and words[0] == "full"
    if full:
        words = words[1:]
    names = [g.name for g in groups.ALL]
    chosen = [w for w in words if w in names]
    only = {w for w in words if w not in names} or None
    if only and not chosen:
        fail_usage(f"tests/run: no such group: {' '.join(sorted(only))}; groups: {' '.join(names)}")
    selected = [g for g in groups.ALL if not chosen or g.name in chosen]
    if from_id is not None and not full:
        fail_usage("tests/run: --from belongs to full")
    if update:
        if [g.name for g in selected] != ["golden"]:
            fail_usage("tests/run: --update belongs to golden")
        os.environ["ROCE_UPDATE_GOLDEN"] = "1"

    unknown = (only or set()) - {r.id for g in selected for r in g.rows()}
    if unknown:
        fail_usage(f"tests/run: no row {' '.join(sorted(unknown))} in {' '.join(g.name for g in selected)}")

    commit = commit_id()
    if from_id is not None and not any(from_id == r.id for g in selected for r in g.rows()):
        fail_usage(f"tests/run: no row {from_id}")
    earlier = load_state(commit, needed=from_id is not None)
    known = dict(earlier)

    def keep(outcome):  # at once: a run that is broken off can go on
        known[outcome.id] = outcome
        save_state(commit, known)

    start, table, everything = time.monotonic(), [], []
    reached = from_id is None
    for g in selected:
        if not any(r.runs_in(full) for r in g.rows()):
            continue  # nothing of it belongs to this tier
        if not reached:
            ids = [r.id for r in g.rows()]
            if from_id not in ids:
                kept = [earlier[i] for i in ids if i in earlier]
                table.append((g.name, kept, sum(o.seconds for o in kept)))
                everything += kept
                continue
            reached = True
            outcomes, seconds = run_group(g, full, only, from_id, earlier, keep)
        else:
            outcomes, seconds = run_group(g, full, only, keep=keep if full else None)
        if only and not outcomes:
            continue
        table.append((g.name, outcomes, seconds))
        everything += outcomes
        if full and not only:
            say(f"   written: {os.path.relpath(write_table(g, outcomes, commit, seconds), harness.ROOT)}")

    say("")
    say(f"{'group':<14} {'passed':>7} {'failed':>7} {'seconds':>8}")
    for name, outcomes, seconds in table:
        bad = sum(not o.ok for o in outcomes)
        say(f"{name:<14} {len(outcomes) - bad:>7} {bad:>7} {seconds:>8.0f}")
    say(f"{'all':<14} {sum(o.ok for o in everything):>7} {sum(not o.ok for o in everything):>7} {time.monotonic() - start:>8.0f}")
    failures = [o for o in everything if not o.ok]
    if failures:
        say("failed: " + " ".join(o.id for o in failures))
    if not everything:
        fail_usage("tests/run: nothing was run")
    say(f"{len(everything) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def save_state(commit, outcomes):
    os.makedirs(os.path.dirname(STATE), exist_ok=True)
    written = f"{STATE}.{os.getpid()}"
    with open(written, "w", encoding="utf-8") as f:
        json.dump({"commit": commit, "rows": [o.__dict__ for o in outcomes.values()]}, f)
    os.replace(written, STATE)


def load_state(commit, needed):
    """Outcomes of full runs of this commit by row ID."""
    try:
        with open(STATE, encoding="utf-8") as f:
            state = json.load(f)
    except OSError:
        state = {"commit": "no commit", "rows": []}
    if state["commit"] == commit:
        return {o["id"]: Outcome(**o) for o in state["rows"]}
    if needed:
        fail_usage(f"tests/run: --from: the earlier full run here was of {state['commit']}, this is {commit}")
    return {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
