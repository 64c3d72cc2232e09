/** docs/runtimes.md says what Bun lacks, and what the server does instead. */
export const isBun = process.versions['bun'] !== undefined
