/** Tests what `get` rejects, before and after requesting the list of resources. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../../support/app.js'
import { runServer } from '../../support/server-process.js'
import { type CliResult, eachAtOnce, runCli } from '../support/run-cli.js'
import { secureFlags } from '../../support/secure-flags.js'

const app = await startApp(t)
const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('each failure is reported in one line', async (t) => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['get', 'pods', 'cm/a'], /"cm\/a" names a resource, but "pods" already does/],
    [['get', 'pod/a', 'b'], /"pod\/a" is RESOURCE\/NAME, so no other name can follow/],
    [['get', 'pod/a', 'pod/b'], /no other name can follow/],
    [['get', 'pod/'], /"pod\/" is not RESOURCE\/NAME/],
    [['get', 'pod/a/b'], /is not RESOURCE\/NAME/],
    [['get', 'pods', '--resource-version', 'x'], /--resource-version must come from a list/],
    [['get', 'pod/a', '--resource-version', '5'], /--resource-version is for lists/],
    [['get', 'pods', '-w', '--resource-version', '5'], /cannot be combined/],
    [['get', 'pods', '--output-watch-events'], /needs --watch/],
    [['watch', 'pods', '--since', '1m'], /distributary watch was removed: use get -w, or get --watch-only/],
    [['get', '/api/v1/pods?limit=2'], /a path must not have a query/],
  ] // prettier-ignore
  await eachAtOnce(cases, async ([args, expected]) => {
    const { code, stdout, stderr } = await cli(...args)
    t.match({ code, stdout }, { code: 2, stdout: '' }, args.join(' '))
    t.match(stderr, expected, args.join(' '))
  })
})

void t.test('a server of the wrong kind and a missing file are reported clearly', async (t) => {
  const secure = await startApp(t, { flags: secureFlags() })
  const plainUrl = app.url.replace('http:', 'https:')
  const tlsUrl = secure.secureUrl.replace('https:', 'http:')
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['get', 'pods', '-s', plainUrl], /cannot reach https:.*: it does not speak TLS: use http:\/\/\n$/],
    [['get', 'pods', '-s', tlsUrl], /cannot reach http:.*: if it speaks TLS, use https:\/\/\n$/],
    [['get', 'pods', '--token-file', '/nowhere'], /--token-file: ENOENT.*\/nowhere/],
    [['get', 'pods', '--certificate-authority', '/nowhere'], /--certificate-authority: ENOENT/],
    [['get', 'pods', '--client-certificate', '/nowhere'], /--client-certificate: ENOENT/],
    [['get', 'pods', '--kubeconfig', '/nowhere'], /--kubeconfig: ENOENT/],
    [['get', '/healthz', '-o', 'json'], /response to \/healthz is not JSON/],
    [['get', '/healthz', '-o', 'yaml'], /response to \/healthz is not JSON/],
  ]
  await eachAtOnce(cases, async ([args, expected]) => {
    const { code, stdout, stderr } = await cli(...args)
    t.match({ code, stdout }, { code: 1, stdout: '' }, args.join(' '))
    t.match(stderr, expected, args.join(' '))
    t.equal(stderr.split('\n').length, 2, `${args.join(' ')} is one line`)
  })
})

void t.test('a kubeconfig with a proxy-url is refused, by the commands and by the server', async (t) => {
  const file = join(t.testdir(), 'kubeconfig')
  const cluster = { server: app.url, 'proxy-url': 'http://127.0.0.1:1' }
  const contexts = [{ name: 'c', context: { cluster: 'c' } }]
  writeFileSync(file, JSON.stringify({ contexts, clusters: [{ name: 'c', cluster }] }))
  const refused = /cluster "c": proxy-url is not supported/
  t.match(await cli('get', 'pods', '--kubeconfig', file), { code: 1, stdout: '', stderr: refused })
  const flags = [`--upstream=${app.url}`, `--kubeconfig=${file}`, '--port=0']
  t.match(await cli('config', 'check', ...flags), { code: 2, stderr: refused })
  t.match(await runServer(t, flags), { code: 2, stderr: refused })
})
