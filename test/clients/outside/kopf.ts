/** An operator of kopf, unchanged: its status and its finalizer, through restarts of the server and of etcd. */
import { join } from 'node:path'
import t from 'tap'
import { until } from '../../support/until.js'
import { providePython, pythonFolder } from '../support/python.js'
import { disruptions, momentAfter } from '../support/disruptions.js'
import { startStage } from '../support/stage.js'
import { startProcess } from '../support/start-process.js'
import { list } from '../support/survive.js'
import { definitionsPath, type Widget, widget, widgetDefinition, widgetsPath } from '../support/widgets.js'

const python = providePython()

void t.test('a kopf operator keeps its status and its finalizer', async (t) => {
  const stage = await startStage(t)
  const send = async (method: string, path: string, body?: object, type = 'application/json'): Promise<Response> =>
    await fetch(stage.url + path, {
      method,
      headers: { 'content-type': type },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  t.equal((await send('POST', definitionsPath, widgetDefinition)).status, 201)
  await until(async () => (await fetch(stage.url + widgetsPath)).ok, 'widgets are served')
  const kopf = startProcess(
    t,
    [
      python,
      '-m',
      'kopf',
      'run',
      '--standalone',
      '--all-namespaces',
      '--verbose',
      join(pythonFolder, 'kopf_operator.py'),
    ],
    { KUBECONFIG: '/nonexistent', KOPF_SERVER: stage.url },
  )
  const make = async (name: string, size: number): Promise<void> => {
    t.equal((await send('POST', widgetsPath, widget(name, size))).status, 201)
  }
  const isAnswered = async (name: string, size: number): Promise<void> =>
    await until(
      async () => {
        const { status, metadata } = await list<Widget>(stage, `${widgetsPath}/${name}`)
        return status?.size === size && (metadata.finalizers ?? []).length === 1
      },
      () => `${name} is answered: ${kopf.printed()}`,
      90_000,
    )
  await make('w', 1)
  await isAnswered('w', 1)
  for (const [i, disruption] of disruptions.entries()) {
    await disruption.disrupt(stage)
    const change = { spec: { size: i + 2 } }
    t.equal((await send('PATCH', `${widgetsPath}/w`, change, 'application/merge-patch+json')).status, 200)
    await make(momentAfter(disruption), i)
    await isAnswered('w', i + 2)
    await isAnswered(momentAfter(disruption), i)
  }
  t.equal((await send('DELETE', `${widgetsPath}/w`)).status, 200)
  await until(
    async () => (await fetch(`${stage.url}${widgetsPath}/w`)).status === 404,
    () => `w is gone: ${kopf.printed()}`,
  )
  t.match(kopf.printed(), /cleaned up w/)
  t.notMatch(kopf.printed(), /Traceback/)
})
