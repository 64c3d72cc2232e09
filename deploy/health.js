/**
 * The container's health check: requests `/livez` from the server beside it, at the configured port and scheme. It reads the
 * server's command line, environment and configuration file as the server does.
 *
 *   node health.js [FILE]     the server's command line, NUL-separated; default: of process 1
 */
import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { load } from './dist/server/config/load.js'

const words = readFileSync(process.argv[2] ?? '/proc/1/cmdline', 'utf8').split('\0')
// With an init process in front, its own arguments come before the server's.
const program = words.findIndex((word) => word.endsWith('main.js'))
const args = program === -1 ? [] : words.slice(program + 1).filter((word) => word !== '')

const loaded = load(args, process.env, (path) => readFileSync(path, 'utf8'))
if (loaded.kind !== 'run') process.exit(1)
const { bindAddress, port, securePort } = loaded.config
const host = bindAddress === '0.0.0.0' || bindAddress === '::' ? 'localhost' : bindAddress
// This checks whether the server answers, not who it is: its certificate need not name the loopback address.
const options = { host, port: securePort ?? port, path: '/livez', rejectUnauthorized: false, timeout: 2_500 }
const send = securePort === null ? httpRequest : httpsRequest
send(options, (response) => process.exit(response.statusCode === 200 ? 0 : 1))
  .once('timeout', () => process.exit(1))
  .once('error', (error) => {
    process.stderr.write(`${error.message}\n`)
    process.exit(1)
  })
  .end()
