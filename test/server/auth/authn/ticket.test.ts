import t from 'tap'
import { NO_OBJECTS } from '../../../../src/server/auth/authn/service-account.js'
import { parseTicketKeys, TicketExpiredError, Tickets } from '../../../../src/server/auth/authn/ticket.js'
import { parseTokenFile } from '../../../../src/server/auth/authn/token-file.js'
import { unionAuthenticator } from '../../../../src/server/auth/authn/union-authenticator.js'
import type { User } from '../../../../src/server/auth/user.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import { changeable, request } from '../fixtures.js'

const PATH = '/api/v1/pods'
const BOB: User = {
  name: 'bob',
  uid: '2',
  groups: ['web', 'system:authenticated'],
  extra: { a: ['b'] },
  expiresAt: null,
}

function open(tokenFile: string | null = null) {
  const clock = new VirtualClock()
  const keys = changeable((text) => [Buffer.from(text)], 'k'.repeat(32)).files
  const tokens = tokenFile === null ? null : changeable(parseTokenFile, tokenFile)
  const objects = NO_OBJECTS
  const tickets = new Tickets({
    keys,
    tokens: tokens?.files ?? null,
    clock,
    cluster: 'default',
    objects,
    isReviewed: true,
  })
  const union = unionAuthenticator({ authenticators: [], anonymous: true, clock, tickets })
  const show = async (text: string, atMs = clock.now()) =>
    await union.authenticate({ ...request([]), ticket: { text, path: PATH, isRead: true, atMs } })
  return { clock, tickets, tokens, show }
}

void t.test('a ticket carries the user, and ends with the credential behind it', async (t) => {
  const { clock, tickets, show } = open()
  const until = clock.now() + 30_500
  const { ticket, expiresAt } = await tickets.issue({ ...BOB, expiresAt: until }, null, PATH)
  t.equal(expiresAt, clock.now() + 30_000, 'in whole seconds')
  t.same(await show(ticket), { ...BOB, expiresAt: until, byToken: false, byProxy: false })
  const openedMs = clock.now()
  clock.advance(30_000)
  t.ok((await show(ticket).catch((error: unknown) => error)) instanceof TicketExpiredError)
  t.match(await show(ticket, openedMs), { name: 'bob' }, 'a stream that it opened in time continues')
  clock.advance(600)
  await t.rejects(show(ticket, openedMs), { message: 'Unauthorized' }, 'until the credential ends')
})

void t.test('a ticket lasts a minute, and a stream opened with a token of unknown expiry ten', async (t) => {
  const { clock, tickets, show } = open('bob-token,bob,2,web')
  const [certificate, review] = [await tickets.issue(BOB, null, PATH), await tickets.issue(BOB, 'reviewed', PATH)]
  t.equal(review.expiresAt, clock.now() + 60_000)
  t.equal((await show(certificate.ticket)).expiresAt, clock.now() + 600_000, 'its authority may be taken away')
  t.equal((await show(review.ticket)).expiresAt, clock.now() + 600_000)
  // Its issuer may withdraw the key.
  const signed = await tickets.issue({ ...BOB, expiresAt: clock.now() + 3_600_000 }, 'of an issuer', PATH)
  t.equal((await show(signed.ticket)).expiresAt, clock.now() + 600_000)
  // The token ends with its pod.
  const account = { ...BOB, name: 'system:serviceaccount:web:agent', expiresAt: clock.now() + 3_600_000 }
  t.equal((await show((await tickets.issue(account, 'of a pod', PATH)).ticket)).expiresAt, clock.now() + 600_000)
})

void t.test(
  'a ticket of the token file is good for as long as the file has its token, for the same user and groups',
  async (t) => {
    const { tickets, tokens, show } = open('bob-token,bob,2,web')
    const user = { ...BOB, extra: {} }
    const { ticket } = await tickets.issue(user, 'bob-token', PATH)
    t.match(await show(ticket), { name: 'bob', expiresAt: null })
    const changeTo = (text: string): void => {
      tokens!.change(text)
      // A change counts only after it has been read twice.
      tokens!.change(text)
    }
    for (const line of ['bob-token,bob,3,web', 'bob-token,bob,2,ops', 'other,bob,2,web', 'bob-token,ann,2,web', '']) {
      changeTo(line)
      await t.rejects(show(ticket), { message: 'Unauthorized' }, line)
    }
    changeTo('x,ann,1\nbob-token,bob,2,web')
    t.match(await show(ticket), { name: 'bob' })
    t.notMatch(JSON.stringify(Buffer.from(ticket.split('.')[1]!, 'base64url').toString()), /token,|bob-token/)
  },
)

void t.test('a user with too many groups gets no ticket, since no URL could hold it', async (t) => {
  const { tickets } = open('')
  const groups = Array.from({ length: 300 }, (_, i) => `cn=group-${i},ou=groups`)
  await t.rejects(tickets.issue({ ...BOB, groups }, null, PATH), { code: 400, message: /too long for a URL/ })
})

void t.test('a key file has keys of 32 characters or more', (t) => {
  t.same(parseTicketKeys(`\n ${'a'.repeat(32)} \r\n\n${'b'.repeat(40)}`), [
    Buffer.from('a'.repeat(32)),
    Buffer.from('b'.repeat(40)),
  ])
  t.throws(() => parseTicketKeys(' \n'), { message: 'it contains no key' })
  t.throws(() => parseTicketKeys(`${'a'.repeat(32)}\nshort`), { message: 'key 2 is shorter than 32 characters' })
  t.end()
})
