/**
 * Question: do a hundred thousand watches fit into one process? There are 10,000 plain HTTP/2 connections, each with
 * one watch of each of ten resources. The bench measures the memory, and the delay of an event to the ten thousand
 * watchers of its resource.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { benchObjects, customResource } from './support/objects.js'
import { requireOpenFiles, sleep, usage } from './support/processes.js'
import { withScene } from './support/scene.js'

const CONNECTIONS = 10_000
const RESOURCES = 10
const OBJECTS_EACH = 100
const RATE = 2
/** Files that a process opens in addition to its connections. */
const OTHER_FILES = 200

export const watches: Question = async (choice) => {
  for (const target of targets(choice, [`distributary/http2x${RESOURCES}`])) {
    const row = { question: 'watches', subject: target.kind.name, wire: target.wire, resource: 'ten custom resources' }
    await attempt(choice, row, () => one(choice, target))
  }
}

async function one(choice: Choice, target: Target): Promise<void> {
  const connections = choice.watchers[0] ?? (choice.quick ? CONNECTIONS / 50 : CONNECTIONS)
  requireOpenFiles(connections + OTHER_FILES)
  const rate = choice.rates[0] ?? RATE
  const seconds = choice.seconds ?? (choice.quick ? 5 : 30)
  const resources = Array.from({ length: RESOURCES }, (_, index) => customResource(`kind${index}`))
  const each = resources.map((resource) => benchObjects(resource, { count: OBJECTS_EACH, nodes: 100, bytes: 1024 }))
  // The resources take turns, so that the n-th event is for the n-th watch of each connection.
  const written = Array.from({ length: OBJECTS_EACH * RESOURCES }, (_, i) => each[i % RESOURCES]![Math.floor(i / 10)]!)
  const most = `${connections * RESOURCES + 1_000}`
  const serverFlags = [...choice.serverFlags, `--max-watchers=${most}`, `--max-watchers-per-client=${most}`]
  const options = {
    ...choice,
    ...target,
    serverFlags,
    watchers: connections * RESOURCES,
    objects: { written, resources },
  }
  await withScene(options, async ({ subject, source, revision, openWatchers }) => {
    const before = usage(subject.pid).residentBytes
    const query = `watch=1&timeoutSeconds=3600&resourceVersion=${revision}`
    const opened = await openWatchers({
      connections,
      streams: RESOURCES,
      stride: RESOURCES,
      paths: resources.map(({ path }) => ({ path: `${path}?${query}` })),
      readyTimeoutMs: 300_000,
    })
    await sleep(choice.quick ? 500 : 5_000)
    const idle = usage(subject.pid).residentBytes
    const warm = await source.run({ rate, count: RESOURCES, ms: 60_000 })
    await opened.caughtUp(warm.next, 60_000)
    const run = { rate, count: Math.ceil((rate * seconds) / RESOURCES) * RESOURCES, ms: seconds * 2_000 }
    const stretch = await measureStretch({ subject, source, watchers: opened, run })
    choice.recorder.row({
      question: 'watches',
      subject: subject.name,
      wire: subject.wire,
      resource: 'ten custom resources',
      connections,
      watches: opened.count,
      watchersOfAnEvent: connections,
      rate,
      openedMs: opened.openedMs,
      residentMbBefore: before / 2 ** 20,
      residentMbIdle: idle / 2 ** 20,
      kbPerWatch: (idle - before) / 1024 / opened.count,
      kbPerConnection: (idle - before) / 1024 / connections,
      ...stretchColumns(stretch),
    })
  })
}
