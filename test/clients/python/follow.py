"""Follows the pods with the client that the first argument names, from the server of the second, for the test that started it.

A line on standard input is answered with what the client holds, as a line of JSON on standard output. The client's own
watch is resumed from the last version that it saw; it lists once, and again only after a 410, which the answer counts.
"""

import asyncio
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


def light(server):
    from lightkube import ApiError, Client, KubeConfig
    from lightkube.config.models import Cluster, User
    from lightkube.resources.core_v1 import Pod

    # Without a user, even one without a name, it refuses to start.
    config = KubeConfig.from_one(cluster=Cluster(server=server), user=User())
    client = Client(config=config)
    version = None
    while True:
        try:
            if version is None:
                pods = client.list(Pod, namespace="*")
                replace({pod.metadata.name: (pod.metadata.labels or {}).get("turn") for pod in pods})
                version = pods.resourceVersion
            else:
                counts["resumed"] += 1
            for kind, pod in client.watch(Pod, namespace="*", resource_version=version):
                version = pod.metadata.resourceVersion
                take(kind, pod.metadata.name, (pod.metadata.labels or {}).get("turn"))
        except ApiError as error:
            if error.status.code == 410:
                counts["expired"] += 1
                version = None
            else:
                wait(error)
        except Exception as error:
            wait(error)


def asynchronous(server):
    asyncio.run(following(server))


async def following(server):
    from kubernetes_asyncio import client, watch

    api = client.CoreV1Api(client.ApiClient(client.Configuration(host=server)))
    version = None
    while True:
        try:
            if version is None:
                pods = await api.list_pod_for_all_namespaces()
                replace({pod.metadata.name: (pod.metadata.labels or {}).get("turn") for pod in pods.items})
                version = pods.metadata.resource_version
            else:
                counts["resumed"] += 1
            arguments = {"resource_version": version, "allow_watch_bookmarks": True, "timeout_seconds": 300}
            async with watch.Watch().stream(api.list_pod_for_all_namespaces, **arguments) as stream:
                async for event in stream:
                    metadata = event["raw_object"]["metadata"]
                    version = metadata["resourceVersion"]
                    take(event["type"], metadata.get("name"), metadata.get("labels", {}).get("turn"))
        except client.ApiException as error:
            if error.status == 410:
                counts["expired"] += 1
                version = None
            else:
                await pause(error)
        except Exception as error:
            await pause(error)


async def pause(error):
    print(repr(error)[:300], file=sys.stderr, flush=True)
    await asyncio.sleep(0.2)


clients = {"kubernetes": official, "kubernetes_asyncio": asynchronous, "lightkube": light}
threading.Thread(target=clients[sys.argv[1]], args=(sys.argv[2],), daemon=True).start()
print('"started"', flush=True)
for line in sys.stdin:
    with lock:
        lines = [f"{name} {turn}" for name, turn in held.items()]
        print(json.dumps({"held": lines, **counts}), flush=True)
