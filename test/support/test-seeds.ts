/**
 * The seeds of random tests. Every run of `npm test` has the same ones, so that a red run says something about the
 * change. `npm run test:nightly` draws a new one for each of its rounds, and hands it on by this variable.
 */
export const SEED_VARIABLE = 'TEST_SEED'

/** The only seed of a test: `fixed`, or that of the round. */
export function testSeed(fixed: number): number {
  return seedOfRound() ?? fixed
}

/** Seeds of a test that runs with several: `count` of them, from 1 or from that of the round on. */
export function testSeeds(count: number): readonly number[] {
  const first = seedOfRound() ?? 1
  return Array.from({ length: count }, (_, i) => first + i)
}

function seedOfRound(): number | null {
  const text = process.env[SEED_VARIABLE]
  return text === undefined ? null : Number(text)
}

/** Whether tests with these sources draw from a seed that a round may choose. */
export function isRandom(sources: ReadonlySet<string>): boolean {
  return sources.has('test/support/test-seeds.ts')
}
