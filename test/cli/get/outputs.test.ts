/** Tests of the forms and orders in which `get` prints objects, of one resource and of several. */
import t from 'tap'
import { keyFromText } from '../../../src/model/event.js'
import { startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { type CliResult, eachAtOnce, runCli } from '../support/run-cli.js'

const BIG = '9007199254740993'
const BIGGER = '1234567890123456789'

const app = await startApp(t, {
  objects: {
    'pods/default/a': pod('a', { spec: { nodeName: 'n2', containers: [{ image: 'x' }, { image: 'y' }] } }),
    'pods/default/b': pod('b', { spec: { nodeName: 'n1' } }),
    'pods/default/c': pod('c', {}),
    'configmaps/default/a': {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: { name: 'a', namespace: 'default', uid: 'a' },
      data: { size: '1Gi' },
    },
  },
})
/** JSON.parse would round these numbers, so they are written as text. */
const secretly = (name: string, count: string, size: string): void =>
  void app.upstream.commit([
    {
      type: 'put',
      key: keyFromText(`/registry/configmaps/default/${name}`),
      value: Buffer.from(
        `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"${name}","namespace":"default"},"data":{"size":"${size}"},"count":${count}}`,
      ),
    },
  ])
secretly('exact', BIG, '500Mi')
secretly('more', BIGGER, '2Ki')
secretly('less', '-9007199254740993', '100m')

const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('get prints custom columns, in any order, of several resources, with integers of any size', async (t) => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [
      ['get', 'pods', '-o', 'custom-columns=NAME:.metadata.name,NODE:{.spec.nodeName},IMAGES:.spec.containers[*].image'],
      /^NAME {3}NODE {5}IMAGES\na {6}n2 {7}x,y\nb {6}n1 {7}<none>\nc {6}<none> {3}<none>\n$/,
    ],
    [['get', 'pod/a', '--no-headers', '-o', 'custom-columns=N:metadata.name'], /^a\n$/],
    [['get', 'pods', '-o', 'custom-columns=X:.spec.containers[?(@.image=="x,")].image', '--no-headers'], /^(<none>\n){3}$/],
    [['get', 'pods', '--sort-by', '.spec.nodeName', '-o', 'name'], /^pod\/c\npod\/b\npod\/a\n$/],
    [['get', 'pods', '--sort-by={.spec.nodeName}'], /^NAME[^\n]*\nc .*\nb .*\na .*\n$/],
    [['get', 'cm', '--sort-by', '.count', '-o', 'name'], /^configmap\/a\nconfigmap\/less\nconfigmap\/exact\nconfigmap\/more\n$/],
    [['get', 'cm', '--sort-by', '.data.size', '-o', 'name'], /^configmap\/less\nconfigmap\/more\nconfigmap\/exact\nconfigmap\/a\n$/],
    [['get', 'cm', 'exact', '-o', 'jsonpath={.count}'], new RegExp(`^${BIG}$`)],
    [['get', 'cm', '-o', 'jsonpath={.items[*].count}'], new RegExp(`^${BIG} -${BIG} ${BIGGER}$`)],
    [['get', 'cm', '-o', `jsonpath={.items[?(@.count>${BIG})].metadata.name}`], /^more$/],
    [['get', 'cm', '-o', `jsonpath={.items[?(@.count==${BIG})].metadata.name}`], /^exact$/],
    [['get', 'cm', 'more', '-o', 'custom-columns=C:.count', '--no-headers'], new RegExp(`^${BIGGER}\n$`)],
    [['get', 'cm', '--sort-by', '.count', '-o', 'json'], new RegExp(`"count": -${BIG}[^]*"count": ${BIG}[^]*"count": ${BIGGER}`)],
    [['get', 'cm', '--sort-by', '.count', '-o', 'yaml'], new RegExp(`count: ${BIGGER}$`, 'm')],
    [['get', 'pods,cm'], /^NAME .*\npod\/a .*\npod\/b .*\npod\/c .*\n\nNAME .*\nconfigmap\/a .*\nconfigmap\/exact /],
    [['get', 'pods,configmaps', 'a', '-o', 'name'], /^pod\/a\nconfigmap\/a\n$/],
    [['get', 'po/b', 'cm/a', 'pod/a', '-o', 'name'], /^pod\/b\nconfigmap\/a\npod\/a\n$/],
    [['get', 'po/b', 'po/a'], /^NAME .*\nb .*\na .*\n$/],
    [['get', 'po,cm', '-o', 'jsonpath={range .items[*]}{.kind}/{.metadata.name} {end}'], /^Pod\/a Pod\/b Pod\/c ConfigMap\/a ConfigMap\/exact /],
    [['get', 'po', '-o', 'json'], /"kind": "PodList"[^]*"resourceVersion": "\d+"[^]*"kind": "Pod",\n +"apiVersion": "v1",\n +"metadata"/],
    [['get', 'cm', '-o', 'json'], new RegExp(`"kind": "ConfigMap"[^]*"count": ${BIG}[^]*"count": ${BIGGER}`)],
    [['get', 'cm', '-o', 'yaml'], new RegExp(`^- kind: ConfigMap\n {2}apiVersion: v1\n[^]*count: ${BIGGER}$`, 'm')],
    [['get', '/version'], /^\{[^]*"gitVersion"[^]*\}\n$/],
    [['get', '/version', '-o', 'yaml'], /^gitVersion: /m],
    [['get', '/healthz'], /^ok\n$/],
    [['get', '/api/v1'], /"APIResourceList"/],
    [['get', 'po,cm', '-o', 'json'], new RegExp(`"kind": "List"[^]*"kind": "Pod"[^]*"kind": "ConfigMap"[^]*"count": ${BIGGER}`)],
  ] // prettier-ignore
  await eachAtOnce(cases, async ([args, expected]) => {
    const { code, stdout, stderr } = await cli(...args)
    t.match({ code, stderr }, { code: 0, stderr: '' }, args.join(' '))
    t.match(stdout, expected, args.join(' '))
  })
})
