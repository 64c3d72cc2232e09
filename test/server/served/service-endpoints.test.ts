/** Tests which pods are found behind a Service. */
import t from 'tap'
import type { LiveResource } from '../../../src/kubernetes/dialect/served-live-resource.js'
import { followServiceEndpoints } from '../../../src/server/served/service-endpoints.js'
import { endpointSlice } from '../../support/endpoint-slice.js'
import { PODS } from '../../support/objects.js'

void t.test('a slice may have more endpoints than a call can have arguments', (t) => {
  const pods = Array.from({ length: 200_000 }, (_, i) => ({ uid: `uid-${i}`, name: `d-1-${i}` }))
  const slices = [{ notes: {} }]
  const cache = { readiness: { kind: 'ready' }, snapshot: () => ({ objects: () => slices }), listen: () => () => {} }
  const live = { cache, served: { resource: PODS } } as unknown as LiveResource
  const endpoints = followServiceEndpoints({
    namespace: 'default',
    service: 'd',
    registry: { onChange: () => () => {} },
    find: () => live,
    jsonOf: () => Buffer.from(JSON.stringify(endpointSlice('d-abc', 'd', pods))),
  })
  t.equal(endpoints()?.length, pods.length)
  t.end()
})
