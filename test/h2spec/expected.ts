/**
 * The cases of h2spec that a port does not pass. All but one fail for a bare server on the same runtime too, so they are
 * for the runtime to fix.
 */

export const ports = ['Node, TLS', 'Node', 'Bun, TLS'] as const

export type Port = (typeof ports)[number]

export interface ExpectedFailures {
  readonly on: readonly Port[]
  /** The cases, by section and name. */
  readonly cases: readonly string[]
  readonly why: string
  /** Set if the cases may also pass: with another version of the runtime, or when bytes arrive in another order. */
  readonly vary?: true
}

const node: readonly Port[] = ['Node, TLS', 'Node']
const bun: readonly Port[] = ['Bun, TLS']

export const expectedFailures: readonly ExpectedFailures[] = [
  {
    on: ports,
    cases: [
      'http2/5.1 closed: Sends a DATA frame after sending RST_STREAM frame',
      'http2/5.1 closed: Sends a DATA frame',
      'http2/5.1 closed: Sends a HEADERS frame',
      'http2/5.1.1 Sends stream identifier that is numerically smaller than previous',
    ],
    why: 'Node and Bun forget closed streams, and ignore their frames',
  },
  {
    on: node,
    cases: ['http2/5.1 closed: Sends a HEADERS frame after sending RST_STREAM frame'],
    why: 'Node forgets closed streams',
  },
  {
    on: ports,
    cases: [
      'http2/5.1 half closed (remote): Sends a DATA frame',
      'http2/5.1 half closed (remote): Sends a HEADERS frame',
      'http2/6.1 Sends a DATA frame on the stream that is not in "open" or "half-closed (local)" state',
    ],
    why: 'if the answer has ended before, the stream is a closed one',
    vary: true,
  },
  {
    on: ports,
    cases: ['http2/6.7 Sends a PING frame with ACK'],
    why: 'Node and Bun end the connection, since they have not sent that PING',
  },
  {
    on: node,
    cases: [
      'http2/6.9.1 Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1',
      'http2/6.9.1 Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream',
    ],
    why: 'Node 20 ends the connection with another code; Node may end it before it has sent the reset',
    vary: true,
  },
  {
    on: ['Node'],
    cases: ['http2/3.5 Sends invalid connection preface'],
    why: 'ours: the port also speaks HTTP/1.1, so it answers 400 before it closes the connection',
  },
  {
    on: node,
    cases: [
      'http2/5.3.1 Sends PRIORITY frame that depend on itself',
      'http2/6.3 Sends a PRIORITY frame with 0x0 stream identifier',
    ],
    why: 'Node 22 ignores priorities, which RFC 9113 deprecates',
    vary: true,
  },
  {
    on: bun,
    cases: [
      'http2/5.3.1 Sends HEADERS frame that depend on itself',
      'http2/5.3.1 Sends PRIORITY frame that depend on itself',
    ],
    why: 'Bun ignores priorities',
  },
  {
    on: bun,
    cases: ['http2/5.1 idle: Sends a DATA frame', 'http2/5.1 idle: Sends a WINDOW_UPDATE frame'],
    why: 'Bun resets the stream or ignores the frame, and keeps the connection',
  },
  {
    on: bun,
    cases: ['http2/6.9.2 Sends a SETTINGS frame for window size to be negative'],
    why: 'Bun sends more than the window allows',
  },
]
