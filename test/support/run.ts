/**
 * `npm test -- [TEST…]`: compiles the tests and what they load, installs or asks for the programs they need, runs tap,
 * and ends with the line `N passed, N failed`. Arguments select tests by file or folder; the default is all except the
 * scenarios of `npm run test:system`. `--install` lets it install missing programs with sudo.
 *
 * `npm run test:nightly -- [--rounds N] [--seed N] [TEST…]`: the random tests, each round with a new seed, which is
 * printed. `--seed` repeats one.
 *
 * The counts are tap's own, of assertions; a run that fails without a failed assertion (a bail-out, a runner that died)
 * counts as one more failure, so that it never looks green.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { compile } from './compile.js'
import { sourcesOf } from './imports.js'
import { bundlePrograms, startsPrograms } from './program.js'
import { provideRequirements } from './requirements.js'
import { type Outcome, runTap } from './run-tap.js'
import { moduleTests, selectTests, systemTests } from './select-tests.js'
import { isRandom, SEED_VARIABLE } from './test-seeds.js'
import { fail, verdict } from './verdict.js'

/** At full size some files take longer. */
const LIMITS = process.env['TEST_LONG'] === undefined ? {} : { seconds: 1_800 }

async function main(): Promise<number> {
  const { values, positionals: names } = parseArgs({
    options: {
      rounds: { type: 'string' },
      seed: { type: 'string' },
      system: { type: 'boolean', default: false },
      install: { type: 'boolean', default: false },
    },
    allowPositionals: true,
  })
  const isNightly = values.rounds !== undefined || values.seed !== undefined
  const rounds = Number(values.rounds ?? 1)
  if (!Number.isSafeInteger(rounds) || rounds < 1) return fail(`--rounds ${values.rounds} is not a number of rounds`)
  if (values.seed !== undefined && !/^\d{1,9}$/.test(values.seed)) return fail(`--seed ${values.seed} is not a seed`)
  const chosen =
    names.length > 0
      ? selectTests(names)
      : [...(values.system ? [] : moduleTests()), ...(values.system || isNightly ? systemTests() : [])]
  const files = chosen.filter((file) => !isNightly || isRandom(sourcesOf([file])))
  if (files.length === 0) return fail('none of these tests is random')
  const sources = sourcesOf(files)
  const lack = provideRequirements(sources, values.install)
  if (lack !== null) return fail(lack)
  await compile(new Set([...sources, ...sourcesOf(['test/support/run-tap.ts'])]))
  if (startsPrograms(sources)) await bundlePrograms()
  return verdict(isNightly ? await runRounds(files, rounds, values.seed) : await runTap(files, LIMITS))
}

async function runRounds(files: readonly string[], rounds: number, given: string | undefined): Promise<Outcome> {
  let passed = 0
  let failed = 0
  const failures: string[] = []
  for (let round = 1; round <= rounds; round++) {
    const seed = given ?? String(randomInt(1e9))
    process.stdout.write(`== round ${round} of ${rounds}, seed ${seed}\n`)
    process.env[SEED_VARIABLE] = seed
    const outcome = await runTap(files)
    passed += outcome.passed
    failed += outcome.failed
    if (outcome.failed > 0) failures.push(seed)
  }
  for (const seed of failures) process.stdout.write(`failed: npm run test:nightly -- --rounds 1 --seed ${seed}\n`)
  return { passed, failed }
}

process.exitCode = await main()
