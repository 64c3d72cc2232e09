/** Writes text with colour, or without. */
const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36 } as const

export type Colour = keyof typeof CODES

export type Paint = (colour: Colour, text: string) => string

export function painter(hasColour: boolean): Paint {
  return hasColour ? (colour, text) => `\u001b[${CODES[colour]}m${text}\u001b[0m` : (_colour, text) => text
}
