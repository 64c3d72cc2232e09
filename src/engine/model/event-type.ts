/** The types of watch events, listed once: framings and encoders derive theirs from here. */
export const EVENT_TYPES = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const
export type EventType = (typeof EVENT_TYPES)[number]

/** The events that carry an object of the resource. */
export type ChangeType = Exclude<EventType, 'BOOKMARK' | 'ERROR'>
