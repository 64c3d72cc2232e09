import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { issueCertificate } from '../../support/issue-certificate.js'
import { load } from '../../../src/server/config/load.js'
import { Metrics } from '../../../src/server/metrics/metrics.js'
import { followCertificateExpiry } from '../../../src/server/wiring/certificate-expiry.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const DAY_S = 86_400
const LOOK_MS = 10_100

function issue(endS: number): { cert: string; key: string } {
  return issueCertificate({ commonName: 'a', notBefore: 0, notAfter: endS * 1_000 })
}

void t.test(
  'the metric has the expiry of each certificate, follows its file, and keeps the last good one',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'distributary-expiry-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const path = (name: string): string => join(folder, name)
    const put = (name: string, endS: number): void => {
      const { cert, key } = issue(endS)
      writeFileSync(path(`${name}.crt`), cert)
      writeFileSync(path(`${name}.key`), key)
    }
    put('serving', 100 * DAY_S)
    // A chain expires with the first of its certificates.
    writeFileSync(path('etcd.crt'), issue(70 * DAY_S).cert + issue(60 * DAY_S).cert)
    writeFileSync(path('etcd.key'), '')
    const data = (text: string): string => Buffer.from(text).toString('base64')
    const { cert, key } = issue(50 * DAY_S)
    const user = { 'client-certificate-data': data(cert), 'client-key-data': data(key) }
    const kubeconfig = {
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
      users: [{ name: 'u', user }],
    }
    writeFileSync(path('kubeconfig'), JSON.stringify(kubeconfig))
    put('client', 40 * DAY_S)
    const named = { 'client-certificate': 'client.crt', 'client-key': 'client.key' }
    writeFileSync(path('naming'), JSON.stringify({ ...kubeconfig, users: [{ name: 'u', user: named }] }))
    const flags = [
      ['--etcd-servers', 'https://127.0.0.1:1'],
      ['--etcd-certfile', path('etcd.crt')],
      ['--etcd-keyfile', path('etcd.key')],
      ['--tls-cert-file', path('serving.crt')],
      ['--tls-private-key-file', path('serving.key')],
      ['--authentication-kubeconfig', path('kubeconfig')],
      ['--authorization-mode', 'Webhook'],
      ['--authorization-kubeconfig', path('naming')],
    ].flat()
    const loaded = load(flags, {}, (file) => readFileSync(file, 'utf8'))
    if (loaded.kind !== 'run') throw new Error('no configuration')

    const metrics = new Metrics('0')
    const clock = new VirtualClock()
    const stop = followCertificateExpiry(loaded.config, clock, metrics)
    t.teardown(stop)
    const samples = async (): Promise<Record<string, number>> => {
      const { text } = await metrics.expose()
      const found = text.matchAll(
        /^distributary_certificate_expiry_timestamp_seconds\{use="(\w+)",file="([^"]+)"\} (\d+)$/gm,
      )
      return Object.fromEntries([...found].map(([, use, file, end]) => [`${use} ${file}`, Number(end) / DAY_S]))
    }
    const [serving, etcd, review, access] = [
      `clients ${path('serving.crt')}`,
      `etcd ${path('etcd.crt')}`,
      `authentication ${path('kubeconfig')}`,
      `authorization ${path('naming')}`,
    ]
    t.same(await samples(), { [serving]: 100, [etcd]: 60, [review]: 50, [access]: 40 })

    put('etcd', 200 * DAY_S)
    put('client', 300 * DAY_S)
    writeFileSync(path('serving.crt'), 'half of a')
    clock.advance(LOOK_MS)
    t.same(await samples(), { [serving]: 100, [etcd]: 200, [review]: 50, [access]: 300 })
  },
)
