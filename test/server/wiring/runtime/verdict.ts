/** Ends a program that checks whether its runtime has a feature: the exit code is 0 if it has, and 10 if not. */
export function end(hasIt: boolean): never {
  process.exit(hasIt ? 0 : 10)
}
