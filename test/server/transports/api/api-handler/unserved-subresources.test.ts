/**
 * Requests that only a control plane with kubelets can answer are refused with an explanation, whether writes are on or
 * not.
 */
import t from 'tap'
import { startApp } from '../../../../support/app.js'

const POD = '/api/v1/namespaces/default/pods/a'

const ASKED: readonly (readonly [method: string, path: string, message: RegExp])[] = [
  ['GET', `${POD}/log?follow=true`, /^log of pods "a" is not served here: the kubelet/],
  ['POST', `${POD}/exec?command=ls`, /^exec of pods "a"/],
  ['GET', `${POD}/exec?command=ls`, /^exec of pods "a"/],
  ['POST', `${POD}/attach`, /^attach of pods "a"/],
  ['POST', `${POD}/portforward`, /^portforward of pods "a"/],
  ['GET', `${POD}/proxy/metrics/x`, /^proxy of pods "a"/],
  ['PATCH', `${POD}/ephemeralcontainers`, /^ephemeralcontainers of pods "a"/],
  ['POST', '/api/v1/namespaces/default/serviceaccounts/a/token', /^token of serviceaccounts "a" .* signs tokens/],
  ['GET', '/api/v1/nodes/n/proxy/stats', /^proxy of nodes "n"/],
]

for (const flags of [[], ['--enable-writes']]) {
  void t.test(`with ${flags.join(' ') || 'no flags'}`, async (t) => {
    const { url } = await startApp(t, { flags })
    for (const [method, path, message] of ASKED) {
      const response = await fetch(`${url}${path}`, { method })
      const body = (await response.json()) as Record<string, unknown>
      t.equal(response.status, 501, `${method} ${path}`)
      t.match(body, { kind: 'Status', status: 'Failure', code: 501, message }, `${method} ${path}`)
    }
    for (const path of [`${POD}/odd`, '/api/v1/namespaces/default/configmaps/a/log', `${POD}/constructor`]) {
      t.equal((await fetch(`${url}${path}`)).status, 404, path)
    }
  })
}
