export interface Closable {
  close(): void
}
