/** A thread that does what its message says: normal jobs, and jobs that exceed each limit. */
import { serveJobs } from '../../src/support/serve-jobs.js'

serveJobs(async (message, call) => {
  const [what, ...values] = message as readonly unknown[]
  switch (what) {
    case 'echo':
      return values
    case 'call':
      return await call('ask', values)
    case 'hang':
      for (;;);
    case 'fill':
      for (const kept: unknown[] = []; ;) kept.push({ kept: kept.length })
    case 'exit':
      return process.exit(3)
    default:
      throw new Error(`what is ${String(what)}?`)
  }
})
