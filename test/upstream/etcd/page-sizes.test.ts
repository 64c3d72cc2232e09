/** The small rules: how large a page to ask for, whose progress to believe, what a refusal means. */
import t from 'tap'
import { keyFromText } from '../../../src/model/event.js'
import { cancelReasonError, isTokenRejected, toUpstreamError } from '../../../src/upstream/etcd/etcd-error.js'
import { RpcError, RpcStatus } from '../../../src/upstream/etcd/grpc-endpoint.js'
import { PageSizes } from '../../../src/upstream/etcd/page-sizes.js'
import { isProgressTrusted } from '../../../src/upstream/etcd/progress-trust.js'
import { UpstreamError } from '../../../src/upstream/upstream.js'

void t.test('progress on demand is believed from 3.4.31 and 3.5.13 on', async (t) => {
  for (const [version, isTrusted] of [
    ['3.3.99', false],
    ['3.4.23', false],
    ['3.4.30', false],
    ['3.4.31-rc.0', false],
    ['3.4.31', true],
    ['3.4.40', true],
    ['3.5.0', false],
    ['3.5.12', false],
    ['3.5.13', true],
    ['3.5.33', true],
    ['3.6.0-alpha.0', false],
    ['3.6.0', true],
    ['3.6.1-rc.0', true],
    ['3.10.0', true],
    ['4.0.0', true],
    ['2.3.8', false],
    ['', false],
    ['not a version', false],
  ] as const) {
    t.equal(isProgressTrusted(version), isTrusted, version)
  }
})

void t.test('pages grow and shrink towards 1 MB, in bounds', async (t) => {
  const prefix = keyFromText('/p/')
  const sizes = new PageSizes()
  t.equal(sizes.keysFor(prefix), 100)
  sizes.observe(prefix, 100, 100 * 1_024)
  t.equal(sizes.keysFor(prefix), 400, 'at most four times the last')
  sizes.observe(prefix, 400, 400 * 1_024)
  sizes.observe(prefix, 1_600, 1_600 * 1_024)
  t.equal(sizes.keysFor(prefix), 1_024)
  sizes.observe(prefix, 1_024, 1_024 * 100_000)
  t.equal(sizes.keysFor(prefix), 10, 'and down at once')
  sizes.observe(prefix, 1, 100_000_000)
  t.equal(sizes.keysFor(prefix), 1)
  for (let i = 0; i < 20; i++) sizes.observe(prefix, 10, 10)
  t.equal(sizes.keysFor(prefix), 4_000)
  sizes.observe(prefix, 0, 50)
  t.equal(sizes.keysFor(prefix), 4_000, 'an empty page teaches nothing')
  t.equal(sizes.halve(prefix, 501), true)
  t.equal(sizes.keysFor(prefix), 250)
  t.equal(sizes.halve(prefix, 2), true)
  t.equal(sizes.keysFor(prefix), 1)
  t.equal(sizes.halve(prefix, 1), false, 'one key cannot be halved')
  t.equal(sizes.keysFor(keyFromText('/other/')), 100, 'each prefix by itself')
  for (let i = 0; i < 2_000; i++) sizes.observe(keyFromText(`/${i}/`), 1, 4_000_000)
  t.equal(sizes.keysFor(keyFromText('/1999/')), 1)
  t.equal(sizes.keysFor(prefix), 100, 'the oldest are forgotten')
})

void t.test('a refusal means what its text says, and else what its code says', async (t) => {
  for (const [status, details, code] of [
    [RpcStatus.OUT_OF_RANGE, 'etcdserver: mvcc: required revision has been compacted', 'compacted'],
    [RpcStatus.OUT_OF_RANGE, 'etcdserver: mvcc: required revision is a future revision', 'future-revision'],
    [RpcStatus.PERMISSION_DENIED, 'etcdserver: permission denied', 'permission-denied'],
    [RpcStatus.UNAUTHENTICATED, 'etcdserver: invalid auth token', 'unauthenticated'],
    [RpcStatus.INVALID_ARGUMENT, 'etcdserver: authentication failed, invalid user ID or password', 'unauthenticated'],
    [RpcStatus.INVALID_ARGUMENT, 'etcdserver: user name is empty', 'unauthenticated'],
    [RpcStatus.RESOURCE_EXHAUSTED, 'etcdserver: mvcc: database space exceeded', 'no-space'],
    [RpcStatus.RESOURCE_EXHAUSTED, 'etcdserver: too many requests', 'unavailable'],
    [RpcStatus.RESOURCE_EXHAUSTED, 'grpc: trying to send message larger than max (5 vs. 4)', 'too-large'],
    [RpcStatus.INVALID_ARGUMENT, 'etcdserver: request is too large', 'too-large'],
    [RpcStatus.INVALID_ARGUMENT, 'etcdserver: duplicate key given in txn request', 'protocol'],
    [RpcStatus.UNAVAILABLE, 'etcdserver: no leader', 'unavailable'],
    [RpcStatus.UNAVAILABLE, 'etcdserver: request timed out', 'unavailable'],
    [RpcStatus.DEADLINE_EXCEEDED, 'Deadline exceeded', 'unavailable'],
    [RpcStatus.CANCELLED, 'Cancelled on client', 'unavailable'],
    [RpcStatus.INTERNAL, 'Received RST_STREAM', 'unavailable'],
    [RpcStatus.UNKNOWN, 'who knows', 'unavailable'],
    [RpcStatus.UNIMPLEMENTED, 'unknown service', 'protocol'],
  ] as const) {
    const cause = new RpcError(status, details)
    const error = toUpstreamError(cause, 'http://etcd:2379')
    t.match(error, { name: 'UpstreamError', code, cause }, details)
    t.match(error.message, details)
    t.match(error.message, 'http://etcd:2379')
  }
  const own = new UpstreamError('no-space', 'x')
  t.equal(toUpstreamError(own, ''), own)
  t.match(toUpstreamError(new TypeError('ours'), ''), { code: 'protocol', message: 'ours' })
})

void t.test('a cancelled watch has only words', async (t) => {
  for (const [reason, code] of [
    ['rpc error: code = PermissionDenied desc = etcdserver: permission denied', 'permission-denied'],
    ['rpc error: code = Unauthenticated desc = etcdserver: invalid auth token', 'unauthenticated'],
    ['', 'unavailable'],
  ] as const) {
    t.match(cancelReasonError(reason, 'http://etcd:2379'), { code })
  }
  t.equal(isTokenRejected('rpc error: code = Unauthenticated desc = etcdserver: invalid auth token'), true)
  t.equal(isTokenRejected('etcdserver: revision of auth store is old'), true)
  t.equal(isTokenRejected('etcdserver: permission denied'), false)
})
