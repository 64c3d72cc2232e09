/** Contains every problem in the configuration that one run has found. The program prints one line per problem. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  /** One message per problem, without the user and password of any URL that it quotes. */
  readonly problems: readonly string[]

  /** @param mayPass whether the same configuration may be usable later, because all that it lacks is a file. */
  constructor(
    problems: readonly string[],
    readonly mayPass = false,
  ) {
    const printable = problems.map((problem) => problem.replaceAll(/[^\s"'/@#=]+:(?!\/\/)[^\s"']*@/g, '…@'))
    super(printable.join('\n'))
    this.problems = printable
  }
}
