/** The part of a logger that stages use; pino satisfies it by shape. Each change of state is one line. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} }
