import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { buildGoProgram, type GoProgram, NoProgramError } from './go-program.js'

/** A program, and a fake `go` that runs the cases of `script`. */
function withGo(t: Test, script: string): GoProgram {
  const folder = t.testdir({
    bin: {},
    cache: {},
    program: { 'go.mod': 'module program\n', 'main.go': 'package main\n' },
  })
  const go = join(folder, 'bin', 'go')
  writeFileSync(go, `#!/bin/sh\ncase "$1" in\n${script}\nesac\n`)
  chmodSync(go, 0o755)
  const { PATH, XDG_CACHE_HOME } = process.env
  t.teardown(() => Object.assign(process.env, { PATH, XDG_CACHE_HOME: XDG_CACHE_HOME ?? '' }))
  Object.assign(process.env, { PATH: `${folder}/bin:/usr/bin:/bin`, XDG_CACHE_HOME: join(folder, 'cache') })
  return { source: join(folder, 'program') }
}

const BUILDS = `build) while [ "$1" != -o ]; do shift; done; echo built > "$2" ;;`

void t.test('a built program comes from the cache the next time', async (t) => {
  const program = withGo(t, BUILDS)
  const path = buildGoProgram(program)
  t.ok(existsSync(path))
  writeFileSync(join(t.testdirName, 'bin', 'go'), '#!/bin/sh\nexit 1\n')
  t.equal(buildGoProgram(program), path)
})

void t.test('a machine that cannot build differs from a program that does not compile', async (t) => {
  const thrown = (script: string, deadlineMs?: number): unknown => {
    try {
      return buildGoProgram(withGo(t, script), deadlineMs)
    } catch (error) {
      return error
    }
  }
  const cases = {
    'no Go': ['version) exit 1 ;;', 'Go is not installed'],
    'no way to the modules': ['list) echo "dial tcp: lookup proxy: no such host" >&2; exit 1 ;;', 'cannot be fetched'],
  } as const
  for (const [name, [script, message]] of Object.entries(cases)) {
    const error = thrown(script)
    t.ok(error instanceof NoProgramError, name)
    t.match(String(error), message)
  }
  const late = thrown('build) sleep 30 ;;', performance.now() + 1_500)
  t.ok(late instanceof NoProgramError, 'no time')
  t.match(String(late), 'no time left')
  for (const script of ['build) exit 1 ;;', 'list) echo "missing go.sum entry" >&2; exit 1 ;;']) {
    const error = thrown(script)
    t.ok(error instanceof Error && !(error instanceof NoProgramError), script)
  }
})
