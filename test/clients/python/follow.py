"""Follows the pods with the client that the first argument names, from the server of the second, for the test that started it.

A line on standard input is answered with what the client holds, as a line of JSON on standard output. The client's own
watch is resumed from the last version that it saw; it lists once, and again only after a 410, which the answer counts.
"""

import json
import sys
import threading
import time

held = {}
counts = {"lists": 0, "resumed": 0, "expired": 0}
lock = threading.Lock()


def take(kind, name, turn):
    with lock:
        if kind == "DELETED":
            held.pop(name, None)
        elif kind in ("ADDED", "MODIFIED"):
            held[name] = turn


def replace(pairs):
    with lock:
        counts["lists"] += 1
        held.clear()
        held.update(pairs)


def wait(error):
    print(repr(error)[:300], file=sys.stderr, flush=True)
    time.sleep(0.2)


def official(server):
    from kubernetes import client, watch

    api = client.CoreV1Api(client.ApiClient(client.Configuration(host=server)))
    version = None
    while True:
        try:
            if version is None:
                pods = api.list_pod_for_all_namespaces()
                replace({pod.metadata.name: (pod.metadata.labels or {}).get("turn") for pod in pods.items})
                version = pods.metadata.resource_version
            else:
                counts["resumed"] += 1
            stream = watch.Watch()
            arguments = {"resource_version": version, "allow_watch_bookmarks": True, "timeout_seconds": 300}
            for event in stream.stream(api.list_pod_for_all_namespaces, **arguments):
                raw = event["raw_object"]
                version = raw["metadata"]["resourceVersion"]
                take(event["type"], raw["metadata"].get("name"), raw["metadata"].get("labels", {}).get("turn"))
        except client.ApiException as error:
            if error.status == 410:
                counts["expired"] += 1
                version = None
            else:
                wait(error)
        except Exception as error:
            wait(error)


clients = {"kubernetes": official}
threading.Thread(target=clients[sys.argv[1]], args=(sys.argv[2],), daemon=True).start()
print('"started"', flush=True)
for line in sys.stdin:
    with lock:
        lines = [f"{name} {turn}" for name, turn in held.items()]
        print(json.dumps({"held": lines, **counts}), flush=True)
