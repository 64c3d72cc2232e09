/** The text of whatever was thrown: of an Error its message, of anything else its value as a string. */
export function errorMessage(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown)
  // Node's error for a host of several addresses has no words of its own.
  if (thrown.message === '' && thrown instanceof AggregateError) return thrown.errors.map(errorMessage).join(', ')
  return thrown.message
}
