/**
 * The documents and bytes are the API server's own (k8s.io/apiserver 0.37.2); of aggregated discovery, the first group.
 */
import t from 'tap'
import { type JsonRecord, treeFrom } from '../../../../../src/kubernetes/codec/json-tree.js'
import { encodeObject } from '../../../../../src/kubernetes/codec/protobuf/encode-object.js'
import { kubernetesSchema } from '../../../../../src/kubernetes/codec/protobuf/schema.js'

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
  {
    kind: 'APIVersions',
    json: '{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"192.0.2.2:23202"}]}',
    base64: 'azhzAAoPCgASC0FQSVZlcnNpb25zEiIKAnYxEhwKCTAuMC4wLjAvMBIPMTkyLjAuMi4yOjIzMjAyGgAiAA==',
  },
  {
    kind: 'APIGroupDiscoveryList',
    json: '{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"apiregistration.k8s.io"},"versions":[{"version":"v1","resources":[{"resource":"apiservices","responseKind":{"group":"","version":"","kind":"APIService"},"scope":"Cluster","singularResource":"apiservice","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"categories":["api-extensions"],"subresources":[{"subresource":"status","responseKind":{"group":"","version":"","kind":"APIService"},"verbs":["get","patch","update"]}]}],"freshness":"Current"}]}]}',
    base64:
      'azhzAAovChZhcGlkaXNjb3ZlcnkuazhzLmlvL3YyEhVBUElHcm91cERpc2NvdmVyeUxpc3QS/QEKBgoAEgAaABLyAQomChZhcGlyZWdpc3RyYXRpb24uazhzLmlvEgAaACIAKgAyADgAQgASxwEKAnYxErcBCgthcGlzZXJ2aWNlcxIQCgASABoKQVBJU2VydmljZRoHQ2x1c3RlciIKYXBpc2VydmljZSoGY3JlYXRlKgZkZWxldGUqEGRlbGV0ZWNvbGxlY3Rpb24qA2dldCoEbGlzdCoFcGF0Y2gqBnVwZGF0ZSoFd2F0Y2g6DmFwaS1leHRlbnNpb25zQi4KBnN0YXR1cxIQCgASABoKQVBJU2VydmljZSIDZ2V0IgVwYXRjaCIGdXBkYXRlGgdDdXJyZW50GgAiAA==',
  },
]

void t.test('discovery documents are written as the API server writes them', async (t) => {
  for (const { kind, json, base64 } of documents) {
    const value = treeFrom(JSON.parse(json)) as JsonRecord
    t.equal(encodeObject(value, kubernetesSchema())?.toString('base64'), base64, kind)
  }
})
