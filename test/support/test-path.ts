/** The PATH of tests: `nats-server` and others live where a plain user's PATH does not look. */
export const testPath = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`
