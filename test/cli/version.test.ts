import t from 'tap'
import { startApp } from '../support/app.js'
import { type CliResult, runCli } from './support/run-cli.js'

const app = await startApp(t)
const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('version prints the client’s and the server’s version, or the client’s alone', async (t) => {
  const both = await cli('version')
  t.match(both, { code: 0, stderr: '', stdout: /^client: \d+\.\d+\.\d+\nserver: v\d.*\n$/ })
  t.match(JSON.parse((await cli('version', '-o', 'json')).stdout) as object, {
    clientVersion: /^\d/,
    serverVersion: { gitVersion: /^v/ },
  })
  t.match(
    (await cli('version', '--client', '-o', 'yaml', '-s', 'http://127.0.0.1:1')).stdout,
    /^clientVersion: "?\d[\d.]+"?\n$/,
  )
  t.match(await cli('version', '-s', 'http://127.0.0.1:1'), { code: 1, stderr: /cannot reach/ })
})
