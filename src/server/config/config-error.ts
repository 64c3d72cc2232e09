/**
 * Contains every problem in the configuration that one run has found. The program prints one line per problem and exits
 * with code 2.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  /** One message per problem, without the user and password of any URL that it quotes. */
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    const printable = problems.map((problem) => problem.replaceAll(/[^\s"'/@#=]+:(?!\/\/)[^\s"']*@/g, '…@'))
    super(printable.join('\n'))
    this.problems = printable
  }
}
