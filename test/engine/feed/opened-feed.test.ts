/** Values that no key can decrypt are retried once they are in the cache, because until then nothing keeps track of them. */
import t from 'tap'
import { openedFeed } from '../../../src/engine/feed/opened-feed.js'
import type { FeedRequest, ResourceFeed } from '../../../src/engine/feed/resource-feed.js'
import { keyFromText, type KeyValue } from '../../../src/engine/model/event.js'
import type { FeedSink } from '../../../src/engine/model/feed-sink.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import { systemClock as clock } from '../../../src/support/clock.js'
import { until } from '../../support/until.js'

const revision = 1 as Revision
const keyValue: KeyValue = {
  key: keyFromText('/registry/secrets/a/b'),
  value: Buffer.from('sealed'),
  createRevision: revision,
  modRevision: revision,
  version: 1,
  leaseId: '0',
}

function opening(sealed: string | undefined): { readonly sink: FeedSink; readonly calls: string[] } {
  const calls: string[] = []
  const told = (call: string) => () => void calls.push(call)
  const inner = {
    replace: () => ({ add: told('add'), commit: told('commit'), abort: told('abort') }),
    apply: told('apply'),
  } as unknown as FeedSink
  let sink: FeedSink | null = null
  const transform = {
    open: async (given: KeyValue) => await Promise.resolve(sealed === undefined ? given : { ...given, sealed }),
    seal: (_key: unknown, value: Buffer) => value,
  }
  const request = { sink: inner } as unknown as FeedRequest
  const openFeed = (opened: FeedRequest): ResourceFeed => ((sink = opened.sink), {} as ResourceFeed)
  openedFeed(openFeed, request, { transform, clock, onSealed: told('try again') })
  return { sink: sink!, calls }
}

const tries = [
  ['away', ['add', 'commit', 'try again', 'apply', 'try again']],
  [undefined, ['add', 'commit', 'apply']],
] as const
for (const [sealed, expected] of tries) {
  void t.test(`the plugin is ${sealed ?? 'there'}`, async (t) => {
    const { sink, calls } = opening(sealed)
    const replacement = sink.replace(revision, 'start' as never)
    replacement.add([keyValue])
    replacement.commit()
    sink.apply([{ revision, events: [{ type: 'put', keyValue }] } as never])
    await until(() => calls.length >= expected.length, 'everything is handed on')
    t.strictSame(calls, expected)
  })
}
