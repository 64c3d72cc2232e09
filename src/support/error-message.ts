/** Returns a text for any thrown value: the message of an Error, or any other value as a string. */
export function errorMessage(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown)
  // Node's error for a host with several addresses has no message.
  if (thrown.message === '' && thrown instanceof AggregateError) return thrown.errors.map(errorMessage).join(', ')
  return thrown.message
}
