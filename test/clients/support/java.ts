/** Java with the packages of a pom.xml, from Maven's own cache. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NoProgramError } from '../../support/go-program.js'

const folders = fileURLToPath(new URL('../../../../test/clients/java/', import.meta.url))

/** The folders in `java`, each with a Follow.java. */
export type JavaClient = 'fabric8' | 'client-java' | 'jetcd'

const FETCH_MS = 5 * 60_000

/**
 * The command that compiles and runs the client's Follow.java.
 *
 * @param deadlineMs of `performance.now()`: Maven has fetched the packages by then.
 * @throws NoProgramError without Java 17, Maven or the packages.
 */
export function provideJava(client: JavaClient, deadlineMs = performance.now() + FETCH_MS): readonly string[] {
  const folder = join(folders, client)
  if (spawnSync('java', ['-version']).status !== 0) throw new NoProgramError('there is no Java')
  const output = mkdtempSync(join(tmpdir(), 'distributary-java-'))
  try {
    const classpath = join(output, 'classpath')
    const args = [
      '-q',
      '-B',
      '-f',
      join(folder, 'pom.xml'),
      'dependency:build-classpath',
      `-Dmdep.outputFile=${classpath}`,
    ]
    const timeout = Math.max(1, Math.floor(deadlineMs - performance.now()))
    const { status } = spawnSync('mvn', args, { stdio: 'ignore', timeout })
    if (status !== 0) throw new NoProgramError('Maven cannot fetch its packages')
    return ['java', '-cp', readFileSync(classpath, 'utf8').trim(), join(folder, 'Follow.java')]
  } finally {
    rmSync(output, { recursive: true, force: true })
  }
}
