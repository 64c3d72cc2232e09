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
import { answered, type Headers, PREFACE, request, settings } from './support/http2-frames.js'
import { send, statuses } from './support/raw.js'

/** Answered from the cache, because the test waits only a moment for a response. */
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
        statuses(await send(server, layer, [get(path, 'Authorization: Bearer gateway', ...before, ...more)]))
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
      const asked = async (...more: Headers): Promise<number> => {
        const headers: Headers = [['authorization', 'Bearer gateway'], ...before, ...more]
        // The settings come first, and on a busy machine the response some time after them.
        const patience = more.length === 0 ? { quietMs: 1_000 } : {}
        const parts = [PREFACE, settings(), request(1, NODES, headers)]
        return answered((await send(server, layer, parts, patience)).bytes).length
      }
      if (count <= 100) t.equal(await asked(), 1, `${layer}: ${count} headers`)
      t.equal(await asked(['impersonate-user', 'other']), 0, `${layer}: impersonation behind ${count}`)
      t.equal(await asked(['authorization', 'Bearer other']), 0, `${layer}: a second token behind ${count}`)
    }
  }
})
