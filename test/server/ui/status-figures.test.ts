import t from 'tap'
import type { ProcessFigures } from '../../../src/server/ui/page/figures.js'
import { type ProcessStatus, primaryStatus, serverStatus } from '../../../src/server/ui/status-figures.js'

const about = { version: '1', upstream: 'http://etcd:2379', fleet: null }

function worker(name: string, more: Partial<ProcessStatus> = {}, own: Partial<ProcessFigures> = {}): ProcessStatus {
  const feed = { resource: 'pods', state: 'watching', reason: null, part: null }
  const status = primaryStatus([feed])
  return { ...status, processes: status.processes.map((one) => ({ ...one, name, takenEvents: 10, ...own })), ...more }
}

const pods: ProcessStatus['resources'][number] = {
  resource: 'pods',
  path: '/api/v1',
  plural: 'pods',
  namespaced: true,
  revision: 7,
  objects: 3,
  watchers: 2,
  ringFill: 0.5,
  ringBatches: 4,
  ringAgeSeconds: 60,
  stalenessSeconds: 0,
  problem: null,
}

void t.test('the status of a resource shows what a client can rely on at every worker', async (t) => {
  const status = serverStatus(about, [
    worker('worker 1', { resources: [pods] }),
    worker('worker 2', {
      resources: [
        {
          ...pods,
          revision: 6,
          watchers: 5,
          ringFill: 0.9,
          ringBatches: 1,
          ringAgeSeconds: 5,
          stalenessSeconds: 3,
          problem: 'not listed yet',
        },
      ],
    }),
  ])
  t.same(status.resources, [
    {
      ...pods,
      revision: 6,
      watchers: 7,
      ringFill: 0.9,
      ringBatches: 1,
      ringAgeSeconds: 5,
      stalenessSeconds: 3,
      problem: 'not listed yet',
    },
  ])
})

void t.test('watchers, groups and delays add up; counters stay with their process', async (t) => {
  const group = { resource: 'pods', transport: 'http1', selector: 'app=web', watchers: 4 }
  const slow = { resource: 'pods', transport: 'sse', state: 'lagging', behind: 9, pendingBytes: 1 }
  const figures: Partial<ProcessStatus> = {
    watchers: { 'http1 active': 4 },
    groups: [group],
    clients: [
      { client: 'ann', watchers: 3, sentBytes: 10 },
      { client: '10.0.0.1', watchers: 1, sentBytes: 700 },
    ],
    slow: [slow],
    slowCount: 12,
    delays: [
      [0.1, 2],
      [1, 3],
    ],
  }
  const workers = ['worker 1', 'worker 2'].map((name) => worker(name, figures, { sentEvents: 5 }))
  const status = serverStatus(about, [primaryStatus([]), ...workers])
  t.match(status, {
    watchers: { 'http1 active': 8 },
    groups: [{ ...group, watchers: 8 }],
    clients: [
      { client: '10.0.0.1', watchers: 2, sentBytes: 1_400 },
      { client: 'ann', watchers: 6, sentBytes: 20 },
    ],
    slowCount: 24,
    delays: [
      [0.1, 4],
      [1, 6],
    ],
  })
  t.same(
    status.processes.map(({ name, sentEvents, takenEvents }) => [name, sentEvents, takenEvents]),
    [
      ['primary', 0, null],
      ['worker 1', 5, 10],
      ['worker 2', 5, 10],
    ],
  )
})

void t.test('the largest clients are those with the most watchers and those with the most bytes', async (t) => {
  const clients = Array.from({ length: 40 }, (_, i) => ({ client: `c${i}`, watchers: i, sentBytes: 40 - i }))
  const shown = serverStatus(about, [worker('worker 1', { clients })]).clients ?? []
  t.equal(shown.length, 20, 'a bounded list')
  t.equal(shown[0]?.client, 'c0', 'the most bytes')
  t.equal(shown.at(-1)?.client, 'c39', 'the most watchers')
})

void t.test(
  'the server is ready when all workers are, and the process that reads the upstream reports on it',
  async (t) => {
    const away = { resource: 'pods', state: 'backing-off', reason: 'refused', part: null } as const
    const status = serverStatus(about, [
      primaryStatus([away]),
      worker('worker 1'),
      worker('worker 2', {}, { ready: false }),
    ])
    t.equal(status.ready, false)
    t.same(status.feeds, [away])
    t.equal(serverStatus(about, [primaryStatus([away])]).ready, false, 'nobody serves yet')
    t.equal(serverStatus(about, [worker('server')]).ready, true)
  },
)

void t.test('lists on the page are bounded, the largest first', async (t) => {
  const groups = Array.from({ length: 10 }, (_, i) => ({
    resource: 'pods',
    transport: 'sse',
    selector: `n=${i}`,
    watchers: i,
  }))
  const others = groups.map((group) => ({ ...group, selector: `m=${group.watchers}`, watchers: group.watchers * 10 }))
  const status = serverStatus(about, [worker('worker 1', { groups }), worker('worker 2', { groups: others })])
  t.same(
    status.groups.map(({ watchers }) => watchers),
    [90, 80, 70, 60, 50, 40, 30, 20, 10, 9],
  )
})
