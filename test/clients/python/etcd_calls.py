"""The calls of python-etcd3 in etcd's own API. Prints what each gave as one JSON object."""
import json
import sys
import threading

import etcd3

client = etcd3.client(host="127.0.0.1", port=int(sys.argv[1]))
seen = {}

events = []
everything = threading.Event()


def watched(response):
    for event in response.events:
        events.append([type(event).__name__, event.key.decode(), event.value.decode(), event.prev_value.decode()])
        if len(events) == 3:
            everything.set()


watch = client.add_watch_callback("/flags/", watched, range_end="/flags0", prev_kv=True)
client.put("/flags/a", "1")
client.put("/flags/a", "2")
client.delete("/flags/a")
everything.wait(20)
client.cancel_watch(watch)
seen["events"] = events

client.put("/flags/b", "x")
client.put("/flags/c", "y")
value, meta = client.get("/flags/b")
seen["get"] = [value.decode(), meta.key.decode(), meta.version]
seen["absent"] = client.get("/flags/absent")[0]
seen["prefix"] = [value.decode() for value, _ in client.get_prefix("/flags/", sort_order="descend")]
seen["replaced"] = [client.replace("/flags/b", "wrong", "z"), client.replace("/flags/b", "x", "z")]
seen["created"] = [client.put_if_not_exists("/flags/b", "no"), client.put_if_not_exists("/flags/d", "yes")]
ok, answers = client.transaction(
    compare=[client.transactions.value("/flags/c") == "y", client.transactions.version("/flags/c") > 0],
    success=[client.transactions.put("/flags/c", "yy"), client.transactions.get("/flags/c")],
    failure=[],
)
seen["transaction"] = [ok, answers[1][0][0].decode()]

lease = client.lease(30)
client.put("/flags/leased", "1", lease=lease)
seen["lease"] = [lease.granted_ttl, [key.decode() for key in lease.keys], lease.refresh()[0].TTL]
lease.revoke()
seen["revoked"] = client.get("/flags/leased")[0]

with client.lock("held", ttl=30) as lock:
    seen["lock"] = lock.is_acquired()

seen["members"] = [list(member.client_urls) for member in client.members]
seen["version"] = client.status().version.split(".")[0]
try:
    client.get_response("/elsewhere")
    seen["refused"] = "no"
except Exception as error:
    seen["refused"] = type(error).__name__

print(json.dumps(seen))
