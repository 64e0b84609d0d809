/**
 * A binary heap. Adding and removing cost the logarithm of the size.
 */
export interface MinHeap<A> {
  readonly push: (value: A) => void
  readonly peek: () => A | undefined
  readonly pop: () => A | undefined
  readonly size: () => number
}

/** An empty heap. `before(a, b)`: whether a is popped before b. */
export const make = <A>(before: (a: A, b: A) => boolean): MinHeap<A> => {
  // The children of the value at i are at 2i + 1 and 2i + 2, and never come before it.
  const values: Array<A> = []

  const swap = (i: number, j: number) => {
    const a = values[i]
    const b = values[j]
    if (a === undefined || b === undefined) return
    values[i] = b
    values[j] = a
  }

  const isBefore = (i: number, j: number): boolean => {
    const a = values[i]
    const b = values[j]
    return a !== undefined && b !== undefined && before(a, b)
  }

  return {
    peek: () => values[0],
    size: () => values.length,
    push: (value) => {
      let at = values.push(value) - 1
      while (at > 0) {
        const parent = (at - 1) >> 1
        if (!isBefore(at, parent)) return
        swap(at, parent)
        at = parent
      }
    },
    pop: () => {
      const first = values[0]
      swap(0, values.length - 1)
      values.pop()
      let at = 0
      while (true) {
        const left = 2 * at + 1
        const smaller = isBefore(left + 1, left) ? left + 1 : left
        if (!isBefore(smaller, at)) return first
        swap(at, smaller)
        at = smaller
      }
    }
  }
}
