/** A descheduler's policy. @param strategies the arguments of each. */
export function deschedulerPolicy(strategies: Readonly<Record<string, object>>): object {
  return {
    apiVersion: 'descheduler/v1alpha2',
    kind: 'DeschedulerPolicy',
    gracePeriodSeconds: 0,
    profiles: [
      {
        name: 'all',
        pluginConfig: Object.entries({ DefaultEvictor: {}, ...strategies }).map(([name, args]) => ({ name, args })),
        plugins: { deschedule: { enabled: Object.keys(strategies) } },
      },
    ],
  }
}
