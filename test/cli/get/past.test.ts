/** Tests `get` and `watch` at past revisions. */
import t from 'tap'
import { startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'
import { type CliResult, runCli, startCli } from '../support/run-cli.js'

const app = await startApp(t)
const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('get shows a past state, and the changes since', async (t) => {
  const before = app.put('pods/past/x', pod('x', { namespace: 'past', status: { phase: 'Running' } }))
  app.delete('pods/past/x')
  const at = (version: number) => cli('get', 'pods', '-n', 'past', '-o', 'name', '--resource-version', String(version))
  t.match(await at(before), { code: 0, stdout: 'pod/x\n' })
  t.match(await at(before + 1), { code: 0, stdout: '', stderr: 'no objects in namespace past\n' })
  t.match(await cli('get', 'pods', '-n', 'past', '--resource-version', String(before)), {
    code: 0,
    stdout: /^NAME.*\nx /,
  })
  t.match(await at(1), { code: 0, stdout: '' }, 'before there was anything')

  const ago = (ms: number): string => new Date(Date.now() - ms).toISOString()
  const aged = (name: string, metadata: object): void => {
    const object = pod(name, { namespace: 'ages' }) as { metadata: object }
    app.put(`pods/ages/${name}`, { ...object, metadata: { ...object.metadata, ...metadata } })
  }
  const old = ago(3_600_000)
  aged('old', { creationTimestamp: old })
  aged('new', { creationTimestamp: ago(1_000) })
  aged('changed', {
    creationTimestamp: old,
    managedFields: [
      { manager: 'x', time: old },
      { manager: 'y', time: ago(1_000) },
    ],
  })
  aged('going', { creationTimestamp: old, deletionTimestamp: ago(1_000) })
  const lately = startCli(t, ['watch', 'pods', '-n', 'ages', '--since', '10m'], { environment })
  await until(() => /ages\/changed\n[^]*ages\/going\n[^]*ages\/new\n/.test(lately.stdout()), 'what changed lately')
  t.notMatch(lately.stdout(), 'ages/old')
  t.equal(lately.stderr(), '')
})
