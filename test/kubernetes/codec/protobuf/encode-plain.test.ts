/** The documents and bytes are the API server's own (k8s.io/apiserver 0.37.2). */
import t from 'tap'
import { encodePlain } from '../../../../src/kubernetes/codec/protobuf/encode-plain.js'
import { kubernetesSchema } from '../../../../src/kubernetes/codec/protobuf/schema.js'

const documents = [
  {
    kind: 'APIGroup',
    json: '{"kind":"APIGroup","apiVersion":"v1","name":"conv.example.com","versions":[{"groupVersion":"conv.example.com/v2","version":"v2"},{"groupVersion":"conv.example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"conv.example.com/v2","version":"v2"}}',
    base64:
      'azhzAAoOCgJ2MRIIQVBJR3JvdXASYwoQY29udi5leGFtcGxlLmNvbRIZChNjb252LmV4YW1wbGUuY29tL3YyEgJ2MhIZChNjb252LmV4YW1wbGUuY29tL3YxEgJ2MRoZChNjb252LmV4YW1wbGUuY29tL3YyEgJ2MhoAIgA=',
  },
  {
    kind: 'APIResourceList',
    json: '{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"conv.example.com/v1","resources":[{"name":"hooks","singularName":"hook","namespaced":true,"kind":"Hook","verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"storageVersionHash":"S1vMw7ikDC4="}]}',
    base64:
      'azhzAAoVCgJ2MRIPQVBJUmVzb3VyY2VMaXN0EoMBChNjb252LmV4YW1wbGUuY29tL3YxEmwKBWhvb2tzEAEaBEhvb2siQwoGZGVsZXRlChBkZWxldGVjb2xsZWN0aW9uCgNnZXQKBGxpc3QKBXBhdGNoCgZjcmVhdGUKBnVwZGF0ZQoFd2F0Y2gyBGhvb2tCAEoAUgxTMXZNdzdpa0RDND0aACIA',
  },
]

void t.test('discovery documents are written as the API server writes them', async (t) => {
  for (const { kind, json, base64 } of documents) {
    const value = JSON.parse(json) as Record<string, unknown>
    t.equal(encodePlain(kubernetesSchema(), 'v1', kind, value).toString('base64'), base64, kind)
  }
})

void t.test('a kind without a message, and a field without a document, are errors', async (t) => {
  t.throws(() => encodePlain(kubernetesSchema(), 'v1', 'Nothing', {}), RangeError)
  t.throws(() => encodePlain(kubernetesSchema(), 'v1', 'Pod', {}), RangeError)
})
