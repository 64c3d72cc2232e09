/**
 * `npm run bench -- QUESTION [flags]`: reads the bench's command line and runs one question. Everything runs on
 * loopback and is bounded in count and time. The bench ends every process that it starts, even on Ctrl-C.
 */
import { Command, InvalidArgumentError, Option } from 'commander'
import { agents } from './agents.js'
import { cluster } from './cluster.js'
import { definitions } from './definitions.js'
import { edge } from './edge.js'
import { etcdApi } from './etcd-api.js'
import { fanout } from './fanout.js'
import { informer } from './informer.js'
import { ingest } from './ingest.js'
import { list } from './list.js'
import { loop } from './loop.js'
import { memory } from './memory.js'
import { nats } from './nats.js'
import { natsCuts } from './nats-cuts.js'
import { objects } from './objects.js'
import { oneEvent } from './one-event.js'
import { published } from './published.js'
import { readme } from './readme.js'
import { protobufDecode } from './protobuf-decode.js'
import { recovery } from './recovery.js'
import { relief } from './relief.js'
import { report } from './report.js'
import { restart } from './restart.js'
import { prefixes, selectors, shards } from './selectors.js'
import { schemaRead } from './schema-read.js'
import { slow } from './slow.js'
import { sourceList } from './source-list.js'
import { storm } from './storm.js'
import { etcdBinary } from './subjects/etcd.js'
import { watches } from './watches.js'
import { workers } from './workers.js'
import type { Choice, Question } from './support/choice.js'
import { pods } from './support/objects.js'
import { buildPeers, builtPeers, referencePeers } from './support/peers.js'
import { endAll, endAllOnSignals } from './support/processes.js'
import { createRecorder } from './support/record.js'

interface Asked {
  readonly ask: Question
  readonly about: string
  /** Whether the question needs the programs that `--peers reference` builds. */
  readonly needsPeers?: boolean
}

const questions: Record<string, Asked> = {
  agents: {
    ask: agents,
    about: 'a delivery to node agents with a connection each: CPU, delay and memory, on each runtime',
  },
  edge: { ask: edge, about: 'pollers behind nginx and Varnish, and Server-Sent Events: CPU of the server, delay' },
  fanout: { ask: fanout, about: 'deliveries per CPU-second and delay, by watchers, rate and wire' },
  'etcd-api': {
    ask: etcdApi,
    about: 'a delivery in etcd’s own protocol, compared with etcd and grpc-proxy: CPU, delay, and what etcd saves',
  },
  prefixes: { ask: prefixes, about: 'the same for watchers of distinct parts of a declared prefix' },
  shards: { ask: shards, about: 'the same for one shard of everything, and for a hundred' },
  selectors: { ask: selectors, about: 'cost of an event for one of N watchers, each with its own selector' },
  'one-event': { ask: oneEvent, about: 'an event of 3.5 KB for one watcher, 300 a second: CPU and delay' },
  objects: { ask: objects, about: 'start with 200,000 objects: time until ready, memory of an object' },
  'source-list': {
    ask: sourceList,
    about: 'a list of 200,000 objects from etcd, as one stream and in pages: time, CPU, peak memory',
  },
  definitions: {
    ask: definitions,
    about: 'a restart with 250 definitions and 1,250 or 300,000 objects: time until ready, time to stop',
  },
  storm: { ask: storm, about: 'all watchers reconnect at once while others list' },
  restart: { ask: restart, about: 'what a start that reads history back costs etcd: the delay of its puts' },
  recovery: {
    ask: recovery,
    about: 'a member freezes, or etcd goes away and returns: time until watchers and lists continue',
  },
  list: { ask: list, about: 'many full lists at once: CPU each, peak memory' },
  slow: { ask: slow, about: 'delay of the others while one in a hundred reads nothing' },
  loop: { ask: loop, about: 'the longest block of the event loop that each known-bad request causes' },
  ingest: { ask: ingest, about: 'incoming events per second, and their lag' },
  'protobuf-decode': { ask: protobufDecode, about: 'time to turn a pod stored as protobuf into JSON' },
  'schema-read': { ask: schemaRead, about: 'a custom object of 2 KB read through its schema' },
  workers: { ask: workers, about: 'CPU of a delivery with two workers, compared with one' },
  informer: { ask: informer, about: 'a client’s copy of 100,000 objects: time to sync, memory of an object' },
  cluster: { ask: cluster, about: 'a cluster of --nodes: CPU, memory and delay by kind; then all reconnect at once' },
  published: { ask: published, about: 'the loads for which others published figures, with theirs and ours' },
  readme: {
    ask: readme,
    about: 'every figure of the README, in half an hour; it skips what "peers" has not built',
  },
  relief: {
    ask: relief,
    about: 'what the API server and etcd of a simulated cluster save, and a storm after a restart',
    needsPeers: true,
  },
  watches: { ask: watches, about: '100,000 watches on 10,000 connections: memory, delay of an event to 10,000' },
  memory: { ask: memory, about: 'resident memory of an idle watcher, by wire' },
  nats: { ask: nats, about: 'the hop over NATS: added delay, CPU of each part, events carried, a new edge' },
  'nats-cuts': {
    ask: natsCuts,
    about: 'two of three NATS servers lose each other: time until replicas are fresh; 50 replicas fall back on etcd',
  },
}

interface Flags {
  quick: boolean
  keep: boolean
  subjects: string[]
  watchers: number[]
  rate: number[]
  nodes?: number
  seconds?: number
  rounds?: number
  scale?: number
  shape: string[]
  peers: 'machine' | 'reference'
  nodeFlag: string[]
  serverFlag: string[]
  request: string[]
}

const words = (text: string): string[] => text.split(',').filter((word) => word !== '')

const numbers = (text: string): number[] =>
  words(text).map((word) => {
    const n = word === 'saturated' ? 0 : Number(word)
    if (!Number.isFinite(n) || n < 0) throw new InvalidArgumentError(`${word} is not a number`)
    return n
  })

const another = (text: string, before: string[]): string[] => [...before, text]

const program = new Command('bench').description('Measures distributary and its peers on this machine.')

for (const [name, { ask, about, needsPeers = false }] of Object.entries(questions)) {
  program
    .command(name)
    .description(about)
    .option('--quick', 'a small version, in seconds', false)
    .option('--keep', 'add the rows to bench/results.jsonl, from which the report is made', false)
    .option(
      '--subjects <list>',
      'what to measure: name, name/wire, or distributary@24 and @bun for another runtime; comma-separated',
      words,
      [],
    )
    .option('--watchers <list>', 'number of watchers, comma-separated', numbers, [])
    .option('--rate <list>', 'events per second, or "saturated"', numbers, [])
    .option('--nodes <n>', 'number of nodes (cluster, relief)', Number)
    .option('--seconds <n>', 'length of each measurement', Number)
    .option('--rounds <n>', 'how often the subjects take turns (agents, relief)', Number)
    .option('--shape <list>', 'what changes: mixed, even or pods, comma-separated (agents)', words, [])
    .option('--scale <part>', 'part of the published load, up to 1 (published)', Number)
    .addOption(
      new Option('--peers <which>', "the machine's etcd, or the newest etcd and API server, built from Go modules")
        .choices(['machine', 'reference'])
        .default('machine'),
    )
    .option('--node-flag <flag>', 'Node flag for our own server, such as --cpu-prof; repeatable', another, [])
    .option('--server-flag <flag>', 'flag for our own server; repeatable', another, [])
    .option('--request <text>', 'only requests whose name contains this text (loop); repeatable', another, [])
    .action(async (flags: Flags) => {
      // A run of the README builds nothing.
      const isAsked = flags.peers === 'reference' || needsPeers
      const peers = name === 'readme' ? builtPeers() : isAsked ? referencePeers() : null
      if (peers !== null) process.env['ETCD_BIN'] = peers.etcd
      const recorder = createRecorder({
        etcdBinary: etcdBinary(),
        apiServerVersion: peers?.apiServerVersion,
        resource: pods.name,
        quick: flags.quick,
        keep: flags.keep,
      })
      const choice: Choice = {
        recorder,
        quick: flags.quick,
        subjects: flags.subjects,
        watchers: flags.watchers,
        rates: flags.rate,
        nodes: flags.nodes,
        seconds: flags.seconds,
        rounds: flags.rounds,
        shapes: flags.shape,
        scale: flags.scale,
        resource: pods,
        apiServer: peers?.apiServer,
        nodeFlags: flags.nodeFlag,
        serverFlags: flags.serverFlag,
        requests: flags.request,
      }
      await ask(choice)
    })
}

program
  .command('peers')
  .description('builds the programs that are compared, from Go modules and npm; half an hour the first time')
  .action(() => {
    const missing = buildPeers()
    process.stderr.write(missing.length === 0 ? 'bench: all are built\n' : `bench: not built: ${missing.join(', ')}\n`)
  })

program
  .command('report')
  .description('writes bench/RESULTS.md and its charts from bench/results.jsonl')
  .option('--local', 'use all rows in bench/out instead', false)
  .action((flags: { local: boolean }) => report(flags.local))

endAllOnSignals()
try {
  await program.parseAsync()
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
} finally {
  await endAll()
}
