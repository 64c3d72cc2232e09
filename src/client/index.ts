/**
 * `distributary/client` for Node: everything from the browser build, and the parts that read files and certificates.
 */
export * from './browser.js'
export type { Credentials, CredentialSource } from './node/exec-credentials.js'
export { fileStore, type FileStoreOptions } from './node/file-store.js'
export { kubeconfigFiles, loadKubeconfig, type Kubeconfig, type KubeconfigOptions } from './node/kubeconfig.js'
export { type NodeTransport, nodeTransport, type NodeTransportOptions } from './node/node-transport.js'
