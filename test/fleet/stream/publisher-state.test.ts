/** Tests what a publishing session may write, over random histories of it. */
import t from 'tap'
import {
  mayWrite,
  nextPublisherState,
  type PublisherInput,
  type PublisherState,
  sessionOf,
} from '../../../src/fleet/stream/publisher-state.js'
import { type Random, randomInteger, seededRandom } from '../../../src/support/random.js'

type Input = PublisherInput<string>

const kinds = ['read', 'caught-up', 'relisted', 'state-written', 'end'] as const

function anInput(random: Random): Input {
  const kind = kinds[randomInteger(random, 0, kinds.length - 1)]!
  return kind === 'read' ? { kind, session: 's', continues: random.next() < 0.5 } : { kind }
}

/** Histories of random inputs, each with the states that it leads through. */
function* histories(): Generator<{ readonly inputs: Input[]; readonly states: PublisherState<string>[] }> {
  const random = seededRandom(3)
  for (let round = 0; round < 300; round++) {
    const inputs = Array.from({ length: 12 }, () => anInput(random))
    const states: PublisherState<string>[] = [{ kind: 'reading' }]
    for (const input of inputs) states.push(nextPublisherState(states.at(-1)!, input))
    yield { inputs, states }
  }
}

void t.test('nothing is written before the end of the stream is known, nor after the end of the session', (t) => {
  for (const { inputs, states } of histories()) {
    const read = inputs.findIndex(({ kind }) => kind === 'read' || kind === 'end')
    const end = inputs.findIndex(({ kind }) => kind === 'end')
    const wrong = states.findIndex(
      (state, i) => mayWrite(state) && (i <= read || read === -1 || (end !== -1 && i > end)),
    )
    if (wrong !== -1) t.fail(`${JSON.stringify(inputs)}: ${states[wrong]!.kind} after ${wrong} inputs`)
  }
  t.end()
})

void t.test(
  'a stream is called complete only by a claim, or when the feed has caught up after the last state',
  async (t) => {
    for (const { inputs, states } of histories()) {
      for (let i = 1; i < states.length; i++) {
        if (states[i]!.kind !== 'synced' || states[i - 1]!.kind === 'synced') continue
        const { kind } = inputs[i - 1]!
        const first = inputs.findIndex((input) => input.kind === 'read')
        const since = inputs.slice(first, i).map((input) => input.kind)
        const isWritten = since.lastIndexOf('state-written') >= since.lastIndexOf('relisted')
        if (kind !== 'read' && (kind !== 'caught-up' || !isWritten)) t.fail(JSON.stringify(inputs.slice(0, i)))
      }
    }
  },
)

void t.test('a session that has ended can still be closed', (t) => {
  for (const { states } of histories()) {
    const last = states.at(-1)!
    const hadSession = states.some((state) => sessionOf(state) !== null)
    if (hadSession !== (sessionOf(last) !== null)) t.fail(`${last.kind} has lost its session`)
  }
  t.end()
})
