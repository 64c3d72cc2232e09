import { spawn } from 'node:child_process'
import t from 'tap'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { type CliResult, eachAtOnce, program, runCli } from './support/run-cli.js'

const configMap = (name: string): object => ({
  kind: 'ConfigMap',
  apiVersion: 'v1',
  metadata: { name, namespace: 'default', uid: name },
})
const app = await startApp(t, {
  objects: Object.fromEntries([
    ...['a', 'b', 'c'].map((name) => [`pods/default/${name}`, pod(name)] as const),
    ...['a', 'exact', 'less', 'more'].map((name) => [`configmaps/default/${name}`, configMap(name)] as const),
  ]),
})
const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('a shell completes the names of objects', async (t) => {
  const names = async (...words: string[]): Promise<string> => {
    const { code, stdout, stderr } = await cli('completion', 'names', '--', ...words)
    t.match({ code, stderr }, { code: 0, stderr: '' }, words.join(' '))
    return stdout.trim().split('\n').join(' ')
  }
  const found: readonly (readonly [words: readonly string[], names: string])[] = [
    [['get', 'pods'], 'a b c'],
    // Names that the command line contains already are left out.
    [['get', 'pods', 'b'], 'a c'],
    [['watch', 'cm', '-n', 'default', '-o', 'json'], 'a exact less more'],
  ]
  await eachAtOnce(found, async ([words, expected]) => void t.equal(await names(...words), expected, words.join(' ')))
  const without = [
    ['get'],
    ['get', '-n'],
    ['get', 'nothing'],
    ['get', 'pods', '--halp'],
    ['top', 'pods'],
    ['get', 'pods', '-s', 'http://127.0.0.1:1'],
  ]
  await eachAtOnce(without, async (words) => void t.equal(await names(...words), '', words.join(' ')))
})

void t.test('bash asks the server for the names of objects', async (t) => {
  const script = `distributary() { ${process.execPath} ${program} "$@"; }; source <(distributary completion bash)
    COMP_WORDS=(distributary get cm e); COMP_CWORD=3; _distributary; echo "\${COMPREPLY[@]}"
    COMP_WORDS=(distributary get po); COMP_CWORD=2; _distributary; echo "\${COMPREPLY[@]}"`
  const { NODE_OPTIONS: _, ...inherited } = process.env
  // The server runs in this process, which must go on while the shell runs.
  const bash = spawn('bash', ['-c', script], {
    env: { ...inherited, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const chunks: Buffer[] = []
  bash.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  bash.stderr.on('data', (chunk: Buffer) => chunks.push(chunk))
  await new Promise((resolve) => bash.once('close', resolve))
  t.equal(Buffer.concat(chunks).toString(), 'exact\npods\n')
})
