/**
 * TLS early data (0-RTT) could be replayed by anyone who records it, so no session of this server allows any, neither
 * through the session tickets that it issues nor for a client that sends early data anyway.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { Folder } from '../server/auth/fixtures.js'
import { openssl } from '../support/openssl.js'
import { secureFlags } from '../support/secure-flags.js'
import { startServer } from '../support/server-process.js'

const REQUEST = 'GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'

/** Returns what s_client prints until the server has answered and closed. */
function request(port: number, ...flags: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const args = ['s_client', '-connect', `127.0.0.1:${port}`, '-tls1_3', '-no_ign_eof', ...flags]
    const client = execFile('openssl', args, (error, stdout) => (error === null ? resolve(stdout) : reject(error)))
    client.stdin!.write(REQUEST)
  })
}

void t.test('a session allows no early data, and early data is not answered', async (t) => {
  const folder = new Folder(t)
  const { securePort } = await startServer(t, { flags: secureFlags() })
  const session = folder.write('session', '')
  const first = await request(securePort, '-sess_out', session)
  t.match(first, 'HTTP/1.1 200 OK')
  const printed = folder.write('printed', '')
  openssl('sess_id', '-in', session, '-text', '-noout', '-out', printed)
  t.match(readFileSync(printed, 'utf8'), /TLS session ticket:/, 'the server gives out sessions')
  t.match(readFileSync(printed, 'utf8'), /Max Early Data: 0\b/)
  const early = folder.write('early', REQUEST.replace('/version', '/early'))
  const again = await request(securePort, '-sess_in', session, '-early_data', early)
  t.match(again, /Early data was (not sent|rejected)/)
  t.match(again, 'HTTP/1.1 200 OK', 'the request after the handshake is')
  // The printed session is hexadecimal, so the bare number could be a part of it.
  t.notMatch(again, 'HTTP/1.1 404')
})
