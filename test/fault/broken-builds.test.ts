/**
 * Tests the harness itself: servers with an injected fault, each of which the validators must detect by name, end to
 * end. The faults are only in the harness: between the server and its clients, or between the server and its upstream.
 */
import http from 'node:http'
import t, { type Test } from 'tap'
import type { Violation } from '../guarantees/violation.js'
import { type RecordedWatch, WatchRecorder } from '../support/watch-recorder.js'
import { type Scenario, scopes, startScenario } from './scenario.js'

/** Returns what a broken build sends for the `n`th line of a stream: nothing, the line, or the line and more. */
type Breakage = (line: string, n: number, context: { readonly revision: number; readonly type: string }) => string[]

const bookmark = (revision: number): string =>
  JSON.stringify({
    type: 'BOOKMARK',
    object: { kind: 'Pod', apiVersion: 'v1', metadata: { resourceVersion: String(revision) } },
  })

/** The fault happens once, somewhere in the middle of the stream. */
const AT = 12

const builds: Record<string, { guarantee: string; breakage?: Breakage; shift?: number }> = {
  'skips an event': { guarantee: 'reliable', breakage: (line, n) => (n === AT ? [] : [line]) },
  'tells a bookmark one event early': {
    guarantee: 'bookmarkable',
    breakage: (line, n, { revision }) => (n === AT ? [bookmark(revision), line] : [line]),
  },
  'resumes one revision late': { guarantee: 'resumable', shift: 1 },
  'resumes one revision early': { guarantee: 'resumable', shift: -1 },
  'sends an event twice': { guarantee: 'unique', breakage: (line, n) => (n === AT ? [line, line] : [line]) },
  'changes the order of two revisions': { guarantee: 'ordered', breakage: swapped() },
}

function swapped(): Breakage {
  let held: string | null = null
  return (line, n) => {
    if (n === AT) {
      held = line
      return []
    }
    const after = held === null ? [] : [held]
    held = null
    return [line, ...after]
  }
}

for (const [name, { guarantee, breakage, shift }] of Object.entries(builds)) {
  void t.test(`a build that ${name} is caught as not ${guarantee}`, async (t) => {
    const s = await startScenario(t)
    const url = await brokenBuild(t, s, breakage ?? ((line) => [line]), shift ?? 0)
    const recorder = new WatchRecorder({ url })
    t.teardown(() => recorder.close())
    const violations = await violationsSeenBy(s, recorder)
    const names = [...new Set(violations.map((violation) => violation.name))]
    t.ok(names.includes(`not ${guarantee}`), names.join(', '))
  })
}

void t.test('the validators find no fault in the same schedule without a fault', async (t) => {
  const s = await startScenario(t)
  const recorder = new WatchRecorder({ url: await brokenBuild(t, s, (line) => [line], 0) })
  t.teardown(() => recorder.close())
  t.same((await violationsSeenBy(s, recorder)).map(String), [])
})

async function violationsSeenBy(s: Scenario, recorder: WatchRecorder): Promise<readonly Violation[]> {
  // Each write is one revision, so that an early or late resume differs by a whole revision.
  const write = (i: number): Promise<number> =>
    s.writer.put(`/registry/pods/a/e${i % 7}`, {
      kind: 'Pod',
      apiVersion: 'v1',
      metadata: { name: `e${i % 7}`, namespace: 'a', labels: { app: 'web', i: String(i) } },
      spec: { nodeName: 'n1' },
    })
  let start = 0
  for (let i = 0; i < 10; i++) start = i === 4 ? await write(i) : (await write(i), start)
  await s.reached((await s.write()) as never)
  const watch = (): RecordedWatch => recorder.watch({ ...scopes[0]!, resourceVersion: String(start) })
  const watches = [watch(), watch()]
  for (let i = 10; i < 40; i++) await write(i)
  s.recorder = recorder
  const last = await s.writeMarks()
  await Promise.all(watches.map((each) => each.untilRevision(last)))
  return await s.violations(last)
}

/** A server with a fault: a proxy that parses the lines of a watch. */
async function brokenBuild(t: Test, s: Scenario, breakage: Breakage, shift: number): Promise<string> {
  const server = http.createServer((request, response) => {
    const url = new URL(request.url ?? '/', s.h.url)
    const asked = Number(url.searchParams.get('resourceVersion') ?? 0)
    if (asked > 0) url.searchParams.set('resourceVersion', String(asked + shift))
    const upstream = http.get(url, { agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, { 'content-type': 'application/json' })
      let rest = ''
      let n = 0
      answer.setEncoding('utf8')
      answer.on('data', (text: string) => {
        const lines = (rest + text).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) {
          const { type, object } = JSON.parse(line) as {
            type: string
            object: { metadata: { resourceVersion: string } }
          }
          // Bookmarks of the server would hide wrong order.
          if (type === 'BOOKMARK') continue
          const context = { revision: Number(object.metadata.resourceVersion), type }
          for (const told of breakage(line, n, context)) response.write(`${told}\n`)
          n++
        }
      })
      answer.on('end', () => response.end(rest))
    })
    upstream.on('error', () => response.destroy())
    response.on('close', () => upstream.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}
