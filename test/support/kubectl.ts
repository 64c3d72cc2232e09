/** The kubectl of the tests: another one than the installed one where `KUBECTL_BIN` names it. */
export const kubectlBinary = process.env['KUBECTL_BIN'] ?? 'kubectl'
