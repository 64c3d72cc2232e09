/**
 * A thread that sends one burst, with the lowest priority: sending it takes a whole core, and the delay of the other
 * client on that core, and of etcd, would measure that.
 */
import { setPriority } from 'node:os'
import { workerData } from 'node:worker_threads'
import { bursts, type Ports } from './bursts.js'

const { name, ports, scale } = workerData as { readonly name: string; readonly ports: Ports; readonly scale: number }
// Of this thread, on Linux.
setPriority(19)
await bursts.find((burst) => burst.name === name)!.send(ports, scale)
