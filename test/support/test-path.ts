/** The PATH of tests: `nats-server` and others are installed outside a plain user's PATH. */
export const testPath = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`
