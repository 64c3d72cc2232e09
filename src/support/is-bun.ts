/** Whether the runtime is Bun. docs/guide/runtimes.md lists what Bun lacks, and what the server does instead. */
export const isBun = process.versions['bun'] !== undefined
