/** Ends a program that finds out whether its runtime has something: the code is 0 if so, and 10 if not. */
export function end(hasIt: boolean): never {
  process.exit(hasIt ? 0 : 10)
}
