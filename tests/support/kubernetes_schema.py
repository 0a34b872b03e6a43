#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads Kubernetes objects, a JSON list, and prints a line for each that does not fit the API: by the models that the
official client is generated of from the API's own schema. An object has to be the same after it has been through its model:
what the API does not know is lost there, what has another type changes, what is required and missing is refused.

Run by Debian's own Python, whose package python3-kubernetes has the client."""
import json
import sys
import types

from kubernetes import client

API = client.ApiClient()


def plain(value):
    """Without what is null, which says the same as what is not there."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if v is not None}
    return [plain(v) for v in value] if isinstance(value, list) else value


def differences(wanted, found, at=""):
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            if key not in found:
                yield f"{at}.{key}: the API knows no such field"
            elif key in wanted:
                yield from differences(wanted[key], found[key], f"{at}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for i, (a, b) in enumerate(zip(wanted, found)):
            yield from differences(a, b, f"{at}[{i}]")
    elif wanted != found or type(wanted) is not type(found):
        yield f"{at}: {wanted!r} is no value for it"


def faults(thing):
    version, kind = thing["apiVersion"].rsplit("/", 1)[-1], thing["kind"]
    model = version[0].upper() + version[1:] + kind
    if not hasattr(client, model):
        return [f"no model of {thing['apiVersion']} {kind}"]
    try:
        made = API.deserialize(types.SimpleNamespace(data=json.dumps(thing)), model)
    except (ValueError, TypeError, AttributeError, client.ApiException) as error:
        return [str(error)]
    return list(differences(plain(thing), plain(API.sanitize_for_serialization(made))))


def main():
    bad = 0
    for thing in json.load(sys.stdin):
        for fault in faults(thing):
            print(f"{thing['kind']} {thing['metadata']['name']}: {fault}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
