/** curl over both plain protocols, as people and scripts use it. */
import { execFile, spawn } from 'node:child_process'
import t from 'tap'
import { startApp } from '../support/app.js'
import { curlBinary } from '../support/curl.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

function curl(...args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(curlBinary, ['-sS', '--max-time', '20', ...args], (error, out, err) =>
      error === null ? resolve(out) : reject(new Error(err)),
    )
  })
}

for (const protocol of ['--http1.1', '--http2-prior-knowledge', '--http2']) {
  void t.test(`curl ${protocol}`, async (t) => {
    const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
    const pods = `${h.url}/api/v1/pods`
    const version = protocol === '--http2-prior-knowledge' ? '2' : '1.1'
    t.equal(await curl(protocol, '-o', '/dev/null', '-w', '%{http_code} %{http_version}', pods), `200 ${version}`)
    t.match(await curl(protocol, pods), /^\{\n {2}"kind": "PodList"/, 'indented, for people')
    t.match(await curl(protocol, '-H', 'Accept: application/yaml', pods), /^kind: PodList$/m)
    t.match(await curl(protocol, '--compressed', pods), '"PodList"')
    t.equal(await curl(protocol, '-I', '-o', '/dev/null', '-w', '%{http_code}', pods), '200')
    t.match(
      await curl(protocol, '-H', 'Accept: text/event-stream', `${pods}?watch=1&timeoutSeconds=1`),
      /^event: ADDED$/m,
    )
    const watch = spawn(curlBinary, ['-sSN', protocol, `${pods}?watch=1`])
    t.teardown(() => watch.kill('SIGKILL'))
    let heard = ''
    watch.stdout.on('data', (bytes: Buffer) => (heard += bytes.toString()))
    await until(() => heard.endsWith('\n'), 'the state')
    h.put('pods/default/b', pod('b'))
    await until(() => heard.split('\n').length === 3, 'the event')
    t.same(
      heard
        .split('\n')
        .slice(0, 2)
        .map((line) => (JSON.parse(line) as { object: { metadata: { name: string } } }).object.metadata.name),
      ['a', 'b'],
    )
  })
}
