/** Collects the elements of an async iterable. */
export const collect = async <A>(elements: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const all: Array<A> = []
  for await (const element of elements) all.push(element)
  return all
}
