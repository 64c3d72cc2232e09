/**
 * Measures every figure of the README, in less than half an hour on two cores once the peers are built. It builds
 * nothing: what is not there is skipped by name.
 */
import { agents } from './agents.js'
import { fanout } from './fanout.js'
import { relief } from './relief.js'
import type { Choice, Question } from './support/choice.js'
import { missingPeers } from './support/peers.js'
import { AGENT_SUBJECTS, LOADS, README_AGENTS } from './support/readme-rows.js'

const RELIEF_ROUNDS = 2

/** One part of the README, and the programs without which it cannot be measured. */
interface Part {
  readonly name: string
  readonly needs: readonly string[]
  readonly measure: (choice: Choice) => Promise<void>
}

const parts: readonly Part[] = [
  ...LOADS.map(({ watchers, rate, wires }) => ({
    name: `${watchers} watchers, ${rate} events/s`,
    needs: [],
    measure: (choice: Choice) =>
      fanout({
        ...choice,
        subjects: wires.map((wire) => `distributary/${wire}`),
        watchers: [choice.quick ? watchers / 100 : watchers],
        rates: [rate],
      }),
  })),
  {
    name: 'node agents',
    needs: ['etcd 3.7', 'the API server'],
    measure: (choice) =>
      agents({
        ...choice,
        subjects: AGENT_SUBJECTS,
        watchers: choice.quick ? [] : [README_AGENTS],
        shapes: ['mixed'],
      }),
  },
  {
    name: 'what a cluster gains',
    needs: ['the control plane', 'kwok'],
    measure: (choice) => relief({ ...choice, subjects: [], rounds: choice.quick ? 1 : RELIEF_ROUNDS }),
  },
]

export const readme: Question = async (choice) => {
  const [begin, missing] = [performance.now(), missingPeers()]
  const skipped: string[] = []
  for (const { name, needs, measure } of parts) {
    const lacks = needs.filter((need) => missing.includes(need))
    if (lacks.length > 0) skipped.push(`${name}, for lack of ${lacks.join(' and ')}`)
    else await measure(choice)
  }
  for (const name of skipped) process.stderr.write(`bench: skipped: ${name}\n`)
  if (missing.length > 0) {
    process.stderr.write(`bench: not built: ${missing.join(', ')}; "npm run bench -- peers" builds them\n`)
  }
  process.stderr.write(`bench: ${Math.round((performance.now() - begin) / 6_000) / 10} minutes\n`)
}
