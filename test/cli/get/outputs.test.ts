/** Tests the output formats of `get`. */
import t from 'tap'
import { keyFromText } from '../../../src/engine/model/event.js'
import { startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { type CliResult, eachAtOnce, runCli } from '../support/run-cli.js'

const BIG = '9007199254740993'
const BIGGER = '1234567890123456789'

const app = await startApp(t, {
  objects: {
    'pods/default/a': pod('a'),
    'pods/default/b': pod('b'),
    'pods/default/c': pod('c'),
    'configmaps/default/a': {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: { name: 'a', namespace: 'default', uid: 'a' },
      data: { size: '1Gi' },
    },
  },
})
/** JSON.parse would round these numbers, so they are written as text. */
const secretly = (name: string, count: string): void =>
  void app.upstream.commit([
    {
      type: 'put',
      key: keyFromText(`/registry/configmaps/default/${name}`),
      value: Buffer.from(
        `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"${name}","namespace":"default"},"count":${count}}`,
      ),
    },
  ])
secretly('exact', BIG)
secretly('more', BIGGER)

const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('get prints tables, names, JSON and YAML, with integers of any size', async (t) => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['get', 'po', '-o', 'json'], /"kind": "PodList"[^]*"resourceVersion": "\d+"[^]*"kind": "Pod",\n +"apiVersion": "v1",\n +"metadata"/],
    [['get', 'cm', '-o', 'json'], new RegExp(`"kind": "ConfigMap"[^]*"count": ${BIG}[^]*"count": ${BIGGER}`)],
    [['get', 'cm', '-o', 'yaml'], new RegExp(`^- apiVersion: v1\n {2}count: ${BIGGER}\n {2}kind: ConfigMap$`, 'm')],
    [['get', '/version'], /^\{[^]*"gitVersion"[^]*\}\n$/],
    [['get', '/version', '-o', 'yaml'], /^gitVersion: /m],
    [['get', '/healthz'], /^ok\n$/],
    [['get', '/api/v1'], /"APIResourceList"/],
  ] // prettier-ignore
  await eachAtOnce(cases, async ([args, expected]) => {
    const { code, stdout, stderr } = await cli(...args)
    t.match({ code, stderr }, { code: 0, stderr: '' }, args.join(' '))
    t.match(stdout, expected, args.join(' '))
  })
})
