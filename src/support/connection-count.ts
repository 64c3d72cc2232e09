/**
 * Counts the connections of a client that have brought an answer. `reusedSocket` of Node does not tell: it is false for a
 * request that waited for a connection.
 */
export class ConnectionCount {
  readonly #known = new WeakSet<object>()
  #count = 0

  get count(): number {
    return this.#count
  }

  /** To be called with the socket of each answer. */
  note(socket: object): void {
    if (this.#known.has(socket)) return
    this.#known.add(socket)
    this.#count++
  }
}
