/** The part of React that we use. Neither the package nor its hooks' types depend on React's own types. */
declare module 'react' {
  export function useMemo<T>(make: () => T, dependencies: readonly unknown[]): T
  export function useSyncExternalStore<S>(
    subscribe: (listener: () => void) => () => void,
    read: () => S,
    readOnServer: () => S,
  ): S
}
