/** The `exec` section of a kubeconfig, as data. Without Node's types, like `tls-client-options.ts`. */

/** A command that prints an ExecCredential. Source: Kubernetes, "client-go credential plugins". */
export interface ExecPlugin {
  readonly apiVersion: string
  /** An absolute path, or a name to look up in PATH. */
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly interactiveMode: 'Never' | 'IfAvailable' | 'Always'
  /** Shown if the command does not exist. */
  readonly installHint: string
  /** The `spec.cluster` passed to the command; null if the plugin does not request it. */
  readonly cluster: object | null
}
