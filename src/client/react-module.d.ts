/** The part of React that we use. The package needs no types of React, and neither do the types of its hooks. */
declare module 'react' {
  export function useMemo<T>(make: () => T, dependencies: readonly unknown[]): T
  export function useSyncExternalStore<S>(
    subscribe: (listener: () => void) => () => void,
    read: () => S,
    readOnServer: () => S,
  ): S
}
