import t from 'tap'
import { cancelReasonError, isTokenRejected, toUpstreamError } from '../../../../src/engine/upstream/etcd/etcd-error.js'
import { RpcError, RpcStatus } from '../../../../src/engine/upstream/etcd/rpc-status.js'
import { UpstreamError } from '../../../../src/engine/upstream/upstream.js'

void t.test('a refusal is classified by its text, otherwise by its code', async (t) => {
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
    [RpcStatus.NOT_FOUND, 'etcdserver: requested lease not found', 'lease-not-found'],
    [RpcStatus.INVALID_ARGUMENT, 'etcdserver: unsupported operations in txn request', 'unsupported'],
    [RpcStatus.UNAVAILABLE, 'etcdserver: no leader', 'unavailable'],
    [RpcStatus.FAILED_PRECONDITION, 'etcdserver: rpc not supported for learner', 'unavailable'],
    [RpcStatus.DATA_LOSS, 'etcdserver: corrupt cluster', 'unavailable'],
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

void t.test('a cancelled watch is classified by the text of its reason', async (t) => {
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
