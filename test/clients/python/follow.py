"""Follows the pods with the client that the first argument names, from the server of the second, for the test that started it.

`what` on standard input is answered with what the client holds, as a line of JSON on standard output; any other line is
the name of a ConfigMap to create. The client's own watch is resumed from the last version that it saw; it lists once, and
again only after a 410, which the answer counts. If the server is `in-cluster`, the client takes its settings as in a pod.
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


def official_api(server):
    from kubernetes import client, config

    if server != "in-cluster":
        return client.CoreV1Api(client.ApiClient(client.Configuration(host=server)))
    config.load_incluster_config()
    return client.CoreV1Api()


def official_create(server, name):
    official_api(server).create_namespaced_config_map("default", {"metadata": {"name": name}})


def official(server):
    from kubernetes import client, watch

    api = official_api(server)
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


def light_client(server):
    from lightkube import Client, KubeConfig
    from lightkube.config.models import Cluster, User

    if server == "in-cluster":
        return Client()
    # Without a user, even one without a name, it refuses to start.
    return Client(config=KubeConfig.from_one(cluster=Cluster(server=server), user=User()))


def light_create(server, name):
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    light_client(server).create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


def light(server):
    from lightkube import ApiError
    from lightkube.resources.core_v1 import Pod

    client = light_client(server)
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


def asynchronous_api(server):
    from kubernetes_asyncio import client, config

    if server != "in-cluster":
        return client.CoreV1Api(client.ApiClient(client.Configuration(host=server)))
    config.load_incluster_config()
    return client.CoreV1Api(client.ApiClient())


def asynchronous_create(server, name):
    async def create():
        api = asynchronous_api(server)
        async with api.api_client:
            await api.create_namespaced_config_map("default", {"metadata": {"name": name}})

    asyncio.run(create())


def asynchronous(server):
    asyncio.run(following(server))


async def following(server):
    from kubernetes_asyncio import client, watch

    api = asynchronous_api(server)
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


async def kr8s_api(server):
    import kr8s

    if server == "in-cluster":
        return await kr8s.asyncio.api()
    return await kr8s.asyncio.api(url=server, kubeconfig="/nonexistent")


def kr8s_create(server, name):
    from kr8s.asyncio.objects import ConfigMap

    async def create():
        resource = {"metadata": {"name": name, "namespace": "default"}}
        await (await ConfigMap(resource, api=await kr8s_api(server))).create()

    asyncio.run(create())


def by_events(server):
    asyncio.run(following_events(server))


async def following_events(server):
    """kr8s returns no version with a list, so its first watch begins with all objects.

    By its source it asks for the same version forever after a 410, whatever the server.
    """
    import kr8s

    api = await kr8s_api(server)
    version = None
    while True:
        try:
            if version is None:
                pods = [pod async for pod in api.get("pods", namespace=kr8s.ALL)]
                replace({pod.name: pod.labels.get("turn") for pod in pods})
            else:
                counts["resumed"] += 1
            async for kind, pod in api.watch("pods", namespace=kr8s.ALL, since=version):
                version = pod.metadata.resourceVersion
                take(kind, pod.name, pod.labels.get("turn"))
        except Exception as error:
            await pause(error)


async def pause(error):
    print(repr(error)[:300], file=sys.stderr, flush=True)
    await asyncio.sleep(0.2)


clients = {
    "kr8s": (by_events, kr8s_create),
    "kubernetes": (official, official_create),
    "kubernetes_asyncio": (asynchronous, asynchronous_create),
    "lightkube": (light, light_create),
}
follow, create = clients[sys.argv[1]]
server = sys.argv[2]
threading.Thread(target=follow, args=(server,), daemon=True).start()
print('"started"', flush=True)
for line in sys.stdin:
    command = line.strip()
    if command == "what":
        with lock:
            lines = [f"{name} {turn}" for name, turn in held.items()]
            print(json.dumps({"held": lines, **counts}), flush=True)
        continue
    try:
        create(server, command)
        print("true", flush=True)
    except Exception as error:
        wait(error)
        print("false", flush=True)
