import t from 'tap'
import { parseEncryptionConfiguration } from '../../../src/kubernetes/encryption/configuration.js'

const SECRET = Buffer.alloc(32, 'a secret of thirty-two bytes ... ').toString('base64')

function parsed(...entries: readonly object[]): ReturnType<typeof parseEncryptionConfiguration> {
  const text = { apiVersion: 'apiserver.config.k8s.io/v1', kind: 'EncryptionConfiguration', resources: entries }
  return parseEncryptionConfiguration(Buffer.from(JSON.stringify(text)))
}

const identity = { identity: {} }
const keys = (name: string, secret = SECRET): object => ({ keys: [{ name, secret }] })
const kms = (more: object = {}): object => ({
  kms: { apiVersion: 'v2', name: 'plugin', endpoint: 'unix:///run/kms.sock', ...more },
})

void t.test('every provider is read, in its order', async (t) => {
  const [first] = parsed({
    resources: ['secrets', '*.apps'],
    providers: [
      { aescbc: keys('a') },
      { aesgcm: keys('b') },
      { secretbox: keys('c') },
      kms({ timeout: '1m2.5s' }),
      identity,
    ],
  })
  t.strictSame(first?.resources, ['secrets', '*.apps'])
  const secret = Buffer.from(SECRET, 'base64')
  t.strictSame(first?.providers, [
    { kind: 'aescbc', keys: [{ name: 'a', secret }] },
    { kind: 'aesgcm', keys: [{ name: 'b', secret }] },
    { kind: 'secretbox', keys: [{ name: 'c', secret }] },
    { kind: 'kms', name: 'plugin', endpoint: 'unix:///run/kms.sock', timeoutMs: 62_500 },
    { kind: 'identity' },
  ])
})

void t.test('YAML is read as version 1.1, in which some names are booleans', async (t) => {
  const named = (name: string): Buffer =>
    Buffer.from(`
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc: {keys: [{name: ${name}, secret: ${SECRET}}]}
`)
  for (const name of ['n', 'Y', 'on', 'No', '0x1', '1_0'])
    t.throws(() => parseEncryptionConfiguration(named(name)), /name/, name)
  for (const name of ['"n"', 'key1', 'none'])
    t.match(parseEncryptionConfiguration(named(name)), [{ providers: [{ kind: 'aescbc' }] }], name)
})

void t.test('YAML as it is usually written is read', async (t) => {
  const [first] = parseEncryptionConfiguration(
    Buffer.from(`
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources:
      - secrets
    providers:
      - aescbc:
          keys:
            - name: key1
              secret: ${SECRET}
      - identity: {}
`),
  )
  t.strictSame(
    first?.providers.map(({ kind }) => kind),
    ['aescbc', 'identity'],
  )
})

const refused: readonly (readonly [what: string, entries: readonly object[], problem: RegExp])[] = [
  ['no resources', [{ resources: [], providers: [identity] }], /resources\[0\]\.resources must be a list/],
  ['no providers', [{ resources: ['secrets'] }], /resources\[0\]\.providers must be a list/],
  ['a name twice', [{ resources: ['secrets', 'secrets'], providers: [identity] }], /named twice/],
  ['a capital letter', [{ resources: ['Secrets'], providers: [identity] }], /capital letters/],
  ['*', [{ resources: ['*'], providers: [identity] }], /"\*\." for the core group/],
  ['one resource of every group', [{ resources: ['pods.*'], providers: [identity] }], /every group/],
  ['events.k8s.io', [{ resources: ['events.events.k8s.io'], providers: [identity] }], /stored as "events"/],
  ['extensions', [{ resources: ['ingresses.extensions'], providers: [identity] }], /has been removed/],
  ['what has no API', [{ resources: ['serviceipallocations'], providers: [identity] }], /no REST API/],
  ['a wildcard over another entry', [{ resources: ['secrets', '*.'], providers: [identity] }], /wildcard hides/],
  [
    'what an earlier wildcard hides',
    [
      { resources: ['*.apps'], providers: [identity] },
      { resources: ['deployments.apps'], providers: [identity] },
    ],
    /resources\[1\].*hidden by an earlier wildcard/,
  ],
  [
    'two providers in one',
    [{ resources: ['secrets'], providers: [{ identity: {}, aescbc: keys('a') }] }],
    /exactly one/,
  ],
  ['a key of another length', [{ resources: ['secrets'], providers: [{ aesgcm: keys('a', 'YWJj') }] }], /has 3 bytes/],
  ['a key without a name', [{ resources: ['secrets'], providers: [{ aesgcm: keys('') }] }], /name is required/],
  ['a KMS v1 plugin', [{ resources: ['secrets'], providers: [kms({ apiVersion: 'v1' })] }], /must be v2/],
  ['a plugin on TCP', [{ resources: ['secrets'], providers: [kms({ endpoint: 'tcp://a:1' })] }], /unix:/],
  ['a plugin twice', [{ resources: ['secrets'], providers: [kms(), kms()] }], /given twice/],
  ['a timeout of zero', [{ resources: ['secrets'], providers: [kms({ timeout: '0s' })] }], /positive duration/],
  ['an unknown field', [{ resources: ['secrets'], providers: [identity], more: 1 }], /unknown fields/],
]
for (const [what, entries, problem] of refused) {
  void t.test(`${what} is refused, as by the API server`, async (t) => {
    t.throws(() => parsed(...entries), problem)
  })
}

void t.test('no problem quotes what may be a key', async (t) => {
  const broken = `apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [${SECRET}: "`
  for (const text of [
    broken,
    JSON.stringify({ [SECRET]: 1 }),
    JSON.stringify({ resources: [{ resources: ['secrets'], providers: [{ aescbc: keys('a', `${SECRET}!`) }] }] }),
    JSON.stringify({ resources: [{ resources: ['secrets'], providers: [{ aescbc: { [SECRET]: 1 } }] }] }),
  ]) {
    try {
      parseEncryptionConfiguration(Buffer.from(text))
      t.fail('it was accepted')
    } catch (error) {
      t.notMatch((error as Error).message, SECRET.slice(0, 12))
    }
  }
})
