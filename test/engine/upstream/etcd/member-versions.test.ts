/**
 * Tests what is expected of which version, with stand-in servers that claim other versions than the installed etcd and
 * answer progress requests too early, as old versions did.
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { Server, ServerCredentials, type ServerDuplexStream, type sendUnaryData } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import type { Revision } from '../../../../src/engine/model/revision.js'
import { connectEtcd } from '../../../../src/engine/upstream/etcd/etcd-upstream.js'
import {
  hasAuthBypass,
  hasRangeStream,
  hasFastKeysOnly,
  isProgressTrusted,
} from '../../../../src/engine/upstream/etcd/member-versions.js'
import type { Upstream } from '../../../../src/engine/upstream/upstream.js'
import { nextTurn, VirtualClock } from '../../../support/virtual-clock.js'
import { recordWatch, type WatchRecorder } from '../watch-recorder.js'

const prefix = keyFromText('/p/')

const identity = (bytes: Buffer): Buffer => bytes
const method = { requestStream: false, responseStream: false, requestSerialize: identity, requestDeserialize: identity }
const wire = { ...method, responseSerialize: identity, responseDeserialize: identity }

interface StandIn {
  readonly url: string
  version: string
  progressRequests: number
  stop(): void
}

void t.test('progress on demand is trusted from 3.4.31 and 3.5.13 on', async (t) => {
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

void t.test('ranges of keys without values omit leases from 3.7 on', async (t) => {
  for (const version of ['3.7.0', '3.8.0-alpha.0', '4.0.0']) t.equal(hasFastKeysOnly(version), true, version)
  for (const version of ['3.4.31', '3.6.9', '3.7.0-rc.1', '']) t.equal(hasFastKeysOnly(version), false, version)
})

void t.test('lists are streamed from 3.7 on', async (t) => {
  for (const version of ['3.7.0', '3.7.3', '3.8.0-alpha.0', '4.0.0']) t.equal(hasRangeStream(version), true, version)
  for (const version of ['3.4.31', '3.6.9', '3.7.0-rc.1', '']) t.equal(hasRangeStream(version), false, version)
})

void t.test('progress on demand is requested and trusted only when every endpoint is new enough', async (t) => {
  const [one, other] = [await standIn(t, '3.5.13'), await standIn(t, '3.4.23')]
  const upstream = connect(t, one, other)
  const recorder = recordWatch(upstream, prefix, 5 as Revision)
  await recorder.until('open', (r) => r.isOpen)

  recorder.watch.requestProgress()
  t.equal((await upstream.status()).trustsProgress, false)
  recorder.watch.requestProgress()
  // Requests on one connection arrive in order: once this one is answered, the earlier ones have been seen.
  const barrier = recordWatch(upstream, prefix, 5 as Revision)
  await Promise.all([settled(recorder, one), settled(barrier, one)])
  barrier.watch.close()
  t.equal(one.progressRequests, 0, 'not even asked, before the versions are known and after')
  t.same(recorder.progress, [7], 'periodic progress of any version is passed on')

  other.version = '3.5.14'
  t.equal((await upstream.status()).trustsProgress, true)
  recorder.watch.requestProgress()
  await recorder.until('progress', (r) => r.progress.length === 2)
  t.same(recorder.progress, [7, 42])
  recorder.watch.close()
})

void t.test('an unreachable endpoint counts with its last known version', async (t) => {
  const [one, other] = [await standIn(t, '3.5.13'), await standIn(t, '3.6.0')]
  const upstream = connect(t, one, other)
  t.equal((await upstream.status()).trustsProgress, true)
  other.stop()
  const status = await upstream.status()
  t.same(status.serverVersions, ['3.5.13'])
  t.equal(status.trustsProgress, true, 'seen before')
  const late = connect(t, one, other)
  t.equal((await late.status()).trustsProgress, false, 'never seen')
})

void t.test('a member that reports its version later is trusted without a further request', async (t) => {
  const [one, other] = [await standIn(t, '3.5.13'), await standIn(t, '')]
  const clock = new VirtualClock()
  const upstream = connectEtcd({ endpoints: [one.url, other.url], clock })
  t.teardown(() => upstream.close())
  t.equal((await upstream.status()).trustsProgress, false)
  const recorder = recordWatch(upstream, prefix, 5 as Revision)
  await recorder.until('open', (r) => r.isOpen)
  t.equal(upstream.trustsProgress, false)

  other.version = '3.5.14'
  clock.advance(2_000)
  for (const end = Date.now() + 10_000; !upstream.trustsProgress && Date.now() < end;) await nextTurn()
  t.equal(upstream.trustsProgress, true, 'the check for lagging members has answered')
  recorder.watch.requestProgress()
  await recorder.until('progress', (r) => r.progress.includes(42 as Revision))
  recorder.watch.close()
})

void t.test('untrusted progress for all watchers is ignored', async (t) => {
  const old = await standIn(t, '3.4.23', { isTalkative: true })
  const upstream = connect(t, old)
  const recorder = recordWatch(upstream, prefix, 5 as Revision)
  await settled(recorder, old)
  t.same(recorder.progress, [7])
  recorder.watch.close()
})

/** The stand-in sends its periodic progress after everything else. */
async function settled(recorder: WatchRecorder, server: StandIn): Promise<void> {
  await recorder.until(`progress of ${server.url}`, (r) => r.progress.includes(7 as Revision))
}

function connect(t: Test, ...servers: StandIn[]): Upstream {
  const upstream = connectEtcd({ endpoints: servers.map(({ url }) => url), connectTimeoutMs: 500 })
  t.teardown(() => upstream.close())
  return upstream
}

async function standIn(t: Test, version: string, options: { isTalkative?: boolean } = {}): Promise<StandIn> {
  const server = new Server()
  const self: StandIn = { url: '', version, progressRequests: 0, stop: () => server.forceShutdown() }
  const header = (writer: BinaryWriter, revision: number): BinaryWriter =>
    writer
      .tag(1, WireType.LengthDelimited)
      .fork()
      .tag(1, WireType.Varint)
      .uint64(11)
      .tag(3, WireType.Varint)
      .int64(revision)
      .join()
  const bytes = (writer: BinaryWriter): Buffer => Buffer.from(writer.finish())
  const progress = (watchId: number, revision: number): Buffer =>
    bytes(header(new BinaryWriter(), revision).tag(2, WireType.Varint).int64(watchId))

  server.addService(
    { Status: { ...wire, path: '/etcdserverpb.Maintenance/Status' } },
    {
      Status: (_: unknown, answer: sendUnaryData<Buffer>) =>
        answer(null, bytes(header(new BinaryWriter(), 9).tag(2, WireType.LengthDelimited).string(self.version))),
    },
  )
  server.addService(
    { Watch: { ...wire, requestStream: true, responseStream: true, path: '/etcdserverpb.Watch/Watch' } },
    {
      Watch: (call: ServerDuplexStream<Buffer, Buffer>) => {
        call.on('data', (request: Buffer) => {
          if (request[0] === 0x1a) {
            self.progressRequests++
            call.write(progress(-1, 42))
            return
          }
          call.write(bytes(header(new BinaryWriter(), 9).tag(3, WireType.Varint).bool(true)))
          if (options.isTalkative) call.write(progress(-1, 42))
          call.write(progress(0, 7))
        })
        call.on('error', () => {})
      },
    },
  )
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  )
  t.teardown(() => server.forceShutdown())
  return Object.assign(self, { url: `http://127.0.0.1:${port}` })
}

void t.test('releases whose roles can be bypassed', (t) => {
  for (const version of ['3.4.23', '3.5.32', '3.6.13', '3.7.0', '3.7.1-rc.0']) t.ok(hasAuthBypass(version), version)
  for (const version of ['3.5.33', '3.6.14', '3.7.1', '3.8.0']) t.notOk(hasAuthBypass(version), version)
  t.end()
})
