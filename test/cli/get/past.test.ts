/** Tests `get` at past revisions. */
import t from 'tap'
import { startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { type CliResult, runCli } from '../support/run-cli.js'

const app = await startApp(t)
const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('get shows a past state', async (t) => {
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
})
