/**
 * A source of random numbers. It is passed to the code that needs it, so that a seeded source makes a test repeatable.
 */
export interface Random {
  /** Returns a number in [0, 1). */
  next(): number
}

export const systemRandom: Random = { next: () => Math.random() }

/** Mulberry32: small, well mixed, and the same on every machine. It must not be used for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  return {
    next() {
      state = (state + 0x6d2b79f5) >>> 0
      let t = state
      t = Math.imul(t ^ (t >>> 15), t | 1)
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
      return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
    },
  }
}

/** Returns an integer in [min, max], both included. */
export function randomInteger(random: Random, min: number, max: number): number {
  return min + Math.floor(random.next() * (max - min + 1))
}
