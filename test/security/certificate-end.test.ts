/**
 * Client certificates expire while their connections are open (issue 18): on HTTP/1.1, on HTTP/2, and under a running
 * watch.
 */
import { once } from 'node:events'
import { connect, constants } from 'node:http2'
import { Agent, type RequestOptions, request } from 'node:https'
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import type { Clock } from '../../src/support/clock.js'
import { systemClock } from '../../src/support/clock.js'
import { Folder, issue, NOW } from '../server/auth/fixtures.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { secureFlags } from '../support/secure-flags.js'

const HOUR = 3_600_000
const PATH = '/api/v1/pods'

for (const { kind, flag, headers } of [
  { kind: 'a user', flag: '--client-ca-file', headers: {} },
  { kind: 'a front proxy', flag: '--requestheader-client-ca-file', headers: { 'X-Remote-User': 'ann' } },
] as const) {
  void t.test(
    `the certificate of ${kind} is checked against the time at every request, and its expiry ends watches`,
    async (t) => {
      let passedMs = 0
      const clock: Clock = { ...systemClock, now: () => Date.now() + passedMs }
      const authority = issue('an authority')
      const { cert, key } = issue('ann', authority, { notAfter: NOW + HOUR })
      const folder = new Folder(t)
      const flags = [...secureFlags(), flag, folder.write('ca.crt', authority.cert)]
      const h = await startApp(t, { flags, clock, objects: { 'pods/default/a': pod('a') } })

      const agent = new Agent({ cert, key, rejectUnauthorized: false, keepAlive: true, maxSockets: 1 })
      const session = connect(h.secureUrl, { cert, key, rejectUnauthorized: false })
      t.teardown(() => {
        agent.destroy()
        session.destroy()
      })
      let connections = 0
      const overHttp1 = async (path: string, options: RequestOptions = {}): Promise<IncomingMessage> => {
        const asked = request(`${h.secureUrl}${path}`, { agent, headers, ...options }).end()
        asked.once('socket', (socket) => socket.once('secureConnect', () => connections++))
        const [answer] = (await once(asked, 'response')) as [IncomingMessage]
        return answer
      }
      const overHttp2 = async (): Promise<unknown> => {
        const stream = session.request({ ':path': PATH, ...headers })
        const [answer] = (await once(stream, 'response')) as [Record<string, unknown>]
        stream.close(constants.NGHTTP2_NO_ERROR)
        return answer[':status']
      }
      const get = async (): Promise<number | undefined> => {
        const answer = await overHttp1(PATH)
        answer.resume()
        await once(answer, 'end')
        return answer.statusCode
      }
      t.equal(await get(), 200)
      t.equal(await overHttp2(), 200)
      const watching = new Agent({ cert, key, rejectUnauthorized: false })
      const watch = await overHttp1(`${PATH}?watch=1`, { agent: watching })
      t.equal(watch.statusCode, 200)
      const before = connections

      passedMs = HOUR + 1_000
      t.equal(await get(), 401)
      t.equal(await overHttp2(), 401)
      t.equal(connections, before, 'the connections are the same')
      let text = ''
      for await (const chunk of watch.setEncoding('utf8')) text += chunk as string
      t.ok(watch.complete, 'the watch ends')
      t.notMatch(text, 'ERROR')
    },
  )
}
