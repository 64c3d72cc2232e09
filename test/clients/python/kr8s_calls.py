"""Calls kr8s with the server that the first argument names, and prints what it returned as JSON."""

import asyncio
import json
import sys

import kr8s
from kr8s.asyncio.objects import Pod, Table


async def main():
    api = await kr8s.asyncio.api(url=sys.argv[1], kubeconfig="/nonexistent")

    async def names(*arguments, **selectors):
        return [pod.name async for pod in api.get("pods", *arguments, **selectors)]

    async def ready(name, status):
        pod = await Pod.get(name, namespace="default")
        await pod.patch({"status": {"conditions": [{"type": "Ready", "status": status}]}}, subresource="status")

    waiting = await Pod.get("p3", namespace="default")
    wait = asyncio.create_task(waiting.wait("condition=Ready", timeout=30))
    await ready("p3", "False")
    await asyncio.sleep(0.5)
    early = wait.done()
    await ready("p3", "True")
    await wait
    doomed = await Pod.get("p4", namespace="default")
    gone = asyncio.create_task(doomed.wait("delete", timeout=30))
    await asyncio.sleep(0.5)
    await (await Pod.get("p4", namespace="default")).delete()
    await gone
    labelled = await Pod.get("p5", namespace="default")
    await labelled.label({"color": "red"})
    answers = {
        "paged": await names(namespace=kr8s.ALL),
        # Sent as `metadata.name=p1,`.
        "named": await names("p1", "p2", "none", namespace="default"),
        "selected": await names(namespace="default", label_selector={"color": "red"}),
        "fields": await names(namespace="default", field_selector={"metadata.name": "p6"}),
        # Sent without an alternative to the Table.
        "rows": [len(table.raw["rows"]) async for table in api.get("pods", namespace="default", as_object=Table)],
        "kinds": [await api.lookup_kind(kind) for kind in ("po", "Deployment", "endpointslice.discovery.k8s.io/v1")],
        "resources": [[one["version"], one["name"]] for one in await api.api_resources()],
        "waited": [early, waiting.status.conditions[0].status, await doomed.exists()],
    }
    print(json.dumps(answers))


asyncio.run(main())
