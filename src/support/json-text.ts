/** Parses text that may not be JSON. @returns undefined if it is not. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
