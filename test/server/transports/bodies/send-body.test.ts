import { request } from 'node:http'
import t from 'tap'
import { startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'

void t.test('an unread list is cut off after --request-timeout, and its bytes are freed', async (t) => {
  const filler = 'x'.repeat(20_000)
  const objects = Object.fromEntries(
    Array.from({ length: 1_000 }, (_, i) => [`pods/default/p${i}`, pod(`p${i}`, { spec: { filler } })]),
  )
  const app = await startApp(t, { objects, config: { requestTimeout: 300 } })
  let ended = false
  const asked = request(`${app.url}/api/v1/pods?resourceVersion=0`, { agent: false }, (response) => {
    response.pause()
    response.on('close', () => (ended = true))
    response.on('error', () => {})
  })
  asked.on('error', () => (ended = true))
  asked.on('close', () => (ended = true))
  asked.end()
  t.teardown(() => asked.destroy())
  await until(() => {
    // A paused socket notices its end only when it is read.
    asked.socket?.read()
    return ended
  }, 'the connection is cut')
  const again = await fetch(`${app.url}/api/v1/pods?limit=1`)
  t.equal(again.status, 200, 'others are answered')
  await again.text()
})
