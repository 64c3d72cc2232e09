/**
 * `npm run judge -- reference [--resource NAME,...] [--seed N] [--questions N] [--seconds N] [--list FILE]`: compares
 * distributary with Kubernetes' own API server over one etcd. With `--upstream`, distributary reads that API server
 * instead of etcd; with `--other-etcd`, events, leases and pods are in a second etcd; with `--cbor`, custom resources
 * are stored in CBOR; with `--kubernetes 1.36`, the API server is of the
 * release before. `--resource` limits the questions to some resources; `--callers` asks only who callers are and what
 * they may do, in a minute, and `--server` only for discovery, OpenAPI and health; `--controllers` also runs the
 * controllers; `--list` writes every difference that is not excepted to a file, by resource; `--seconds` bounds the
 * time for the seed's questions, `--build-seconds` the time to build. `--build` only builds; `--grow` only grows the
 * objects of every kind, which takes minutes, and stores them as data.
 *
 * First all questions are asked while nothing is written; then whole watches run under random writes, with definitions
 * changing between and under them, and questions are asked about the changed definitions. Ends with `N passed, N
 * failed`. Allowed differences are in exceptions.ts, those to be fixed in known-differences.ts. Needs Go; where the
 * programs cannot be built, it is skipped with a line that says why.
 */
import { parseArgs } from 'node:util'
import type { Test } from 'tap'
import { NoProgramError } from '../support/go-program.js'
import { buildEtcd } from '../etcd/versions.js'
import { Comparison, type ComparisonOptions, printGrown } from './comparison.js'
import { discover } from './discovered.js'
import { isNamed } from './moment.js'
import {
  buildControlPlane,
  CURRENT,
  isRelease,
  type KubernetesRelease,
  kubernetesReleases,
  type Programs,
} from './programs.js'
import { cborExceptions, olderExceptions, upstreamExceptions } from './exceptions.js'
import { Report } from './report.js'
import { keep, seed } from './seed.js'
import { everySet, onlyOf } from './sets.js'
import { startWorld, type World } from './world.js'
import { runMain } from '../support/run-main.js'

interface Settings extends ComparisonOptions {
  readonly questions: number
  /** The time for the seed's questions. */
  readonly seconds: number
  readonly isOfCallers: boolean
  readonly isOfServer: boolean
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      questions: { type: 'string', default: '8500' },
      seconds: { type: 'string', default: '3600' },
      'build-seconds': { type: 'string', default: '3600' },
      resource: { type: 'string' },
      list: { type: 'string' },
      controllers: { type: 'boolean', default: false },
      grow: { type: 'boolean', default: false },
      build: { type: 'boolean', default: false },
      callers: { type: 'boolean', default: false },
      upstream: { type: 'boolean', default: false },
      server: { type: 'boolean', default: false },
      cbor: { type: 'boolean', default: false },
      'other-etcd': { type: 'boolean', default: false },
      kubernetes: { type: 'string', default: '1.37' },
    },
  })
  const only = values.resource?.split(',') ?? []
  const settings = {
    seed: numberOf('--seed', values.seed),
    // A single resource gets about as many questions as it would in a full run.
    questions: only.length > 0 ? 300 * only.length : numberOf('--questions', values.questions),
    seconds: numberOf('--seconds', values.seconds),
    only,
    isWithControllers: values.controllers,
    isOfCallers: values.callers,
    isOfServer: values.server,
    isCbor: values.cbor,
  }
  const programs = buildAll(numberOf('--build-seconds', values['build-seconds']), releaseOf(values.kubernetes))
  if (programs === null) {
    process.stdout.write('0 passed, 0 failed\n')
    return 0
  }
  if (values.build) return 0
  if (values.grow) {
    await withWorld(programs, {}, async (world) => await growAgain(world, only))
    return 0
  }
  const report = new Report([
    ...(values.upstream ? upstreamExceptions : []),
    ...(values.cbor ? cborExceptions : []),
    ...(programs.release === CURRENT ? [] : olderExceptions),
  ])
  const arrangement = {
    behind: values.upstream ? 'api-server' : 'etcd',
    hasOther: values['other-etcd'],
    isCbor: values.cbor,
  } as const
  await withWorld(programs, arrangement, async (world) => await compare(world, report, settings))
  if (values.list !== undefined) report.writeList(values.list)
  report.print((line) => process.stdout.write(`${line}\n`))
  return report.failed === 0 ? 0 : 1
}

/** @throws Error when it is not a number. */
function numberOf(option: string, text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`${option} is a whole number, not ${JSON.stringify(text)}`)
  return Number(text)
}

/** @throws Error when it cannot be built. */
function releaseOf(text: string): KubernetesRelease {
  if (isRelease(text)) return text
  throw new Error(`--kubernetes is one of ${Object.keys(kubernetesReleases).join(', ')}, not ${JSON.stringify(text)}`)
}

/** Builds etcd and the API server. Returns null, after printing the reason, if they cannot be built. */
function buildAll(seconds: number, release: KubernetesRelease): Programs | null {
  const deadlineMs = performance.now() + seconds * 1_000
  try {
    // Read when the module that starts etcd is loaded, which is why that is imported below.
    process.env['ETCD_BIN'] = buildEtcd('3.7', deadlineMs)
    return buildControlPlane(deadlineMs, release)
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stdout.write(`skipped: the comparison with the API server, since ${error.message}\n`)
    return null
  }
}

interface Arrangement {
  readonly behind?: 'etcd' | 'api-server'
  readonly hasOther?: boolean
  readonly isCbor?: boolean
}

/** Runs `use` with both servers over a fresh etcd, and stops them afterwards. */
async function withWorld(
  programs: Programs,
  { behind = 'etcd', hasOther = false, isCbor = false }: Arrangement,
  use: (world: World) => Promise<void>,
): Promise<void> {
  const teardowns: (() => unknown)[] = []
  // The processes use only `teardown` of a test.
  const t = { teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test
  try {
    const { startEtcd } = await import('../support/etcd-process.js')
    const other = hasOther ? await startEtcd(t) : null
    await use(await startWorld(t, { etcd: await startEtcd(t), other, programs, behind, isCbor }))
  } finally {
    for (const done of teardowns.reverse()) await done()
  }
}

async function growAgain(world: World, only: readonly string[]): Promise<void> {
  const kinds = await discover(world.theirs)
  const grown = await seed(
    world,
    kinds.filter((kind) => isNamed(kind, only)),
    true,
  )
  printGrown(grown)
  keep(grown)
}

async function compare(world: World, report: Report, settings: Settings): Promise<void> {
  const set = onlyOf(everySet, (definition) => isNamed(definition, settings.only))
  try {
    const comparison = new Comparison(world, set, settings, report)
    if (settings.isOfCallers) await comparison.runCallers()
    else if (settings.isOfServer) await comparison.runServer()
    else await comparison.run(settings.questions, settings.seconds * 1_000)
  } catch (error) {
    // The findings so far are still worth reading.
    report.abort(error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
}

await runMain(import.meta.url, main)
