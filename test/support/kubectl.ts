/** The kubectl of the tests: the installed one, or that of `KUBECTL_BIN`. */
export const kubectlBinary = process.env['KUBECTL_BIN'] ?? 'kubectl'
