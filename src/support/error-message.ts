/** The text of whatever was thrown: of an Error its message, of anything else its value as a string. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
