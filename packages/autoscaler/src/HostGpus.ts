/**
 * The number of GPUs of this machine, for workers that receive all of them.
 */
import { readdirSync } from "node:fs"

/** Reads the device files of the NVIDIA driver. At least 1: a worker that receives all GPUs runs where there is one. */
export const hostGpus = (): number => {
  try {
    return Math.max(1, readdirSync("/dev").filter((name) => /^nvidia\d+$/.test(name)).length)
  } catch {
    return 1
  }
}
