/**
 * The seeds of random tests. Every run of `npm test` uses the same ones, so that a failure says something about the
 * change. `npm run test:nightly` draws a new one for each round, and passes it in this variable.
 */
export const SEED_VARIABLE = 'TEST_SEED'

/** The only seed of a test: `fixed`, or that of the round. */
export function testSeed(fixed: number): number {
  return seedOfRound() ?? fixed
}

/** `count` seeds of a test that runs with several, from 1 or from that of the round. */
export function testSeeds(count: number): readonly number[] {
  const first = seedOfRound() ?? 1
  return Array.from({ length: count }, (_, i) => first + i)
}

function seedOfRound(): number | null {
  const text = process.env[SEED_VARIABLE]
  return text === undefined ? null : Number(text)
}

/** Whether tests with these sources use a seed that a round may choose. */
export function isRandom(sources: ReadonlySet<string>): boolean {
  return sources.has('test/support/test-seeds.ts')
}
