# SPDX-License-Identifier: Apache-2.0
"""Strict reader of the text exposition format 0.0.4, and patterns over its series."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
PAIR = re.compile(rf'({LABEL})="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
VALUE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]Inf|NaN")

# Families whose values differ from run to run. Whether they are there is part of a page, their values are not.
VOLATILE = re.compile(
    r"process_|.*_duration_seconds|.*_age_seconds|.*_in_flight_seconds|roce_exporter_build_info|.*_timestamp_seconds")


class Malformed(Exception):
    pass


def unescape(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), text)


class Series:
    def __init__(self, name, labels, value):
        self.name, self.labels, self.value = name, labels, value

    def __str__(self):
        inner = ",".join(f'{k}="{escape(v)}"' for k, v in self.labels.items())
        return f"{self.name}{{{inner}}} {self.value}" if inner else f"{self.name} {self.value}"


def escape(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Page:
    """A parsed page. Raises Malformed for anything that a strict server would refuse, and for what this project does not
    allow itself: a family without HELP and TYPE, a family in two places, a series twice."""

    def __init__(self, text):
        self.text = text
        self.series, self.types, self.helps = [], {}, {}
        if text and not text.endswith("\n"):
            raise Malformed("the last line does not end")
        seen, closed, family = set(), set(), None
        for number, line in enumerate(text.split("\n")[:-1], 1):
            where = f"line {number}: {line[:160]!r}"
            if line.startswith("#"):
                m = re.fullmatch(rf"# (HELP|TYPE) ({NAME})(?: (.*))?", line)
                if not m:
                    raise Malformed(f"{where}: neither HELP nor TYPE")
                kind, name, rest = m.groups()
                table = self.helps if kind == "HELP" else self.types
                if name in table:
                    raise Malformed(f"{where}: second {kind}")
                if kind == "TYPE" and rest not in ("counter", "gauge", "histogram", "summary", "untyped"):
                    raise Malformed(f"{where}: no such type")
                table[name] = rest or ""
                if name != family:
                    closed.add(family)
                    family = name
                    if name in closed:
                        raise Malformed(f"{where}: the family is in two places")
                continue
            m = SAMPLE.fullmatch(line)
            if not m:
                raise Malformed(f"{where}: no sample line")
            name, inner, value = m.groups()
            if not VALUE.fullmatch(value):
                raise Malformed(f"{where}: no value")
            base = name
            if base != family and self.types.get(family) in ("histogram", "summary"):
                base = re.sub(r"_(bucket|sum|count)$", "", name)
            if base != family or base not in self.types or base not in self.helps:
                raise Malformed(f"{where}: not below the HELP and TYPE of its family")
            labels, at = {}, 0
            inner = inner or ""
            while at < len(inner):
                p = PAIR.match(inner, at)
                if not p:
                    raise Malformed(f"{where}: labels, column {at}")
                if p.group(1) in labels:
                    raise Malformed(f"{where}: label {p.group(1)} twice")
                labels[p.group(1)] = unescape(p.group(2))
                at = p.end()
            key = (name, tuple(sorted(labels.items())))
            if key in seen:
                raise Malformed(f"{where}: this series is there twice")
            seen.add(key)
            if self.types[base] == "counter" and value.startswith("-"):
                raise Malformed(f"{where}: a counter below zero")
            self.series.append(Series(name, labels, value))

    def find(self, pattern):
        return [s for s in self.series if pattern.matches(s)]

    def stable_text(self):
        """The page without the values of volatile families: what a golden file holds."""
        out = []
        for line in self.text.split("\n"):
            name = re.match(rf"(?:# (?:HELP|TYPE) )?({NAME})", line)
            if name and not line.startswith("#") and VOLATILE.fullmatch(name.group(1) + "") is None:
                if not VOLATILE.match(name.group(1)):
                    out.append(line)
                    continue
            if name and VOLATILE.match(name.group(1)):
                continue
            out.append(line)
        return "\n".join(out)


class Pattern:
    """NAME{label="value",label=~"regex",...}: matches series that have at least these labels. NAME may hold `*`."""

    PART = re.compile(rf'\s*({LABEL})(=~|=)"((?:[^"\\]|\\.)*)"\s*(,|$)')

    def __init__(self, text):
        self.text = text.strip()
        m = re.fullmatch(r"([a-zA-Z0-9_:*|]+)(?:\{(.*)\})?", self.text, re.S)
        if not m:
            raise ValueError(f"no pattern: {text!r}")
        self.name = re.compile(m.group(1).replace("*", ".*"))
        self.equal, self.like = {}, {}
        at, inner = 0, m.group(2) or ""
        while at < len(inner):
            p = self.PART.match(inner, at)
            if not p:
                raise ValueError(f"no pattern: {text!r}, column {at} of the labels")
            if p.group(2) == "=":
                self.equal[p.group(1)] = unescape(p.group(3))
            else:
                self.like[p.group(1)] = re.compile(p.group(3))
            at = p.end()

    def matches(self, series):
        return (self.name.fullmatch(series.name) is not None
                and all(series.labels.get(k, "") == v for k, v in self.equal.items())
                and all(r.fullmatch(series.labels.get(k, "")) for k, r in self.like.items()))


def same_value(found, wanted):
    """Integers exactly, to the last digit; other numbers as doubles."""
    if re.fullmatch(r"[+-]?\d+", found) and re.fullmatch(r"[+-]?\d+", wanted):
        return int(found) == int(wanted)
    try:
        a, b = float(found), float(wanted)
    except ValueError:
        return found == wanted
    return a == b or (a != a and b != b)
