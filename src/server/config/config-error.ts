/** Every problem in the configuration, found in one run: main prints one line per problem and exits with 2. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'

  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'))
  }
}
