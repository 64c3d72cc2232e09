/**
 * The part of React that the hooks use. It is declared here so that neither the package nor the types of its hooks
 * depend on React's own types.
 */
declare module 'react' {
  export function useMemo<T>(make: () => T, dependencies: readonly unknown[]): T
  export function useSyncExternalStore<S>(
    subscribe: (listener: () => void) => () => void,
    read: () => S,
    readOnServer: () => S,
  ): S
}
