# SPDX-License-Identifier: Apache-2.0
"""How much of what went wrong was told, and how much of what was told was right: over a whole run."""
from harness import expect


class Score:
    def __init__(self):
        self.faults, self.benign, self.right, self.wrong = {}, set(), 0, []

    def fault(self, name, told, right, wrong):
        """A fault: whether its own alert came, on its object and with its words; how many alerts came that are true of it; what
        else came."""
        self.faults[name] = told and self.faults.get(name, True)
        self._add(name, right, wrong)

    def event(self, name, right, wrong):
        """What has to be told to nobody."""
        self.benign.add(name)
        self._add(name, right, wrong)

    def _add(self, name, right, wrong):
        self.right += right
        self.wrong += [f"{name}: {w}" for w in wrong]

    def text(self):
        told, all_came = sum(self.faults.values()), self.right + len(self.wrong)
        recall, precision = (f"{100 * a / b:.1f} %" if b else "-" for a, b in ((told, len(self.faults)), (self.right, all_came)))
        return f"recall {recall} ({told} of {len(self.faults)} faults), precision {precision} ({self.right} of {all_came} alerts), {len(self.benign)} benign events"

    def check(self):
        expect(self.faults or self.benign, "nothing was injected")
        missed = sorted(n for n, told in self.faults.items() if not told)
        expect(not missed and not self.wrong, lambda: f"{self.text()}\nnot told: {missed}\ntold wrongly:\n" + "\n".join(self.wrong))
        return self.text()
