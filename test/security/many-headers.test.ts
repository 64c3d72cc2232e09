/**
 * Headers behind thousands of others. Node ignores those beyond a count unless told otherwise: then a gateway that adds
 * `Impersonate-User` to the headers of its client would act for itself, and a second Host or token would go unnoticed.
 */
import t from 'tap'
import { Folder } from '../server/auth/fixtures.js'
import { secureFlags } from '../support/secure-flags.js'
import { needsNode } from '../support/program.js'
import { startServer } from '../support/server-process.js'
import { get } from './support/http1-attacks.js'
import { answered, type Headers, isSettled, PREFACE, request, settings } from './support/http2-frames.js'
import { hasHead, send, statuses } from './support/raw.js'

const NODES = '/api/v1/nodes?limit=1&resourceVersion=0'
const UPGRADE = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
]

void t.test('a header counts, however many are before it', async (t) => {
  const folder = new Folder(t)
  const policy = 'rules: [{users: [gateway], verbs: ["*"], apiGroups: ["*"], resources: ["*"]}]'
  const server = await startServer(t, {
    flags: [
      ...secureFlags(),
      '--port=0',
      `--token-auth-file=${folder.write('tokens.csv', 'gateway,gateway,1\nother,other,2\n')}`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${folder.write('policy.yaml', policy)}`,
    ],
  })
  const rows = [
    ['Impersonate-User: other', 403],
    ['Host: elsewhere', 400],
    ['Authorization: Bearer other', 401],
  ] as const
  for (const layer of ['plain', 'tls'] as const) {
    for (const count of [0, 999, 1_000, 2_000, 6_000]) {
      const before = Array.from({ length: count }, () => 'x: 1')
      const asked = async (path: string, ...more: readonly string[]): Promise<number[]> =>
        statuses(
          await send(server, layer, [get(path, 'Authorization: Bearer gateway', ...before, ...more)], {
            isAnswered: hasHead,
          }),
        )
      // Bun refuses more than 200, except over TLS.
      if (needsNode !== false && layer === 'plain' && count > 200) {
        t.same(await asked(NODES), [431], `${layer}: ${count} headers`)
        continue
      }
      t.same(await asked(NODES), [200], `${layer}: ${count} headers`)
      for (const [header, code] of rows) {
        t.same(await asked(NODES, header), [code], `${layer}: ${header} behind ${count}`)
        const watch = [...UPGRADE, header]
        t.same(
          await asked('/api/v1/nodes?watch=1', ...watch),
          [code],
          `${layer}: a WebSocket: ${header} behind ${count}`,
        )
      }
    }
  }
  for (const layer of needsNode === false ? (['h2', 'h2c'] as const) : (['h2'] as const)) {
    for (const count of [0, 100, 127, 128, 200, 1_000]) {
      const before: Headers = Array.from({ length: count }, () => ['x', '1'])
      const asked = async (...more: Headers): Promise<{ count: number; isOver: boolean }> => {
        const headers: Headers = [['authorization', 'Bearer gateway'], ...before, ...more]
        const parts = [PREFACE, settings(), request(1, NODES, headers)]
        const isOver = (bytes: Buffer): boolean => isSettled(bytes, 1)
        const { bytes, isClosed } = await send(server, layer, parts, { isAnswered: isOver })
        return { count: answered(bytes).length, isOver: isClosed || isOver(bytes) }
      }
      const [allowed, denied] = [1, 0].map((answers) => ({ count: answers, isOver: true }))
      if (count <= 100) t.same(await asked(), allowed, `${layer}: ${count} headers`)
      t.same(await asked(['impersonate-user', 'other']), denied, `${layer}: impersonation behind ${count}`)
      t.same(await asked(['authorization', 'Bearer other']), denied, `${layer}: a second token behind ${count}`)
    }
  }
})
