/**
 * A thread that sends one burst at the lowest priority. Sending takes a whole core, which would otherwise delay etcd and
 * the other client, who share that core.
 */
import { setPriority } from 'node:os'
import { workerData } from 'node:worker_threads'
import { bursts, type Ports } from './bursts.js'

const { name, ports, scale } = workerData as { readonly name: string; readonly ports: Ports; readonly scale: number }
// On Linux this changes only the calling thread.
setPriority(19)
await bursts.find((burst) => burst.name === name)!.send(ports, scale)
