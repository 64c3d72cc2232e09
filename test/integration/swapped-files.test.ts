/**
 * The files that decide who may read what are broken and replaced under a running server, in each way in which programs
 * do that. Until a file can be used again, its last good content stays in force, the log says so, and a metric is 0.
 */
import { execFileSync } from 'node:child_process'
import { createHash, createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { parseEncryptionConfiguration } from '../../src/kubernetes/encryption/configuration.js'
import { EncryptionAtRest } from '../../src/kubernetes/encryption/encryption-at-rest.js'
import { openKeyService } from '../../src/kubernetes/encryption/key-service.js'
import { systemClock } from '../../src/support/clock.js'
import { configuration, provider } from '../reference/encryption/configurations.js'
import { Folder } from '../server/auth/fixtures.js'
import { createAuthority } from '../support/certificates.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const ISSUER = 'https://kubernetes.default.svc'
const SECRETS = '/api/v1/namespaces/default/secrets'
const NAMES = ['policy.yaml', 'tls.crt', 'tls.key', 'encryption.json', 'sa.pub'] as const
type Contents = Readonly<Record<(typeof NAMES)[number], string>>
/** The labels of the metric: what is read together. */
const GROUPS = ['policy.yaml', 'tls.crt, tls.key', 'encryption.json', 'sa.pub'] as const

/** What the files grant: each generation its own namespace, certificate, encryption key and token. */
interface Generation {
  readonly contents: Contents
  readonly namespace: string
  readonly serialNumber: string
  readonly secret: string
  readonly token: string
}

const BROKEN: Contents = {
  'policy.yaml': 'rules:\n  - users: [ann]\n    verb: [get]\n',
  'tls.crt': 'no certificate',
  'tls.key': 'no key',
  'encryption.json': '{"kind": "EncryptionConfiguration"',
  'sa.pub': 'no key',
}

async function generation(t: Test, etcd: EtcdProcess, n: number): Promise<Generation> {
  const { cert, key } = createAuthority(t).server()
  const encryption = configuration([[['secrets'], provider('secretbox', `of ${n}`)]])
  const atRest = new EncryptionAtRest({
    configuration: parseEncryptionConfiguration(Buffer.from(encryption)),
    openKeyService,
    clock: systemClock,
  })
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: `s${n}`, namespace: 'default' } }
  const stored = `/registry/secrets/default/s${n}`
  const sealed = await atRest
    .transformOf({ group: '', plural: 'secrets' })
    .seal(keyFromText(stored), Buffer.from(JSON.stringify(secret)))
  await put(etcd, stored, sealed)
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const publicKey = createPublicKey(privateKey)
  const kid = createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64url')
  const now = Math.floor(Date.now() / 1_000)
  const token = await new SignJWT({
    iss: ISSUER,
    aud: [ISSUER],
    sub: 'system:serviceaccount:default:agent',
    iat: now,
    nbf: now,
    exp: now + 600,
    'kubernetes.io': { namespace: 'default', serviceaccount: { name: 'agent', uid: 'uid-of-agent' } },
  })
    .setProtectedHeader({ alg: 'ES256', kid })
    .sign(privateKey)
  return {
    contents: {
      'policy.yaml': `rules:
  - {users: [ann], verbs: [list], apiGroups: [""], resources: [pods], namespaces: [v${n}]}
  - {users: [ann], verbs: [get], apiGroups: [""], resources: [secrets], namespaces: [default]}
  - {users: ["*"], verbs: [get], paths: [/version]}
`,
      'tls.crt': readFileSync(cert, 'utf8'),
      'tls.key': readFileSync(key, 'utf8'),
      'encryption.json': encryption,
      'sa.pub': String(publicKey.export({ type: 'spki', format: 'pem' })),
    },
    namespace: `v${n}`,
    serialNumber: new X509Certificate(readFileSync(cert)).serialNumber,
    secret: `s${n}`,
    token,
  }
}

async function put(etcd: EtcdProcess, key: string, value: Buffer): Promise<void> {
  const base64 = { key: Buffer.from(key).toString('base64'), value: value.toString('base64') }
  await etcd.call('kv/put', base64)
}

/** Returns the files whose content from `one`, and not from `other`, is in force for new connections. */
async function inForce(server: ServerProcess, one: Generation, other: Generation): Promise<readonly string[]> {
  const code = async (path: string, token: string): Promise<number> => {
    const headers = { authorization: `Bearer ${token}`, connection: 'close' }
    const answer = await fetch(`${server.url}${path}`, { headers })
    await answer.arrayBuffer()
    return answer.status
  }
  const pods = async ({ namespace }: Generation) => await code(`/api/v1/namespaces/${namespace}/pods`, 'ann')
  const secret = async (of: Generation) => await code(`${SECRETS}/${of.secret}`, 'ann')
  const version = async (of: Generation) => await code('/version', of.token)
  const are = [
    (await pods(one)) === 200 && (await pods(other)) === 403,
    (await serialNumberOf(server)) === one.serialNumber,
    // Values that the first key decrypted stay in the cache, as in the API server.
    (await secret(one)) === 200 && (one.namespace === 'v2' || (await secret(other)) === 500),
    (await version(one)) === 200 && (await version(other)) === 401,
  ]
  return GROUPS.filter((_, i) => are[i])
}

async function serialNumberOf({ securePort: port }: ServerProcess): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  return serialNumber
}

/** Returns the files that the metric reports as usable, or as unusable. */
async function metric({ metricsUrl }: ServerProcess, folder: string, value: 0 | 1): Promise<readonly string[]> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text()
  const samples = text.matchAll(/^distributary_watched_files_usable\{files="(.*)"\} (\d)$/gm)
  const named = [...samples].filter(([, , is]) => is === String(value)).map(([, files = '']) => files)
  return GROUPS.filter((group) => named.includes(group.replaceAll(/[^ ]+/g, (name) => join(folder, name))))
}

interface Way {
  readonly name: string
  /** Puts the files in their place, while the server runs or before. */
  readonly put: (folder: string, contents: Contents) => void
  /** Breaks the files. Default: puts broken content in their place in the same way. */
  readonly break?: (folder: string) => void
}

const each = (folder: string, work: (path: string, name: (typeof NAMES)[number]) => void): void =>
  NAMES.forEach((name) => work(join(folder, name), name))

let dataFolders = 0

const renamed: Way['put'] = (folder, contents) =>
  each(folder, (path, name) => {
    writeFileSync(`${path}.new`, contents[name])
    renameSync(`${path}.new`, path)
  })

const remove = (folder: string): void => each(folder, (path) => rmSync(path, { force: true, recursive: true }))

const afresh: Way['put'] = (folder, contents) => {
  remove(folder)
  renamed(folder, contents)
}

const ways: readonly Way[] = [
  { name: 'renamed over the old ones', put: renamed },
  {
    name: 'swapped by a link, as in a mounted ConfigMap',
    put: (folder, contents) => {
      const data = `..${++dataFolders}`
      mkdirSync(join(folder, data))
      each(join(folder, data), (path, name) => writeFileSync(path, contents[name]))
      rmSync(join(folder, '..data_tmp'), { force: true })
      symlinkSync(data, join(folder, '..data_tmp'))
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
      each(folder, (path, name) => {
        rmSync(path, { force: true })
        symlinkSync(join('..data', name), path)
      })
    },
  },
  {
    name: 'rewritten in place, in parts',
    put: (folder, contents) =>
      each(folder, (path, name) => {
        const half = contents[name].length / 2
        writeFileSync(path, '')
        appendFileSync(path, contents[name].slice(0, half))
        appendFileSync(path, contents[name].slice(half))
      }),
  },
  { name: 'removed and written again', put: afresh, break: remove },
  {
    name: 'replaced by named pipes that nobody writes to',
    put: afresh,
    break: (folder) => {
      remove(folder)
      each(folder, (path) => execFileSync('mkfifo', [path]))
    },
  },
]

for (const workers of [1, 2]) {
  for (const way of workers === 1 ? ways : ways.slice(-1)) {
    void t.test(`${workers} process(es): files are ${way.name}`, async (t) => {
      const etcd = await startEtcd(t)
      const account = { name: 'agent', namespace: 'default', uid: 'uid-of-agent' }
      const object = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: account }
      await put(etcd, '/registry/serviceaccounts/default/agent', Buffer.from(JSON.stringify(object)))
      const [first, second] = [await generation(t, etcd, 1), await generation(t, etcd, 2)]
      const folder = new Folder(t)
      const file = (name: (typeof NAMES)[number]): string => join(folder.path, name)
      way.put(folder.path, first.contents)
      const server = await startServer(t, {
        flags: [
          `--etcd-servers=${etcd.url}`,
          `--workers=${workers}`,
          '--resource=secrets',
          '--secure-port=0',
          '--metrics-bind-address=127.0.0.1:0',
          '--authorization-mode=Policy',
          `--authorization-policy-file=${file('policy.yaml')}`,
          `--tls-cert-file=${file('tls.crt')}`,
          `--tls-private-key-file=${file('tls.key')}`,
          `--encryption-provider-config=${file('encryption.json')}`,
          `--service-account-issuer=${ISSUER}`,
          `--service-account-key-file=${file('sa.pub')}`,
          `--token-auth-file=${folder.write('tokens.csv', 'ann,ann,1\n')}`,
        ],
      })
      const log = (): string[] => server.log().split('\n')
      const logged = (message: string): number => log().filter((line) => line.includes(message)).length
      t.same(await inForce(server, first, second), GROUPS)
      t.same(await metric(server, folder.path, 1), GROUPS)

      if (way.break === undefined) way.put(folder.path, BROKEN)
      else way.break(folder.path)
      await until(
        async () => (await metric(server, folder.path, 0)).length === GROUPS.length,
        'every broken file is noticed',
      )
      const message = way.break === undefined ? 'a changed file is invalid' : 'a watched file cannot be read'
      await until(() => logged(message) >= GROUPS.length * workers, `${message}, and each process says so`)
      for (let i = 0; i < 3 * workers; i++)
        t.same(await inForce(server, first, second), GROUPS, 'the last good content stays in force')

      way.put(folder.path, second.contents)
      await until(
        async () => (await metric(server, folder.path, 1)).length === GROUPS.length,
        'every file can be used again',
      )
      for (let inARow = 0; inARow < 3 * workers;) {
        let are: readonly string[] = []
        await until(
          async () => (are = await inForce(server, second, first)).length === GROUPS.length,
          () => `the new files are used; now ${are.join('; ')}`,
        )
        inARow++
      }
      t.notMatch(server.log(), /"level":60|internal error/)
    })
  }
}
