/** Child processes that must not outlive a test process that ends without its teardowns. */
import type { ChildProcess } from 'node:child_process'

const children = new Set<ChildProcess>()

/** One listener for all: Node warns of a leak at the eleventh, and a test may run more children at once. */
function killAll(): void {
  for (const child of children) child.kill('SIGKILL')
}

export function endsWithUs(child: ChildProcess): void {
  if (children.size === 0) process.once('exit', killAll)
  children.add(child)
  child.once('exit', () => {
    children.delete(child)
    if (children.size === 0) process.off('exit', killAll)
  })
}
