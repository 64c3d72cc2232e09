/** Tells failures that may pass by themselves from those that only a person can fix. */

/** The operating system gives the same answer until somebody changes permissions or paths. */
const LASTING: ReadonlySet<unknown> = new Set([
  'EACCES',
  'EPERM',
  'EINVAL',
  'EISDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'ENOTDIR',
])

/**
 * Whether the same attempt may succeed later: the operating system failed it (an address in use, no descriptors, a file
 * that is not there yet, no connection), and not for lack of permission. Wrapped errors count by their causes.
 */
export function mayPass(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { errno, code } = error as NodeJS.ErrnoException
  return typeof errno === 'number' ? !LASTING.has(code) : mayPass(error.cause)
}
