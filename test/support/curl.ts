/** The curl of the tests. */
export const curlBinary = 'curl'
