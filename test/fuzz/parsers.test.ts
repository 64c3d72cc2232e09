/**
 * Every parser of input from clients and etcd, with a seeded generator: it accepts the text or rejects it with the
 * error that its callers expect, it terminates, and twice the text takes about twice the time.
 */
import t from 'tap'
import { scanObject } from '../../src/kubernetes/codec/json-scan.js'
import { CodecError } from '../../src/kubernetes/codec/protobuf/codec-error.js'
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { openEnvelope } from '../../src/kubernetes/codec/protobuf/envelope.js'
import { readMetadata } from '../../src/kubernetes/codec/protobuf/metadata.js'
import { openStored, withResourceVersion } from '../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { ConfigError } from '../../src/server/config/config-error.js'
import { load } from '../../src/server/config/load.js'
import { parseYamlFile } from '../../src/server/config/yaml-file.js'
import { negotiate, negotiateDiscovery, negotiateOpenApi } from '../../src/kubernetes/dialect/accept.js'
import { decodeContinueToken } from '../../src/kubernetes/dialect/continue-token.js'
import { parseFieldSelector } from '../../src/kubernetes/dialect/field-selector.js'
import { parseLabelSelector } from '../../src/kubernetes/dialect/label-selector.js'
import { parseListParameters, parseWatchParameters } from '../../src/kubernetes/dialect/list-options.js'
import { acceptsGzip, parseAccept } from '../../src/kubernetes/dialect/media-type.js'
import { parseProjection } from '../../src/kubernetes/dialect/projection.js'
import { parseRequestPath } from '../../src/kubernetes/dialect/request-path.js'
import { parseResourceVersion } from '../../src/kubernetes/model/resource-version.js'
import { StatusError } from '../../src/kubernetes/model/status.js'
import { randomInteger, type Random, seededRandom } from '../../src/support/random.js'
import { testSeeds } from '../support/test-seeds.js'

const seeds = testSeeds(2)
const CASES = 3_000
/** The processor's time, which other programs on the machine do not change. */
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
/** Far more than any of these takes, far less than a hang. */
const LONGEST_MS = 10_000

interface Subject {
  /** Tokens that mean something to the parser: purely random text never gets past the first character. */
  readonly pieces: readonly string[]
  /** @throws only what `isKnown` recognizes. */
  readonly parse: (text: string) => unknown
  readonly isKnown: (error: unknown) => boolean
  /** A valid sample to mutate, for formats that random input never produces. */
  readonly sample?: string
  /** Operator input, parsed once: its time may grow in any way. */
  readonly isOurs?: true
}

/** A client error, not a mistake of our own. */
const isRefusal = (error: unknown): boolean => error instanceof StatusError && error.code >= 400 && error.code < 500
const isCodecError = (error: unknown): boolean => error instanceof CodecError
const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1')
const schema = kubernetesSchema()
const noResource = (): undefined => undefined

const words = ['app', 'a.b/c', 'x', '-', '_', '0', '1e9', 'metadata.name', 'spec.nodeName', 'é', '\0', '%', '\u{1f600}']
const tokenPieces = [
  'eyJ2Ijoi',
  'bWV0YS5rOHMuaW8vdjE',
  'InJ2IjoxMCwi',
  '{"v":"meta.k8s.io/v1","rv":',
  '-1',
  '}',
  '=',
  '.',
]
const accepts = ['application/json', '*/*', 'application/*', ';q=', '0.5', '1', ',', ' ', 'as=Table', ';v=v1', ';g=meta.k8s.io', 'application/yaml', ';stream=watch', '"', '\\', 'text/event-stream', 'application/vnd.kubernetes.protobuf'] // prettier-ignore
const protobufPieces = ['k8s\0', '\x0a', '\x12', '\x1a', '\x22', '\x02v1', '\x03Pod', '\x07', '\xff\xff\xff\xff\x0f', '\x80', '\x01', '\0', '\x0b', '\x0c', '\x08'] // prettier-ignore
const jsonPieces = ['{', '}', '[', ']', ':', ',', '"', '\\', '\\u12', '\\ud800', 'true', 'nul', '-', '1e', '0.', ' ', '\n', '"metadata"', '"resourceVersion"', '"kind"', '"a":1'] // prettier-ignore
const queryPieces = ['watch=', '1', 'true', '&', '=', 'resourceVersion=', 'resourceVersionMatch=', 'Exact', 'NotOlderThan', 'limit=', '-1', '9'.repeat(25), 'continue=', 'sendInitialEvents=', 'timeoutSeconds=', 'fieldSelector=', 'labelSelector=', 'fields=', 'includeObject=', '%', '%zz'] // prettier-ignore

/** `k8s\0`, TypeMeta (v1, Pod), and a Pod with a name, a label and a container. */
const POD = ((): string => {
  const field = (number: number, body: string): string => String.fromCharCode((number << 3) | 2, body.length) + body
  const metadata = field(1, 'web-0') + field(3, 'a') + field(11, field(1, 'app') + field(2, 'web'))
  const spec = field(2, field(1, 'main') + field(2, 'image')) + field(10, 'n1')
  return `k8s\0${field(1, field(1, 'v1') + field(2, 'Pod'))}${field(2, field(1, metadata) + field(2, spec))}`
})()

const subjects: Record<string, Subject> = {
  'label selectors': {
    pieces: [...words, '=', '==', '!=', '!', ' in ', ' notin ', '(', ')', ',', '>', '<', ' '],
    parse: (text) => parseLabelSelector(text),
    isKnown: isRefusal,
  },
  'field selectors': {
    pieces: [...words, '=', '==', '!=', ',', '\\', '\\,', '\\=', ' '],
    parse: (text) => parseFieldSelector(text),
    isKnown: isRefusal,
  },
  'continue tokens': {
    pieces: tokenPieces,
    parse: (text) => {
      return decodeContinueToken(text.startsWith('{') ? Buffer.from(text, 'latin1').toString('base64url') : text)
    },
    isKnown: isRefusal,
    sample: '{"v":"meta.k8s.io/v1","rv":10,"start":"a/b\\u0000"}',
  },
  'resource versions': {
    pieces: ['0', '1', '9', '-', '+', '.', 'e', 'x', ' ', '9007199254740991', '9007199254740992', '\0', '١'],
    parse: (text) => parseResourceVersion(text),
    isKnown: isRefusal,
  },
  Accept: {
    pieces: accepts,
    parse: (text) => {
      parseAccept(text)
      acceptsGzip(text)
      for (const verb of ['get', 'list', 'watch'] as const) {
        try {
          negotiate(text, verb, { protobufObjects: true })
        } catch (error) {
          if (!isRefusal(error)) throw error
        }
      }
      negotiateDiscovery(text)
      return negotiateOpenApi(text, 'v3')
    },
    isKnown: isRefusal,
  },
  'query strings of lists and watches': {
    pieces: queryPieces,
    parse: (text) => {
      const query = new URLSearchParams(text)
      try {
        parseListParameters(query)
      } catch (error) {
        if (!isRefusal(error)) throw error
      }
      return parseWatchParameters(query)
    },
    isKnown: isRefusal,
  },
  paths: {
    pieces: [
      '/',
      'api',
      'apis',
      'v1',
      'namespaces',
      'pods',
      'watch',
      'status',
      '%2F',
      '%',
      '%zz',
      '..',
      '.',
      '//',
      'a b',
    ],
    parse: (text) => parseRequestPath(`/${text}`, noResource),
    isKnown: isRefusal,
  },
  projections: {
    pieces: ['metadata', '.', 'name', ',', '[', ']', '*', '(', ')', '/', ' ', '\0', '__proto__'],
    parse: (text) => parseProjection(text),
    isKnown: isRefusal,
  },
  'JSON values from etcd': { pieces: jsonPieces, parse: (text) => scanObject(Buffer.from(text)), isKnown: () => false },
  'protobuf values from etcd': {
    pieces: protobufPieces,
    parse: (text) => {
      const value = bytesOf(text.startsWith('k8s\0') ? text : `k8s\0${text}`)
      for (const read of [openEnvelope, openStored, readMetadata]) {
        try {
          read(value)
        } catch (error) {
          if (!isCodecError(error)) throw error
        }
      }
      withResourceVersion(value, '12')
      return decodeObject(value, schema)
    },
    isKnown: isCodecError,
    sample: POD,
  },
  'the configuration file': {
    pieces: [
      'port: ',
      '80',
      '\n',
      '  ',
      '- ',
      'resources:',
      '{',
      '}',
      '[',
      ']',
      '&a',
      '*a',
      '!!',
      ':',
      '"',
      "'",
      '#',
      '\t',
      'etcdServers',
      '<<',
    ],
    parse: (text) => parseYamlFile('config.yaml', text),
    isKnown: () => false,
    isOurs: true,
  },
  'the command line': {
    pieces: [
      '--port',
      '--resource',
      '=',
      'a=/b/',
      '--',
      '-',
      'x',
      '1',
      '--config',
      '--no-',
      'é',
      '--bookmark-interval=1s',
    ],
    parse: (text) => load(text.split(' '), {}, () => text),
    isKnown: (error) => error instanceof ConfigError,
    isOurs: true,
  },
}

function generate(random: Random, pieces: readonly string[]): string {
  const count = random.next() < 0.05 ? randomInteger(random, 100, 2_000) : randomInteger(random, 0, 14)
  let text = ''
  for (let i = 0; i < count; i++) {
    const choice = random.next()
    if (choice < 0.9) text += pieces[randomInteger(random, 0, pieces.length - 1)]
    else if (choice < 0.96) text += String.fromCharCode(randomInteger(random, 0, 255))
    else text = text.slice(0, randomInteger(random, 0, text.length))
  }
  return text
}

/** Changes, removes or doubles a few places. */
function damage(random: Random, sample: string, pieces: readonly string[]): string {
  let text = sample
  for (let changes = randomInteger(random, 0, 3); changes > 0; changes--) {
    const at = randomInteger(random, 0, text.length)
    const end = Math.min(text.length, at + randomInteger(random, 0, 3))
    const put = random.next() < 0.5 ? String.fromCharCode(randomInteger(random, 0, 255)) : generate(random, pieces)
    text = text.slice(0, at) + put.slice(0, 12) + text.slice(end)
  }
  return text
}

for (const [name, { pieces, parse, isKnown, sample, isOurs }] of Object.entries(subjects)) {
  void t.test(`${name}: accepted or rejected, never broken (seeds ${seeds.join(' and ')})`, async (t) => {
    let taken = 0
    let slowest = 0
    for (const seed of seeds) {
      const random = seededRandom(seed)
      for (let i = 0; i < CASES; i++) {
        const text =
          sample !== undefined && random.next() < 0.5 ? damage(random, sample, pieces) : generate(random, pieces)
        const startedMs = cpuMs()
        try {
          parse(text)
          taken++
        } catch (error) {
          if (!isKnown(error))
            t.fail(`seed ${seed}, case ${i}: ${JSON.stringify(text.slice(0, 200))}: ${String(error)}`)
        }
        slowest = Math.max(slowest, cpuMs() - startedMs)
      }
    }
    t.ok(taken > 50, 'the generator finds its way in')
    t.ok(
      slowest < LONGEST_MS,
      `${Math.round(slowest)} ms for the slowest, ${taken} of ${CASES * seeds.length} were taken`,
    )
  })

  if (isOurs === true) continue
  void t.test(`${name}: the time does not grow with the square of the length`, async (t) => {
    const time = (text: string): number => {
      let best = Number.POSITIVE_INFINITY
      for (let i = 0; i < 3; i++) {
        const startedMs = cpuMs()
        try {
          parse(text)
        } catch (error) {
          if (!isKnown(error)) throw error
        }
        best = Math.min(best, cpuMs() - startedMs)
      }
      return best
    }
    for (const piece of [...pieces, pieces.slice(0, 4).join('')]) {
      const short = time(piece.repeat(4_000))
      const long = time(piece.repeat(64_000))
      // Sixteen times the length; quadratic time would be 256 times. Very short times are not compared.
      if (long > 100) t.ok(long < short * 80, `${JSON.stringify(piece.slice(0, 20))}: ${short} ms, then ${long} ms`)
    }
    t.pass('looked at every piece')
  })
}
