/** Counts the parts that are delivered, and the most that come in one turn of the event loop. */
export class PartsInTurns {
  all = 0
  mostInTurn = 0
  #inTurn = 0
  #isDone = false

  constructor() {
    this.#turn()
  }

  /** Call for each part; takes longer than any slice. */
  part(): void {
    this.all++
    this.mostInTurn = Math.max(this.mostInTurn, ++this.#inTurn)
    takeLong()
  }

  done(): void {
    this.#isDone = true
  }

  #turn(): void {
    this.#inTurn = 0
    if (!this.#isDone) setImmediate(() => this.#turn())
  }
}

/** Takes longer than any slice. */
export function takeLong(): void {
  for (const endMs = performance.now() + 6; performance.now() < endMs;);
}
