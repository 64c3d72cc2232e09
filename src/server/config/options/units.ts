/** Units for the limits and defaults of options. */
export const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const MiB = 2 ** 20
export const GiB = 2 ** 30
